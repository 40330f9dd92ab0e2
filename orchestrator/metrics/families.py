"""The table of metrics, in Prometheus' names and base units. An unknown value has no sample, instead of 0."""

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from orchestrator.engine.display_events import DeviceLine, Snapshot
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.metrics.run_view import Figure, RunState, View
from orchestrator.state.slots import SlotStatus
from orchestrator.system.plain_text import plain
from protocol.cell import Device
from protocol.failure import Category

Row = tuple[tuple[str, ...], float]
"""A sample of a metric: (values of its labels, its value)."""
Rows = Callable[[View], Iterator[Row]]

PENDING: Final = "PENDING"  # until there is a verdict, which needs the readings of the whole run
VERDICTS: Final = (*HealthVerdict, PENDING)
FAILURES: Final = tuple(category for category in Category if category is not Category.STOPPED)
"""Categories that the metrics count as failures: all except that of a launch that a person stopped."""

RUN: Final = "run_id"  # first label of every metric: runs share no series
_GPU: Final = ("gpu", "uuid")
_CELL: Final = ("cell", "gpu", "uuid", "model", "workload", "precision", "mode", "batch_size")


class Kind(enum.StrEnum):
    """Type of a metric. A gauge may fall, a counter only rises.

    Counters of failures and retries of launches start at 0 when a session begins: at the start or `resume` of a run.
    """

    GAUGE = "gauge"
    COUNTER = "counter"


class Family(NamedTuple):
    """A metric. rows: computes its samples from the run's state. labels: names of labels besides the run's id."""

    name: str
    help: str
    rows: Rows
    labels: tuple[str, ...] = ()  # names of what distinguishes the samples of one run
    kind: Kind = Kind.GAUGE


def _value(read: Callable[[View], float | None]) -> Rows:
    def rows(view: View) -> Iterator[Row]:
        value = read(view)
        if value is not None:
            yield (), value

    return rows


def _shown(read: Callable[[Snapshot], float | None]) -> Rows:
    return _value(lambda view: None if view.snapshot is None else read(view.snapshot))


def _info(view: View) -> Iterator[Row]:
    yield (view.tool_version, plain(view.profile)), 1.0


def _states(view: View) -> Iterator[Row]:
    for state in RunState:
        yield (state,), float(state is view.state)


def _cells(view: View) -> Iterator[Row]:
    if view.snapshot is not None and view.snapshot.cells:
        for status in SlotStatus:
            yield (status,), view.snapshot.cells.get(status, 0)


def _failures(view: View) -> Iterator[Row]:
    for category in FAILURES:
        yield (category,), view.failures.get(category, 0)


def _figures(read: Callable[[Figure], float | None]) -> Rows:
    def rows(view: View) -> Iterator[Row]:
        for cell, one in view.figures.items():
            value = read(one)
            if value is not None:
                which = (one.model, one.workload, one.precision, one.mode, str(one.batch_size))
                yield tuple(plain(text) for text in (cell, one.label, one.uuid, *which)), value

    return rows


def _devices(read: Callable[[Device], float | None]) -> Rows:
    def rows(view: View) -> Iterator[Row]:
        for device in view.devices:
            value = read(device)
            if value is not None:
                yield (plain(device.label), plain(device.uuid)), value

    return rows


def _names(view: View) -> Iterator[Row]:
    for device in view.devices:
        yield (plain(device.label), plain(device.uuid), plain(device.name), device.kind), 1.0


def _lines(read: Callable[[DeviceLine], float | None]) -> Rows:
    def rows(view: View) -> Iterator[Row]:
        for line in view.snapshot.devices if view.snapshot is not None else ():
            value = read(line)
            if value is not None:
                yield (plain(line.label), plain(line.uuid)), value

    return rows


def _sampled(field: str, scale: float = 1.0) -> Rows:
    def read(line: DeviceLine) -> float | None:
        value = None if line.sample is None else getattr(line.sample, field)
        return None if value is None else value * scale

    return _lines(read)


def _sampled_at(view: View) -> Iterator[Row]:
    yield from _lines(lambda line: None if line.sample is None else line.sample.at_ns / 1e9 + view.boot)(view)


def _verdicts(read: Callable[[View], Mapping[str, HealthVerdict]]) -> Rows:
    def rows(view: View) -> Iterator[Row]:
        found = read(view)
        for device in view.devices:
            for verdict in VERDICTS:
                is_it = verdict == found.get(device.uuid, PENDING)
                yield (plain(device.label), plain(device.uuid), verdict), float(is_it)

    return rows


def _node(view: View) -> Iterator[Row]:
    for verdict in VERDICTS:
        yield (verdict,), float(verdict == (view.node or PENDING))


def _burn_in(view: View) -> Iterator[Row]:
    if view.burn_in:
        yield from _verdicts(lambda seen: seen.burn_in)(view)


def _of_sample(name: str, words: str, field: str, scale: float = 1.0) -> Family:
    return Family(name, f"{words}, newest sample.", _sampled(field, scale), _GPU)


_of_gpu = partial(Family, labels=_GPU)
_counter = partial(Family, kind=Kind.COUNTER)

