"""Settings with origins, in layers: configs/default.yaml, a preset, a file, the command line."""

import enum
import functools
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from orchestrator.config import yaml_file, yaml_schema
from orchestrator.config.options import LARGEST, Kind, Option
from orchestrator.config.yaml_file import Document
from orchestrator.errors import ConfigError

T = TypeVar("T")
Value = bool | int | float | str | tuple[int | str, ...]


class Auto(enum.StrEnum):
    """Value "auto" of a batch size, which a scan will find."""

    AUTO = "auto"


@dataclass(frozen=True)
class LayeredSettings:
    """Settings by key ("benchmark.precision"). defaults: keys that no person set.

    origins: key, or item of a list ("models[0]") → where it was set, in words: "config.yaml, line 7".
    """

    values: Mapping[str, Value]
    origins: Mapping[str, str]  # in words; also of items ("models[0]")
    defaults: frozenset[str] = frozenset()  # keys that no person set

    def on_top_of(self, below: "LayeredSettings") -> "LayeredSettings":
        """Return these settings, and for all other keys the settings in `below`."""
        hidden = tuple(f"{key}[" for key in self.values)
        origins = {key: origin for key, origin in below.origins.items() if not key.startswith(hidden)}
        defaults = self.defaults | (below.defaults - self.origins.keys())
        return LayeredSettings({**below.values, **self.values}, {**origins, **self.origins}, defaults)

    def only(self, key: str) -> "LayeredSettings":
        """Return settings that contain only `key`. KeyError if it is not set."""
        return LayeredSettings({key: self.values[key]}, self.origins, self.defaults)

    def find(self, key: str, kind: type[T]) -> T | None:
        """Return the value of `key`, or None if it is not set. A value of another type than `kind`: AssertionError."""
        value = self.values.get(key)
        assert value is None or isinstance(value, kind), key
        return value

    def need(self, key: str, kind: type[T]) -> T:
        """Return the value of a key that configs/default.yaml must have.

        Raises ConfigError if no layer has it. A value of another type than `kind`: AssertionError.
        """
        value = self.find(key, kind)
        if value is None:
            raise ConfigError(f"configs/default.yaml: the key {key} is missing. Install gpubench again")
        return value

    def items(self, key: str, separator: str = ",") -> list[tuple[str, str]]:
        """Return (word, its origin) for each item of the list at `key`, or each part of a text split at `separator`.

        Empty words are kept. Raises ConfigError if `key` is not set.
        """
        value = self.values.get(key)
        if isinstance(value, tuple):
            return [(str(word), self.origin(f"{key}[{index}]", self.origins[key])) for index, word in enumerate(value)]
        return [(word.strip(), self.origins[key]) for word in self.need(key, str).split(separator)]

    def chosen(self, key: str) -> bool:
        """Whether a person set `key`, in a file or on the command line: it is set, but not one of `defaults`."""
        return key in self.origins and key not in self.defaults

    def origin(self, key: str, option: str | None = None) -> str:
        """Return where `key` was set: "config.yaml, line 7". option: returned instead if no person set it.

        KeyError if nothing sets `key` and there is no `option`.
        """
        return option if option is not None and not self.chosen(key) else self.origins[key]


NOTHING = LayeredSettings({}, {})


def from_defaults(path: Path, options: tuple[Option, ...]) -> LayeredSettings:
    """Read a file of default settings, as `from_file`, but each setting counts as not set by a person.

    options: those whose keys the file may have.
    """
    found = from_file(path, options)
    return LayeredSettings(found.values, found.origins, frozenset(found.origins))


