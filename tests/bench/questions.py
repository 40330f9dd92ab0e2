"""What tests/bench/reference.py and tests/bench/peers.py say to each other, a line of JSON each."""

from typing import Final

import msgspec

from protocol.cell import Cell, DeviceKind, ModelSpec

METHODS: Final = {DeviceKind.CUDA: ("do_bench", "bare loop", "Timer"), DeviceKind.CPU: ("host loop", "Timer")}
"""The other benchmarks, by the kind of device that they can time."""


class Opening(msgspec.Struct, frozen=True):
    """First line: what to import before any fork, so that little is left to import in front of a measurement."""

    modules: tuple[str, ...]


class Question(msgspec.Struct, frozen=True):
    """Time this cell by this method, after so many iterations of warm-up; measure about so many."""

    method: str
    cell: Cell
    model: ModelSpec
    kind: DeviceKind
    cpus: tuple[int, ...]
    warm_up: int
    iterations: int


class Answer(msgspec.Struct, frozen=True):
    """Milliseconds an iteration, the method's median or mean; None where it failed, which standard error tells."""

    ms: float | None