FAMILIES: Final = (
    Family("gpubench_run_info", "The run; always 1.", _info, ("version", "profile")),
    Family("gpubench_run_state", "1 for the current state of the run, 0 for the other states.", _states, ("state",)),
    Family(
        "gpubench_run_start_timestamp_seconds",
        "When this process began to work on the run.",
        _value(lambda view: view.began),
    ),
    Family(
        "gpubench_run_last_update_timestamp_seconds",
        "When the run last reported its state. If that is more than a minute ago, the run hangs or died.",
        _value(lambda view: view.at),
    ),
    Family(
        "gpubench_run_exit_code",
        "Exit code of the run; absent while it goes on.",
        _value(lambda view: view.exit_code),
    ),
    Family(
        "gpubench_run_progress_ratio",
        "Share of the run that is done: of its time if it has a time limit, else of its launches.",
        _shown(lambda shown: shown.share),
    ),
    Family(
        "gpubench_run_remaining_seconds",
        "Estimated time until the last launch ends; absent while unknown.",
        _shown(lambda shown: shown.eta_s),
    ),
    Family(
        "gpubench_run_elapsed_seconds",
        "Time since this process began with the launches.",
        _shown(lambda shown: shown.elapsed_s),
    ),
    Family(
        "gpubench_launches_planned",
        "Planned launches; absent in a burn-in, which has a time limit instead.",
        _shown(lambda shown: shown.total),
    ),
    Family(
        "gpubench_launches_done", "Launches that are over, with or without a result.", _shown(lambda shown: shown.done)
    ),
    Family(
        "gpubench_launches_failed",
        "Launches that failed for good, or were skipped after a failure.",
        _shown(lambda shown: shown.failed),
    ),
    Family("gpubench_cells", "Planned cells by state.", _cells, ("status",)),
    _counter(
        "gpubench_launch_failures_total",
        "Launches that ended without a result, or whose result was withdrawn, by category.",
        _failures,
        ("category",),
    ),
    _counter(
        "gpubench_launch_retries_total",
        "Failed launches that get a retry.",
        _value(lambda view: view.retries),
    ),
    Family(
        "gpubench_cell_items_per_second",
        "Throughput of the last good launch of each cell.",
        _figures(lambda one: one.items_per_second),
        _CELL,
    ),
    Family(
        "gpubench_cell_iteration_seconds",
        "Mean time of an iteration in the last good launch of each cell.",
        _figures(lambda one: one.iteration_s),
        _CELL,
    ),
    Family("gpubench_gpu_info", "A device of the run; always 1.", _names, (*_GPU, "name", "kind")),
    _of_gpu(
        "gpubench_gpu_busy",
        "1 while a launch runs on the device.",
        _lines(lambda line: float(line.cell is not None)),
    ),
    _of_gpu(
        "gpubench_gpu_quarantined",
        "1 if the device is quarantined in this run.",
        _lines(lambda line: float(line.quarantined)),
    ),
    Family(
        "gpubench_gpu_health",
        "1 for the verdict on the device's health; PENDING until the run is over.",
        _verdicts(lambda view: view.health),
        (*_GPU, "verdict"),
    ),
    Family(
        "gpubench_gpu_burn_in",
        "1 for the burn-in's verdict on the device; absent until the burn-in is over.",
        _burn_in,
        (*_GPU, "verdict"),
    ),
    Family(
        "gpubench_node_health",
        "1 for the verdict on the machine's health; PENDING until the run is over.",
        _node,
        ("verdict",),
    ),
    _of_sample("gpubench_gpu_temperature_celsius", "Temperature of the GPU", "temperature_c"),
    _of_sample("gpubench_gpu_power_watts", "Power that the GPU draws", "power_mw", 1e-3),
    _of_gpu(
        "gpubench_gpu_power_limit_watts",
        "Power limit of the GPU when the run began.",
        _devices(lambda device: device.power_limit_w),
    ),
    _of_gpu(
        "gpubench_gpu_energy_joules_total",
        "Energy that the GPU has taken since its driver was loaded.",
        _sampled("energy_mj", 1e-3),
        kind=Kind.COUNTER,
    ),
    _of_sample("gpubench_gpu_utilization_ratio", "Share of the time in which a kernel ran", "gpu_percent", 1e-2),
    _of_sample(
        "gpubench_gpu_memory_utilization_ratio",
        "Share of the time in which memory was read or written",
        "memory_percent",
        1e-2,
    ),
    _of_sample("gpubench_gpu_sm_clock_hertz", "Clock of the GPU's cores", "sm_clock_mhz", 1e6),
    _of_sample("gpubench_gpu_memory_clock_hertz", "Clock of the GPU's memory", "memory_clock_mhz", 1e6),
    _of_sample("gpubench_gpu_memory_used_bytes", "Memory in use on the whole GPU", "memory_used_bytes"),
    _of_gpu(
        "gpubench_gpu_memory_total_bytes", "Memory of the GPU.", _devices(lambda device: device.memory_total_bytes)
    ),
    _of_gpu("gpubench_gpu_sample_timestamp_seconds", "When the newest sample of the GPU was taken.", _sampled_at),
)
