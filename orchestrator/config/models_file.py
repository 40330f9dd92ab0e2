"""Read a file of the user's own models (--models-file). docs/own-models.md explains every key.

models:
  - name: bert_base
    class: transformers.BertModel
    config: {hidden_size: 768}
    input_shape:
      input_ids: [32, 128]        # the first number stands for the batch, which -b decides
"""

import enum
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import MODEL_TYPES
from orchestrator.config.own_code import NotAllowedError, Search
from orchestrator.config.yaml_file import Document, KeyPath, Value
from orchestrator.config.yaml_schema import require_known
from orchestrator.errors import ConfigError
from protocol.cell import InputSpec, ModelSpec
from protocol.own import OwnModel

PRELOAD: Final = {"transformers": ("worker.models.huggingface",), "torchvision": ("torchvision.models",)}
"""Package of a model's class → modules that the zygote imports. Code of other packages is imported in each launch.

worker.models.huggingface imports transformers and hides a broken torchvision from it.
"""


class Dtype(enum.StrEnum):
    """Types of a model's input. "float" is the type of the weights: a bf16 cell has bf16 inputs."""

    FLOAT = "float"
    FLOAT32 = "float32"
    INT64 = "int64"
    INT32 = "int32"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def floating(self) -> bool:
        """Whether this is a floating-point type. Its values are normally distributed unless a range is given."""
        return self in {Dtype.FLOAT, Dtype.FLOAT32}


TYPES: Final = tuple(kind for kind in MODEL_TYPES if kind != "probe")
_EXPONENT: Final = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?[0-9]*\.[0-9]*[eE][0-9]+")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"class_": "class"}):
    """One model of the file. class_: the key `class`, as in "net.py:Net" or "pkg.module:Net". type: one of TYPES.

    title: name in the text report; None: `name`. args, config: positional and keyword arguments of the class.
    input_shape: shape of its inputs. args, config and input_shape may hold any value here, and are checked later.
    """

    name: str
    class_: str
    type: str = "other"
    title: str | None = None
    args: list[Any] = []
    config: dict[str, Any] = {}
    input_shape: Any = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: list[Any]


class _Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    shape: list[int | str]
    dtype: Dtype = Dtype.FLOAT
    low: float | None = None
    high: float | None = None


KNOWN_INPUTS: Final = {
    "input_ids": _Input(shape=[], dtype=Dtype.INT64),
    "attention_mask": _Input(shape=[], dtype=Dtype.INT64, low=1, high=2),
    "token_type_ids": _Input(shape=[], dtype=Dtype.INT64, low=0, high=1),
}
"""Name of an input → its type and range, if the file gives its shape as a list. All other inputs default to floats."""


def read(
    path: Path, pythonpath: tuple[str, ...], *, allowed: bool, chosen: Collection[str] | None = None
) -> tuple[tuple[ModelSpec, ...], dict[str, ConfigError]]:
    """Read the file of --models-file. Return its usable models, and name → error of its unusable models.

    pythonpath: absolute folders with the user's packages. chosen: names of models that must be usable, None for all.
    allowed: whether --allow-code is given. Raises ConfigError if the file is wrong, or a model of `chosen` is unusable.
    """
    document = yaml_file.read(path)
    entries = document.convert(_File).models
    search = Search(Path(path).absolute().parent, pythonpath, allowed)
    if not entries:
        raise ConfigError(f"{document.where(('models',))}: the list is empty. Describe at least one model")
    models: list[ModelSpec] = []
    wrong: dict[str, ConfigError] = {}
    for number, entry in enumerate(entries):
        at: KeyPath = ("models", number)
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            _require_name(name, [*(model.name for model in models), *wrong], document.where((*at, "name")))
        try:
            models.append(_model(entry, at, document, search))
        except ConfigError as error:
            if chosen is None or name in chosen or not isinstance(name, str):
                raise
            wrong[name] = error
    return tuple(models), wrong


def notes(wrong: Mapping[str, ConfigError]) -> Iterator[str]:
    """Yield a sentence for each unusable model, except models that only lack --allow-code.

    wrong: name of the model → why it is unusable.
    """
    for name, error in wrong.items():
        if not isinstance(error, NotAllowedError):
            yield f"{name} is not measured here, and would fail: {str(error).rstrip('.')}"


def _model(described: Value, at: KeyPath, document: Document, search: Search) -> ModelSpec:
    entry = document.convert_part(described, _Entry, at)
    require_known(entry.type, document.where((*at, "type")), TYPES, "type")
    for key in ("args", "config"):
        _require_values(getattr(entry, key), (*at, key), document)
    located = search.locate(entry.class_, document.where((*at, "class")))
    inputs, by_name = _inputs(entry.input_shape, (*at, "input_shape"), document)
    own = msgspec.structs.replace(
        located,
        arguments=json.dumps(entry.args),
        config=json.dumps(entry.config),
        by_name=by_name,
    )
    made = spec(entry.name, own, inputs, kind=entry.type, title=entry.title)
    require_inputs(made, document.where(at))
    return made


def spec(
    name: str, own: OwnModel, inputs: tuple[InputSpec, ...] = (), *, kind: str = "other", title: str | None = None
) -> ModelSpec:
    """Return the catalogue entry of the user's own model, with its unknown size and cost as 0. kind: one of TYPES."""
    return ModelSpec(
        name=name,
        title=title or name,
        type=kind,
        family="own",
        inputs=inputs,
        parameters=0,
        inference_gflops=0.0,
        memory_mb=0,
        preload=PRELOAD.get(re.split("[.:]", own.target)[0], ()),
        own=own,
    )