def from_file(path: Path, options: tuple[Option, ...]) -> LayeredSettings:
    """Read a configuration file with keys of `options`. Raises ConfigError for a missing or wrong file or value."""
    document = yaml_file.read(path)
    if document.value is None or document.value == {}:
        raise ConfigError(f"{path}: the file has no keys, so it has no effect. Remove --config")
    if _describes_models(document.value):
        raise ConfigError(f"{path}: the file describes models of your own. Use --models-file {path}")
    values = _flat(document.convert(_schema(options)))
    sections = {option.key.partition(".")[0] for option in options if "." in option.key}
    for key, text in document.nulls.items():
        if not text and not (len(key) == 1 and key[0] in sections):
            raise ConfigError(f"{document.where(key)}: the key has no value. Give a value, or remove the key")
    origins = {yaml_file.spell(key): document.where(key) for key in document.lines if key not in document.nulls}
    return LayeredSettings(values, origins)


def _describes_models(value: object) -> bool:
    models = value.get("models") if isinstance(value, dict) else None
    return isinstance(models, list) and any(isinstance(one, dict) for one in models)


def from_part(document: Document, at: tuple[str, ...], options: tuple[Option, ...]) -> LayeredSettings:
    """Read default settings from the part of `document` at the keys `at`, such as ("quick", "settings").

    options: those whose keys this part may have. Raises ConfigError for an unknown key or a wrong value. Each setting
    counts as not set by a person. The part must exist.
    """
    value = document.value
    for name in at:
        assert isinstance(value, dict)
        value = value[name]
    origins = {
        yaml_file.spell(path[len(at) :]): document.where(path)
        for path in document.lines
        if path[: len(at)] == at and len(path) > len(at)
    }
    return LayeredSettings(_flat(document.convert_part(value, _schema(options), at)), origins, frozenset(origins))


def from_options(
    values: Mapping[str, object], origins: Mapping[str, str], options: tuple[Option, ...]
) -> LayeredSettings:
    """Return the settings of a command line, checked. values: key → value. origins: key → "--option".

    Raises ConfigError with the origin of a wrong value.
    """
    nested: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[name] = value
    schema = _schema(options)
    try:
        return LayeredSettings(_flat(msgspec.convert(nested, schema)), origins)
    except msgspec.ValidationError as error:
        problem = yaml_schema.explain(error, nested, schema)
        key = yaml_file.spell(tuple(part for part in problem.path if isinstance(part, str)))
        raise ConfigError(f"{origins[key]}: {problem.message}") from None


@functools.cache
def _schema(options: tuple[Option, ...]) -> type[msgspec.Struct]:
    types: dict[str, Any] = {}
    for option in options:
        section, _, name = option.key.rpartition(".")
        if name:
            (types.setdefault(section, {}) if section else types)[name] = _type(option)
    return _struct("Settings", types)


def _struct(name: str, types: Mapping[str, Any]) -> type[msgspec.Struct]:
    fields = {key: f"{key}_" if keyword.iskeyword(key) else key for key in types}
    made = [
        (fields[key], (_struct(key, kind) if isinstance(kind, dict) else kind) | None, None)
        for key, kind in types.items()
    ]
    rename = {field: key for key, field in fields.items()}
    return msgspec.defstruct(name, made, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=rename)


def _type(option: Option) -> Any:  # noqa: ANN401  # a type that msgspec reads
    number = Annotated[int, Meta(ge=option.least, le=option.most)]
    index = Annotated[int, Meta(ge=0, le=LARGEST)]
    match option.kind:
        case Kind.SWITCH:
            return bool
        case Kind.TEXT | Kind.FILE:
            return str
        case Kind.WORDS:
            return str | tuple[str, ...]
        case Kind.NUMBER:
            return number
        case Kind.NUMBERS:
            return number | tuple[number, ...]
        case Kind.BATCH_SIZES:
            return number | Auto | tuple[number, ...]
        case Kind.DEVICES:
            return index | str | tuple[index | str, ...]
        case Kind.AMOUNT:
            return float
        case Kind.SECONDS:
            return Annotated[float, Meta(gt=0) if option.least else Meta(ge=0)]


def _flat(section: msgspec.Struct, before: str = "") -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in msgspec.structs.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, msgspec.Struct):
            values |= _flat(value, f"{before}{field.encode_name}.")
        elif value is not None:
            values[f"{before}{field.encode_name}"] = value
    return values
