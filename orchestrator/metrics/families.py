"""The table of metrics, in Prometheus' names and base units. Unknown values have no sample; they are never 0."""

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.engine.display_events import DeviceLine, Snapshot
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.metrics.run_view import Figure, RunStands, View
from orchestrator.state.slots import SlotStatus
from orchestrator.system.plain_text import plain
from protocol.cell import Device
from protocol.failure import Category

Row = tuple[tuple[str, ...], float]
"""Values of the labels, and of the metric."""
Rows = Callable[[View], Iterator[Row]]

PENDING: Final = "PENDING"  # until there is a verdict, which needs the readings of the whole run
VERDICTS: Final = (*HealthVerdict, PENDING)
FAILURES: Final = tuple(category for category in Category if category is not Category.STOPPED)
"""A launch that a person stopped is no failure."""

RUN: Final = "run_id"  # first label of every metric: runs share no series
_GPU: Final = ("gpu", "uuid")
_CELL: Final = ("cell", "gpu", "uuid", "model", "workload", "precision", "mode", "batch_size")


class Kind(enum.StrEnum):
    """Gauge, or counter while the process lives."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Family(NamedTuple):
    """A metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]  # names of what distinguishes the samples of one run
    rows: Rows


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


def _stands(view: View) -> Iterator[Row]:
    for stands in RunStands:
        yield (stands,), float(stands is view.stands)


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


_G, _C = Kind.GAUGE, Kind.COUNTER
FAMILIES: Final = (
    Family("gpubench_run_info", _G, "The run; always 1.", ("version", "profile"), _info),
    Family("gpubench_run_state", _G, "1 for the state that the run is in.", ("state",), _stands),
    Family(
        "gpubench_run_start_timestamp_seconds",
        *(_G, "When this process began to work on the run.", (), _value(lambda view: view.began)),
    ),
    Family(
        "gpubench_run_last_update_timestamp_seconds",
        *(_G, "When the run last told how it stands; what is older than a minute is a run that hangs or died."),
        *((), _value(lambda view: view.at)),
    ),
    Family(
        "gpubench_run_exit_code",
        *(_G, "How the run ended; there is none while it goes on.", (), _value(lambda view: view.exit_code)),
    ),
    Family(
        "gpubench_run_progress_ratio",
        *(_G, "Share of the run that is over: of its time where that has a limit, else of its launches."),
        *((), _shown(lambda shown: shown.share)),
    ),
    Family(
        "gpubench_run_remaining_seconds",
        *(_G, "Until the run is over, as estimated; there is none until that can be told."),
        *((), _shown(lambda shown: shown.eta_s)),
    ),
    Family(
        "gpubench_run_elapsed_seconds",
        *(_G, "Since this process began with the launches.", (), _shown(lambda shown: shown.elapsed_s)),
    ),
    Family(
        "gpubench_launches_planned",
        *(_G, "Launches of the plan; there is none of a burn-in, which goes on until its time is up."),
        *((), _shown(lambda shown: shown.total)),
    ),
    Family("gpubench_launches_done", _G, "Launches that need nothing more.", (), _shown(lambda shown: shown.done)),
    Family(
        "gpubench_launches_failed",
        *(_G, "Launches that were given up, or skipped after a failure.", (), _shown(lambda shown: shown.failed)),
    ),
    Family("gpubench_cells", _G, "Planned cells by where they stand.", ("status",), _cells),
    Family(
        "gpubench_launch_failures_total",
        *(_C, "Launches that ended without a result, or whose result was taken back, by cause.", ("category",)),
        _failures,
    ),
    Family(
        "gpubench_launch_retries_total",
        *(_C, "Failed launches that were, or will be, made once more.", (), _value(lambda view: view.retries)),
    ),
    Family(
        "gpubench_cell_items_per_second",
        *(_G, "Throughput of the last good launch of each cell.", _CELL, _figures(lambda one: one.items_per_second)),
    ),
    Family(
        "gpubench_cell_iteration_seconds",
        *(_G, "Mean time of an iteration in the last good launch of each cell.", _CELL),
        _figures(lambda one: one.iteration_s),
    ),
    Family("gpubench_gpu_info", _G, "A device of the run; always 1.", (*_GPU, "name", "kind"), _names),
    Family(
        "gpubench_gpu_busy",
        *(_G, "1 while a launch is under way on the device.", _GPU, _lines(lambda line: float(line.cell is not None))),
    ),
    Family(
        "gpubench_gpu_taken_out",
        *(_G, "1 where the device was given up in this run.", _GPU, _lines(lambda line: float(line.taken_out))),
    ),
    Family(
        "gpubench_gpu_health",
        *(_G, "1 for the verdict on the device's health; PENDING until the run is over.", (*_GPU, "verdict")),
        _verdicts(lambda view: view.health),
    ),
    Family(
        "gpubench_gpu_burn_in",
        *(_G, "1 for the verdict of a burn-in on the device, once it is over.", (*_GPU, "verdict"), _burn_in),
    ),
    Family(
        "gpubench_node_health",
        *(_G, "1 for the verdict on the machine's health; PENDING until the run is over.", ("verdict",), _node),
    ),
    Family(
        "gpubench_gpu_temperature_celsius",
        _G,
        "Temperature of the GPU, newest sample.",
        _GPU,
        _sampled("temperature_c"),
    ),
    Family(
        "gpubench_gpu_power_watts", _G, "Power that the GPU draws, newest sample.", _GPU, _sampled("power_mw", 1e-3)
    ),
    Family(
        "gpubench_gpu_power_limit_watts",
        *(_G, "Power limit of the GPU when the run began.", _GPU, _devices(lambda device: device.power_limit_w)),
    ),
    Family(
        "gpubench_gpu_energy_joules_total",
        *(_C, "Energy that the GPU has taken since its driver was loaded.", _GPU, _sampled("energy_mj", 1e-3)),
    ),
    Family(
        "gpubench_gpu_utilization_ratio",
        *(_G, "Share of the time in which a kernel ran, newest sample.", _GPU, _sampled("gpu_percent", 1e-2)),
    ),
    Family(
        "gpubench_gpu_memory_utilization_ratio",
        *(_G, "Share of the time in which memory was read or written, newest sample.", _GPU),
        _sampled("memory_percent", 1e-2),
    ),
    Family(
        "gpubench_gpu_sm_clock_hertz",
        _G,
        "Clock of the GPU's cores, newest sample.",
        _GPU,
        _sampled("sm_clock_mhz", 1e6),
    ),
    Family(
        "gpubench_gpu_memory_clock_hertz",
        *(_G, "Clock of the GPU's memory, newest sample.", _GPU, _sampled("memory_clock_mhz", 1e6)),
    ),
    Family(
        "gpubench_gpu_memory_used_bytes",
        *(_G, "Memory in use on the whole GPU, newest sample.", _GPU, _sampled("memory_used_bytes")),
    ),
    Family(
        "gpubench_gpu_memory_total_bytes",
        *(_G, "Memory of the GPU.", _GPU, _devices(lambda device: device.memory_total_bytes)),
    ),
    Family(
        "gpubench_gpu_sample_timestamp_seconds",
        *(_G, "When the newest sample of the GPU was taken.", _GPU, _sampled_at),
    ),
)