def require_inputs(model: ModelSpec, origin: str) -> None:
    """Raise ConfigError if a model of transformers or torchvision has no description of its inputs.

    The user's own code may define its inputs itself, so it passes. origin: option or file that names the model, for the
    error.
    """
    if model.preload and not model.inputs:
        raise ConfigError(
            f"{origin}: the inputs of {model.name} are unknown. Describe them in a file for --models-file, with "
            "`input_shape: [32, 3, 224, 224]`, or by name with `input_shape: {input_ids: [32, 128]}`"
        )


def _require_name(name: str, before: list[str], origin: str) -> None:
    if name in before:
        raise ConfigError(f"{origin}: there are two models named {name}")
    if name == "all" or "," in name or name != name.strip() or not name.isprintable() or not name:
        raise ConfigError(f"{origin}: {name!r} is no valid name for -m. Use letters, digits, - and _")


def _require_values(value: Value, at: KeyPath, document: Document) -> None:
    """Raise ConfigError for an empty value (but null is allowed), and for a number that YAML reads as text (1e3)."""
    for path, scalar in _scalars(value, at):
        if document.nulls.get(path) == "":
            raise ConfigError(f"{document.where(path)}: the key has no value. Give a value, or remove the key")
        if isinstance(scalar, str) and _EXPONENT.fullmatch(scalar):
            raise ConfigError(
                f"{document.where(path)}: YAML reads {scalar} as text. Write {_with_point(scalar)} for the number"
            )


def _scalars(value: Value, at: KeyPath) -> Iterator[tuple[KeyPath, Value]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, (*at, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _scalars(item, (*at, number))
    else:
        yield at, value


def _with_point(number: str) -> str:
    """Rewrite a number so that YAML 1.1 reads it as a number: 1e12 becomes 1.0e+12."""
    mantissa, _, exponent = number.lower().partition("e")
    whole = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{whole}e{exponent if exponent[0] in '+-' else '+' + exponent}"


# ── input_shape ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _inputs(value: Value, at: KeyPath, document: Document) -> tuple[tuple[InputSpec, ...], bool]:
    """Return the inputs of a model, and True if they have names. value: input_shape of its entry, at the path `at`.

    A single shape or a list of shapes means inputs by position, without names.
    """
    if value is None:
        return (), False
    if isinstance(value, dict) and value and "shape" not in value:
        return tuple(_input(name, item, (*at, name), document) for name, item in value.items()), True
    if isinstance(value, list) and value and all(isinstance(item, list | dict) for item in value):
        named = enumerate(value)
        return tuple(_input(f"{number}", item, (*at, number), document) for number, item in named), False
    return (_input("0", value, at, document),), False


def _input(name: str, value: Value, at: KeyPath, document: Document) -> InputSpec:
    where = document.where(at)
    if not isinstance(value, list | dict) or not value:
        raise ConfigError(f"{where}: expected the shape of a tensor, such as [32, 3, 224, 224], batch first")
    if isinstance(value, list):
        shape: list[int | str] = document.convert_part(value, list[int | str], at)
        described = msgspec.structs.replace(KNOWN_INPUTS.get(name, _Input(shape=[])), shape=shape)
    else:
        described = document.convert_part(value, _Input, at)
    low, high = _range(name, described, where)
    return InputSpec(name=name, shape=_shape(described.shape, where), dtype=str(described.dtype), low=low, high=high)


def _shape(lengths: list[int | str], where: str) -> tuple[int | str, ...]:
    """Return the shape of an input, with the word "batch" as the length that -b decides.

    If `lengths` lacks "batch", the word replaces the first length. where: place in the file, for errors. Raises
    ConfigError for a length that is no whole number above 0, and for a second "batch".
    """
    wrong = [one for one in lengths if one != "batch" and (not isinstance(one, int) or one < 1)]
    if wrong or not lengths or lengths.count("batch") > 1:
        raise ConfigError(f"{where}: expected whole numbers of at least 1, and the word batch at most once")
    return tuple(lengths) if "batch" in lengths else ("batch", *lengths[1:])


def _range(name: str, described: _Input, where: str) -> tuple[float, float]:
    """Return the range of an input's random values: (lowest value, limit that all values are below).

    Both are 0 for normally distributed floats, for bools, and for token ids within the model's vocabulary. Raises
    ConfigError for a range that is incomplete, empty, or given for bools. name: of the input. where: its place in the
    file, begins the error message.
    """
    dtype, low, high = described.dtype, described.low, described.high
    if dtype is Dtype.BOOL and (low is not None or high is not None):
        raise ConfigError(f"{where}: a bool has no range. Remove low and high")
    if dtype.floating and (low is None) != (high is None):
        raise ConfigError(f"{where}: give both `low` and `high`. For normally distributed numbers, give neither")
    if high is None:
        if low is None and (dtype.floating or dtype is Dtype.BOOL or name.endswith("input_ids")):
            return 0, 0
        raise ConfigError(f"{where}: {dtype} numbers need `high`: the largest number plus 1 (`low` defaults to 0)")
    low = low or 0
    if not low < high or (not dtype.floating and int(high) <= int(low)):
        raise ConfigError(f"{where}: high ({high:g}) must be above low ({low:g})")
    return low, high
