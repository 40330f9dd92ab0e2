"""The operators of configs/operators.yaml, with their sizes, bytes and operations resolved."""

import functools
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.formula import evaluate
from orchestrator.config.yaml_schema import require_known
from orchestrator.errors import ConfigError
from protocol.cell import DeviceKind, InputSpec, OperatorShape, OperatorSpec, Precision

SHAPES: Final = ("small", "medium", "large")
_BYTES: Final = {Precision.FP32: 4, Precision.TF32: 4, Precision.FP16: 2, Precision.BF16: 2}
_INPUT: Final = re.compile(r"(?P<shape>\S+)(?: in (?P<low>[0-9.]+?)\.\.(?P<high>[0-9.]+)| int (?P<below>\w+))?")
_Sizes = Mapping[DeviceKind, Mapping[str, Mapping[str, int]]]


class _Category(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    precisions: tuple[Precision, ...]
    tolerance: dict[Precision, float] = {}


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    category: str
    sizes: str
    inputs: tuple[str, ...]
    flops: str
    bytes: str
    tolerance: dict[Precision, float] = {}
    backward: bool = True
    variants: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tolerance: dict[Precision, float]
    categories: dict[str, _Category]
    sizes: dict[str, dict[DeviceKind, dict[str, dict[str, int]]]]
    operators: dict[str, _Entry]


@functools.cache
def load() -> dict[str, OperatorSpec]:
    """Return name → operator, in the order of configs/operators.yaml. Raises ConfigError for a broken file."""
    file = _read()
    return {name: _spec(name, entry, file, f"operators.yaml, {name}") for name, entry in file.operators.items()}


def variants(name: str) -> tuple[str, ...]:
    """Return the names of an operator's implementations besides eager and JAX. KeyError for an unknown operator."""
    return _read().operators[name].variants


def dimensions(name: str) -> tuple[str, ...]:
    """Return the names of an operator's dimensions, in the order of the file. KeyError for an unknown operator."""
    file = _read()
    return tuple(file.sizes[file.operators[name].sizes][DeviceKind.CPU][SHAPES[0]])


def sized(name: str, sizes: Mapping[str, int], label: str, origin: str) -> OperatorSpec:
    """Return the operator `name` with a single shape, called `label`, the same for all kinds of devices.

    sizes: dimension → size. origin: where the user gave them, for errors. Raises ConfigError if a dimension is missing.
    """
    known, entry = load()[name], _read().operators[name]
    shape = _shape(label, sizes, entry, tuple(known.tolerance), origin)
    return msgspec.structs.replace(known, shapes=dict.fromkeys(DeviceKind, (shape,)))


@functools.cache
def _read() -> _File:
    return yaml_file.read(configs_folder() / "operators.yaml").convert(_File)


def _spec(name: str, entry: _Entry, file: _File, origin: str) -> OperatorSpec:
    category = file.categories[require_known(entry.category, origin, file.categories, "category")]
    sizes: _Sizes = file.sizes[require_known(entry.sizes, origin, file.sizes, "sizes")]
    for of_kind in sizes.values():
        if tuple(of_kind) != SHAPES:
            raise ConfigError(f"{origin}: its sizes are {', '.join(of_kind)}, expected {', '.join(SHAPES)}")
    tolerance = file.tolerance | category.tolerance | entry.tolerance
    return OperatorSpec(
        name=name,
        category=entry.category,
        shapes={
            kind: tuple(_shape(label, found, entry, category.precisions, origin) for label, found in of_kind.items())
            for kind, of_kind in sizes.items()
        },
        tolerance={one: tolerance[one] for one in category.precisions},
        backward=entry.backward,
    )


def _shape(
    label: str, sizes: Mapping[str, int], entry: _Entry, precisions: tuple[Precision, ...], origin: str
) -> OperatorShape:
    return OperatorShape(
        name=label,
        sizes=dict(sizes),
        inputs=tuple(_input(number, text, sizes, origin) for number, text in enumerate(entry.inputs, 1)),
        flops=float(evaluate(entry.flops, sizes, origin)),
        moved={one: float(evaluate(entry.bytes, {**sizes, "s": _BYTES[one]}, origin)) for one in precisions},
    )


def _input(number: int, text: str, sizes: Mapping[str, int], origin: str) -> InputSpec:
    found = _INPUT.fullmatch(text)
    if found is None:
        raise ConfigError(f"{origin}: {text!r} is no input: expected a shape, perhaps with `in 0.5..2` or `int v`")
    shape = tuple(evaluate(part, sizes, origin) for part in found["shape"].split(","))
    if found["below"] is not None:
        below = evaluate(found["below"], sizes, origin)
        return InputSpec(name=str(number), shape=shape, dtype="int64", high=below)
    return InputSpec(name=str(number), shape=shape, low=float(found["low"] or 0), high=float(found["high"] or 0))
