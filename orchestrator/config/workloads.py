"""Facts of the orchestrator about each workload. Only data.

A new workload needs a member of protocol.cell.Workload, a module of that name in worker/workloads/, and its Facts
here. plan/estimate.py estimates its launches, figures/table.py lists its figures.
"""

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Configuration
from protocol.cell import Workload


class Role(enum.Enum):
    """Kind of workload: a model's phase, a probe of a device, a burn-in check or an operator, or an injected fault."""

    PHASE = enum.auto()
    PROBE = enum.auto()
    CHECK = enum.auto()
    FAULT = enum.auto()


class Priority(msgspec.Struct, frozen=True):
    """Ranks of the smallest, the largest and other batch sizes. With a time limit, low ranks are measured first."""

    smallest: int
    largest: int
    between: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a workload that decide how its cells are planned, compared and reported.

    title: noun for messages. has_model: measures a model; else its cells are named after a probe or check. has_batch:
    has a batch size. batch_sizes: returns the requested ones. has_items: has a rate in items (samples) per second.
    device_rate: shows its rate in operations or bytes per second. needs_references: its figures are compared with rates
    of probes. sibling_verdict: its rates decide whether a GPU is slower than identical ones. end_to_end: depends on the
    host, so that runs may differ more. forward_passes: cost of an iteration, in forward passes. counts_operations,
    measures_latency: does so after the measurement. compiles: uses torch.compile if requested. generates: writes
    tokens. one_size: measures only the first input size. digests: verifies outputs by digest. own_rate: whether only
    the GPU decides the rate of a check, so that a burn-in judges it; False if other devices, changing clocks or test
    patterns do. priority: see Priority.
    """

    role: Role
    title: str = ""
    has_model: bool = False  # else its cells are named after a probe
    has_batch: bool = False
    batch_sizes: Callable[[Configuration], tuple[int, ...]] = lambda _: (1,)  # requested ones
    has_items: bool = True  # has a rate of items
    device_rate: bool = False  # its rate is best given in operations or bytes a second
    needs_references: bool = False  # is compared with the rates of probes
    sibling_verdict: bool = False  # compares GPUs with their siblings
    end_to_end: bool = False  # depends on the host, so runs may differ more
    forward_passes: int = 1  # cost of one iteration
    counts_operations: bool = False  # after the measurement
    measures_latency: bool = False  # after the measurement
    compiles: bool = False  # by torch.compile, where requested
    generates: bool = False  # writes tokens
    one_size: bool = False  # measures only the first input size
    digests: bool = False  # verifies outputs by digest
    own_rate: bool = False  # of a check: only the GPU decides its rate, not other devices, clocks or patterns
    priority: Priority = Priority(6, 6, 6)


_INFERENCE: Final = Facts(
    role=Role.PHASE,
    title="inference",
    has_model=True,
    has_batch=True,
    batch_sizes=lambda configuration: configuration.batch_sizes,
    needs_references=True,
    sibling_verdict=True,
    counts_operations=True,
    measures_latency=True,
    compiles=True,
    priority=Priority(0, 3, 6),
)
_CHECK: Final = Facts(role=Role.CHECK, sibling_verdict=True)
_but = msgspec.structs.replace

WORKLOADS: Final[dict[Workload, Facts]] = {
    Workload.LOAD: Facts(
        role=Role.PHASE,
        title="loading",
        has_model=True,
        has_items=False,
        end_to_end=True,
        one_size=True,
        priority=Priority(4, 4, 4),
    ),
    Workload.INFERENCE: _INFERENCE,
    Workload.TRAINING: _but(
        _INFERENCE,
        title="training",
        batch_sizes=lambda configuration: configuration.training_batch_sizes,
        forward_passes=3,
        measures_latency=False,
        priority=Priority(2, 6, 6),
    ),
    Workload.GENERATION: _but(
        _INFERENCE,
        title="generation",
        batch_sizes=lambda configuration: configuration.generation_batch_sizes,
        end_to_end=True,
        counts_operations=False,
        measures_latency=False,
        compiles=False,
        generates=True,
        priority=Priority(5, 5, 5),
    ),
    Workload.PROBE: _but(
        _CHECK, role=Role.PROBE, title="probe", has_items=False, device_rate=True, priority=Priority(1, 1, 1)
    ),
    Workload.SOAK: _but(_CHECK, title="the soak of matrix products", device_rate=True, digests=True, own_rate=True),
    Workload.TRUTH: _but(_CHECK, title="the truth check of matrix products", device_rate=True, own_rate=True),
    Workload.MEMORY: _but(_CHECK, title="the memory test"),
    Workload.LINKS: _but(_CHECK, title="transfers between devices"),
    Workload.STEPS: _but(_CHECK, title="matrix products under load steps", device_rate=True, digests=True),
    Workload.REPLAY: _but(
        _CHECK,
        title="the replay of training steps",
        has_model=True,
        has_batch=True,
        forward_passes=3,
        digests=True,
        own_rate=True,
    ),
    Workload.OPERATOR: _but(_CHECK, title="operator", has_items=False, sibling_verdict=False),
    Workload.FAULT: _but(
        _CHECK,
        role=Role.FAULT,
        title="a fault on purpose",
        has_model=True,
        has_batch=True,
        batch_sizes=_INFERENCE.batch_sizes,
    ),
}
PHASES: Final = tuple(workload for workload, facts in WORKLOADS.items() if facts.role is Role.PHASE)
OF_NO_MODEL: Final = frozenset(workload for workload, facts in WORKLOADS.items() if not facts.has_model)
WITHOUT_BATCH: Final = frozenset(workload for workload, facts in WORKLOADS.items() if not facts.has_batch)
