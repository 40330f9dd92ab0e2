"""Reduce result files and telemetry of a run to the figures that `report_builder.merge` needs.

At any time, at most the raw times of one cell and the samples of one GPU are in memory.
"""

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import Final, TypeVar, cast

import msgspec

from orchestrator.analysis import discarded_results, outcomes, smaller_gpus
from orchestrator.analysis.outcomes import CellOutcome
from orchestrator.config.workloads import WORKLOADS
from orchestrator.gpu.health import clocks, course, records
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import Courses
from orchestrator.gpu.telemetry.climate import Climate, climates
from orchestrator.gpu.telemetry.readings import Readings, Track, of_slice
from orchestrator.gpu.telemetry.samples import read_samples
from orchestrator.gpu.telemetry.traces import Trace, points, trace
from orchestrator.state.archive import Archive, ResultFileError
from orchestrator.state.attempts import Attempt
from orchestrator.stats import launch as figures
from orchestrator.stats import stalls
from orchestrator.stats.launch import CellFigures, LaunchFigures
from orchestrator.stats.stalls import Span
from orchestrator.stats.windows import Window, windows
from protocol.cell import Cell, Device, DeviceKind, Workload
from protocol.messages import Sample
from protocol.result import Result
from protocol.verification import Verification

Value = TypeVar("Value", bound=msgspec.Struct)

_AT_NS: Final = attrgetter("at_ns")
_NO_SERIES: Final[dict[str, bytes]] = {}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LaunchEvidence:
    """Figures and telemetry of a launch with a result.

    result: without blocks and series. measured_s: seconds in measured blocks, without stalls. worked_ns: start of the
    first block and end of the last, monotonic; None without blocks. stalls: suspensions of the worker; rates: work per
    second in windows of ten seconds; both are empty except in a burn-in. beside: the other process on its GPU, or "".
    """

    result: Result  # without blocks, series and course of the warm-up, to save memory
    figures: LaunchFigures
    readings: Readings
    measured_s: float  # in measured blocks, without stalls
    worked_ns: tuple[int, int] | None = None  # from the first block to the last, monotonic
    stalls: tuple[Span, ...] = ()  # of the worker, in a burn-in
    rates: tuple[Window, ...] = ()  # in windows of ten seconds, in a burn-in
    beside: str = ""  # another process on its GPU


@dataclass(frozen=True)
class DeviceEvidence:
    """Telemetry of a device. utilization_percent, power_w: means from the first launch to the last; None if not read.

    climates: boot id → temperature and clock in windows of ten seconds, in a burn-in only. traces: boot id → curves of
    the telemetry during the whole run.
    """

    utilization_percent: float | None = None
    power_w: float | None = None
    climates: Mapping[str, tuple[Climate, ...]] = field(default_factory=dict)  # by boot, in a burn-in, per 10 s
    traces: Mapping[str, Trace] = field(default_factory=dict)  # by boot, of the whole run


@dataclass(frozen=True)
class Evidence:
    """Everything that `report_builder.merge` needs besides the archive.

    outcomes, cells: by cell id. launches, damaged: by launch number. devices, clocks: by UUID. courses: health values
    over time. goes_on: the run is still running. suspect: ids of cells that ran out of memory although an identical GPU
    had room for them. uncounted: launch number → UUID → what a burn-in launch without a valid result verified.
    """

    outcomes: Mapping[str, CellOutcome]
    launches: Mapping[int, LaunchEvidence]
    cells: Mapping[str, CellFigures]
    damaged: Mapping[int, str]  # launch → what is wrong with its result file
    devices: Mapping[str, DeviceEvidence] = field(default_factory=dict)
    courses: Courses = field(default_factory=Courses)
    clocks: Mapping[str, ClockUse] = field(default_factory=dict)  # how each GPU's clocks were held down
    goes_on: bool = False  # the run is still running
    suspect: tuple[str, ...] = ()
    uncounted: Mapping[int, Mapping[str, Verification]] = field(default_factory=dict)


def gather(archive: Archive, *, goes_on: bool = False) -> Evidence:
    """Read and reduce all result files and telemetry of a run. goes_on: whether the run is still running.

    Damaged result files do not raise: `Evidence.damaged` has them, and their launches count as lost.
    """
    damaged: dict[int, str] = {}
    launches: dict[int, LaunchEvidence] = {}
    cells: dict[str, CellFigures] = {}
    devices: dict[str, DeviceEvidence] = {}
    uses: dict[str, ClockUse] = {}
    interner = _Interner()
    stands, slots = archive.replay, outcomes.slots_by_cell(archive.replay.state)
    planned = archive.stored.plan.slots
    worked = _worked(archive)
    for device in archive.stored.devices:
        samples = _samples(archive, device)
        devices[device.uuid] = _average(archive, samples, worked)
        uses[device.uuid] = clocks.clock_use(samples.values())
        tracks = {boot: Track(taken) for boot, taken in samples.items()}
        for attempts in (own for own in archive.tries.values() if own[0].start.device == device.uuid):
            results = dict(_results(archive, attempts, lost := dict[int, str]()))
            damaged |= lost
            stands = stands.without(lost)
            for attempt in attempts:
                if result := results.get(attempt.start.launch):
                    during = tracks[attempt.segment.boot_id]
                    launches[attempt.start.launch] = _launch(device, result, during, attempt.beside, interner)
            cell = attempts[0].start.cell
            if counted := outcomes.launches_counted(stands.state, slots[cell], planned):
                cells[cell] = figures.of_cell(
                    [results[number] for number in counted], [launches[number].figures for number in counted]
                )
    cell_outcomes = outcomes.derive(stands, goes_on=goes_on)
    suspect, explained = smaller_gpus.find_suspects(archive.stored.devices, archive.stored.plan.cells, cell_outcomes)
    cell_outcomes |= suspect | explained
    return Evidence(
        outcomes=cell_outcomes,
        launches=launches,
        cells=cells,
        damaged=damaged,
        devices=devices,
        courses=course.follow(records.read(archive.paths.health)),
        clocks=uses,
        goes_on=goes_on,
        suspect=tuple(suspect),
        uncounted=dict(_uncounted(archive, launches)),
    )


