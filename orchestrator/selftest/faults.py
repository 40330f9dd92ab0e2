"""The faults of a self-test and how each must be handled. worker/workloads/fault.py performs the faults.

Hangs happen in the warm-up, whose deadline is short here. Other deadlines are long, so that a slow machine meets them.
"""

import enum
import signal
from typing import Final

import msgspec

from orchestrator.figures.cells import Status
from protocol.cell import DeviceKind, Scalar
from protocol.failure import Category, Phase
from protocol.messages import Deadlines

DEADLINES: Final = Deadlines(start=60, import_=60, build=60, warm_up=2, measure=60, finish=20)
"""Deadlines of every launch of a self-test."""


class Done(enum.StrEnum):
    """How the orchestrator reacted to a fault, in the words of the printed table."""

    GIVEN_UP = "given up"
    RETRIED = "tried again"
    HALVED = "half the batch"
    SKIPPED = "model skipped"
    QUARANTINED = "device quarantined"


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """How a fault must be handled. category, phase: of each failure. says: text that each failure message must contain.

    tries: number of launches, the first included. done: reaction. status: that of the cell in the report. signal: name
    of the signal that must end the failed processes; None: not checked. stacks: whether the stacks of their threads
    must be in fault.log. prints: whether at least 64 KiB of their output must be kept.
    """

    category: Category
    says: str
    phase: Phase = Phase.MEASURE
    tries: int = 1
    done: Done = Done.GIVEN_UP
    status: Status = Status.FAILED
    signal: str | None = None
    stacks: bool = False
    prints: bool = False


class Fault(msgspec.Struct, frozen=True):
    """One fault. do: its key in worker/workloads/fault.py. config: its parameters. kinds: kinds of suitable devices.

    preload: modules that the zygote imports.
    """

    name: str
    do: str
    expected: Expected
    config: dict[str, Scalar] = {}
    batch_size: int = 1
    kinds: frozenset[DeviceKind] = frozenset(DeviceKind)
    preload: tuple[str, ...] = ()


_MEASURING: Final[dict[str, Scalar]] = {"in": Phase.MEASURE.value}
_CPU: Final = frozenset({DeviceKind.CPU})
_GPU: Final = frozenset({DeviceKind.CUDA})
_TORCH: Final = ("torch",)


def _hang(ended_by: signal.Signals | None, *, stacks: bool = True, prints: bool = False) -> Expected:
    return Expected(
        category=Category.DEADLINE,
        says=f"'{Phase.WARM_UP}' took longer than {DEADLINES.warm_up:g} s",
        phase=Phase.WARM_UP,
        signal=None if ended_by is None else ended_by.name,
        stacks=stacks,
        prints=prints,
    )


def _died(category: Category, by: signal.Signals, *, stacks: bool = True) -> Expected:
    return Expected(
        category=category, says=f"killed by {by.name}", tries=2, done=Done.RETRIED, signal=by.name, stacks=stacks
    )


def _too_large(says: str, tries: int) -> Expected:
    return Expected(category=Category.OUT_OF_MEMORY, says=says, tries=tries, done=Done.HALVED, status=Status.DEGRADED)


FAULTS: Final[tuple[Fault, ...]] = (
    # A process that is stopped cannot dump its stacks.
    Fault("freeze (SIGSTOP)", "stop", _hang(signal.SIGTERM, stacks=False), {"after": 0.2}),
    Fault("freeze, ignores SIGTERM", "hang, deaf to SIGTERM", _hang(signal.SIGKILL)),
    Fault("freeze, holding the GIL", "hold the GIL", _hang(signal.SIGTERM)),
    Fault("endless output", "print without end", _hang(signal.SIGTERM, prints=True)),
    Fault("segfault", "segfault", _died(Category.CRASHED, signal.SIGSEGV), _MEASURING),
    Fault("abort", "abort", _died(Category.CRASHED, signal.SIGABRT), _MEASURING),
    Fault("kill (SIGKILL)", "kill", _died(Category.KILLED, signal.SIGKILL, stacks=False), _MEASURING),
    Fault(
        "out of memory",
        "out of memory",
        _too_large("MemoryError", tries=3),
        {**_MEASURING, "room_mb": 160},  # of items of 64 MiB: 8 and 4 are too many, 2 fit
        batch_size=8,
        kinds=_CPU,
    ),
    Fault(
        "out of device memory",
        "out of device memory",
        _too_large("CUDA out of memory", tries=2),
        _MEASURING,
        batch_size=4,  # items of 30 % of the GPU's memory: 4 are too many, 2 fit
        kinds=_GPU,
        preload=_TORCH,
    ),
    Fault("exception", "raise", Expected(category=Category.EXCEPTION, says="raised on request"), _MEASURING),
    Fault(
        "import error",
        "import error",
        Expected(category=Category.IMPORT_ERROR, says="nothing_like_this", done=Done.SKIPPED, phase=Phase.BUILD),
        {"in": Phase.BUILD.value},  # a later failure would not skip the whole model
    ),
    Fault("NaN", "not finite", Expected(category=Category.NOT_FINITE, says="the loss is nan"), _MEASURING),
    Fault(
        "device assert",
        "device assert",
        Expected(category=Category.CUDA_STICKY, says="device-side assert triggered"),
        _MEASURING,
        kinds=_GPU,
        preload=_TORCH,
    ),
    Fault("endless kernel", "endless kernel", _hang(None), kinds=_GPU, preload=_TORCH),
)