def _uncounted(archive: Archive, good: Collection[int]) -> Iterator[tuple[int, Mapping[str, Verification]]]:
    if archive.stored.configuration.cell_s is None:
        return
    for attempt in archive.attempts:
        launch, devices = attempt.start.launch, archive.cells[attempt.start.cell].devices
        if launch not in good and (found := discarded_results.read_verification(archive, attempt, devices)):
            yield launch, found


def _results(archive: Archive, attempts: Sequence[Attempt], damaged: dict[int, str]) -> Iterator[tuple[int, Result]]:
    for attempt in attempts:
        if attempt.promised is None:
            continue
        try:
            yield attempt.start.launch, archive.result(attempt)
        except ResultFileError as error:
            damaged[attempt.start.launch] = str(error)


def _samples(archive: Archive, device: Device) -> dict[str, tuple[Sample, ...]]:
    """Return boot id of the host → telemetry samples of a device. Monotonic times of different boots overlap."""
    path = archive.paths.samples(device.uuid)
    boots = dict.fromkeys(segment.boot_id for segment in archive.segments)
    if device.kind is not DeviceKind.CUDA:
        return dict.fromkeys(boots, ())
    return {boot: read_samples(path, boot) for boot in boots}


def _worked(archive: Archive) -> dict[str, Span]:
    """Return boot id of the host → (start of the first attempt, end of the last one) in this boot, in monotonic ns.

    The start is 0 in a boot without attempts, the end in a boot without a recorded end.
    """
    attempts: dict[str, list[Attempt]] = {segment.boot_id: [] for segment in archive.segments}
    for attempt in archive.attempts:
        attempts[attempt.segment.boot_id].append(attempt)
    return {
        boot: (
            min((attempt.start.at_ns for attempt in its), default=0),
            max((one.end.at_ns for one in its if one.end and one.lasted_ms is not None), default=0),
        )
        for boot, its in attempts.items()
    }


def _average(archive: Archive, samples: Mapping[str, Sequence[Sample]], worked: Mapping[str, Span]) -> DeviceEvidence:
    within: list[Sample] = []
    for boot, taken in samples.items():
        begin, end = worked[boot]
        first, behind = bisect_left(taken, begin, key=_AT_NS), bisect_right(taken, end, key=_AT_NS)
        within.extend(taken[first:behind])
    timed, most = archive.stored.configuration.cell_s is not None, points(len(archive.stored.devices))
    return DeviceEvidence(
        climates={boot: climates(taken) for boot, taken in samples.items()} if timed else {},
        traces={boot: trace(taken, most) for boot, taken in samples.items()},
        utilization_percent=mean(sample.gpu_percent for sample in within),
        power_w=mean(sample.power_mw / 1000 for sample in within if sample.power_mw is not None),
    )


class _Interner:
    def __init__(self) -> None:
        self._kept: dict[bytes, msgspec.Struct] = {}

    def intern(self, value: Value) -> Value:
        return cast(Value, self._kept.setdefault(msgspec.msgpack.encode(value), value))


def _launch(device: Device, result: Result, track: Track, beside: str, interner: _Interner) -> LaunchEvidence:
    load = None if result.load is None else (result.load.start_ns, result.load.end_ns)
    readings = track.readings([(block.start_ns, block.end_ns) for block in result.worked], load)
    suspended = stalls.stalls(result) if result.verification is not None else ()
    return LaunchEvidence(
        result=msgspec.structs.replace(
            result,
            blocks=(),
            series=_NO_SERIES,
            warm_up=msgspec.structs.replace(result.warm_up, course=b""),
            cell=interner.intern(result.cell),
            environment=interner.intern(result.environment),
        ),
        figures=figures.of_launch(result),
        readings=readings if device.slice_of is None else of_slice(readings),
        measured_s=sum(block.end_ns - block.start_ns - stalls.inside(block, suspended) for block in result.blocks)
        / 1e9,
        worked_ns=(result.blocks[0].start_ns, result.blocks[-1].end_ns) if result.blocks else None,
        stalls=suspended,
        rates=_rates(result, suspended) if result.verification and WORKLOADS[result.cell.workload].own_rate else (),
        beside=beside,
    )


def _rates(result: Result, suspended: Sequence[Span]) -> tuple[Window, ...]:
    """Return the work per second of a burn-in launch, in windows of ten seconds.

    The work is operations, or iterations if the number of operations per iteration is unknown. Blocks in which the
    worker was suspended are excluded.
    """
    blocks = [
        (block.start_ns, block.end_ns, block.iterations)
        for block in result.blocks
        if block.iterations and not stalls.inside(block, suspended)
    ]
    cell = result.cell
    return windows(blocks, work=result.flops_per_iteration or 1.0, key=kind_of_work(cell, cell.batch_size))


def kind_of_work(cell: Cell, batch_size: int) -> str:
    """Return a text such as "replay resnet50 fp32 b8", equal for burn-in launches whose rates can be compared."""
    size = f" b{batch_size}" if cell.workload is Workload.REPLAY else ""
    return f"{cell.workload} {cell.model} {cell.precision}{size}"


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    read = [value for value in values if value is not None]
    return fmean(read) if read else None


@contextmanager
def collector_off() -> Iterator[None]:
    """Switch Python's garbage collector off within a `with` block, for speed, and on again if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
