"""Read a run's files once and reduce them to figures, between the archive and the pure merge.

    launches/…/result.msgpack ──▶ hash checked ──▶ figures of each launch and cell ┐
    telemetry/<uuid>.samples ──▶ readings over the measured blocks                 ┼──▶ Evidence ──▶ merge (pure)
                                                                                   ┘
At most the raw times of one cell and the samples of one GPU are in memory.
"""

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import Final

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

_AT_NS: Final = attrgetter("at_ns")
_NO_SERIES: Final[dict[str, bytes]] = {}


@dataclass(frozen=True)
class LaunchEvidence:
    """One good launch. result: without blocks and series, to save memory.

    measured_s: in measured blocks, without stalls. worked_ns: from the first block to the last, monotonic. Of a
    burn-in: stalls of its worker, and rates in windows of ten seconds. beside: another process on its GPU, empty for
    none.
    """

    result: Result
    figures: LaunchFigures
    readings: Readings
    measured_s: float
    worked_ns: tuple[int, int] | None = None
    stalls: tuple[Span, ...] = ()
    rates: tuple[Window, ...] = ()
    beside: str = ""


@dataclass(frozen=True)
class DeviceEvidence:
    """Means from the first launch to the last. By boot: climates (of a burn-in, per 10 s), traces (whole run)."""

    utilization_percent: float | None = None
    power_w: float | None = None
    climates: Mapping[str, tuple[Climate, ...]] = field(default_factory=dict)
    traces: Mapping[str, Trace] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Everything that merge needs beside the archive.

    uncounted: launch → device → what a burn-in verified without a result (discarded_results.py). damaged: launch → what
    is wrong with its file. clocks: how each GPU's clocks were held down. goes_on: the run still runs.
    """

    outcomes: Mapping[str, CellOutcome]
    launches: Mapping[int, LaunchEvidence]
    cells: Mapping[str, CellFigures]
    damaged: Mapping[int, str]
    devices: Mapping[str, DeviceEvidence] = field(default_factory=dict)
    courses: Courses = field(default_factory=Courses)
    clocks: Mapping[str, ClockUse] = field(default_factory=dict)
    goes_on: bool = False
    suspect: tuple[str, ...] = ()
    uncounted: Mapping[int, Mapping[str, Verification]] = field(default_factory=dict)


def gather(archive: Archive, *, goes_on: bool = False) -> Evidence:
    """Read every result and the telemetry around it. goes_on: a process still works on the run."""
    damaged: dict[int, str] = {}
    launches: dict[int, LaunchEvidence] = {}
    cells: dict[str, CellFigures] = {}
    devices: dict[str, DeviceEvidence] = {}
    uses: dict[str, ClockUse] = {}
    stands, slots = archive.replay, outcomes.slots_by_cell(archive.replay.state)
    planned = archive.stored.plan.slots
    worked = _worked(archive)
    for device in archive.stored.devices:
        samples = _samples(archive, device)
        devices[device.uuid] = _average(archive, samples, worked)
        uses[device.uuid] = clocks.over(samples.values())
        tracks = {boot: Track(taken) for boot, taken in samples.items()}
        for attempts in (own for own in archive.tries.values() if own[0].start.device == device.uuid):
            results = dict(_results(archive, attempts, lost := dict[int, str]()))
            damaged |= lost
            stands = stands.without(lost)
            for attempt in attempts:
                if result := results.get(attempt.start.launch):
                    during = tracks[attempt.segment.boot_id]
                    launches[attempt.start.launch] = _launch(device, result, during, attempt.beside)
            cell = attempts[0].start.cell
            if counted := outcomes.launches_counted(stands.state, slots[cell], planned):
                cells[cell] = figures.of_cell(
                    [results[number] for number in counted], [launches[number].figures for number in counted]
                )
    found = outcomes.derive(stands, goes_on=goes_on)
    suspect, explained = smaller_gpus.raised(archive.stored.devices, archive.stored.plan.cells, found)
    found |= suspect | explained
    return Evidence(
        outcomes=found,
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
    """What launches without a good result verified, in a run with cells of fixed length."""
    if archive.stored.configuration.cell_s is None:
        return
    for attempt in archive.attempts:
        launch, devices = attempt.start.launch, archive.cells[attempt.start.cell].devices
        if launch not in good and (found := discarded_results.verified(archive, attempt, devices)):
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
    """Samples of a device by boot of the host: monotonic times of different boots overlap."""
    path = archive.paths.samples(device.uuid)
    boots = dict.fromkeys(segment.boot_id for segment in archive.segments)
    if device.kind is not DeviceKind.CUDA:
        return dict.fromkeys(boots, ())
    return {boot: read_samples(path, boot) for boot in boots}


def _worked(archive: Archive) -> dict[str, Span]:
    """Boot of the host → first start and last end of its attempts in ns; 0 without one."""
    attempts: dict[str, list[Attempt]] = {segment.boot_id: [] for segment in archive.segments}
    for attempt in archive.attempts:
        attempts[attempt.segment.boot_id].append(attempt)
    return {
        boot: (
            min((attempt.start.at_ns for attempt in its), default=0),
            max((attempt.end.at_ns for attempt in its if attempt.end), default=0),
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


def _launch(device: Device, result: Result, track: Track, beside: str) -> LaunchEvidence:
    readings = track.over([(block.start_ns, block.end_ns) for block in result.blocks])
    stood_still = stalls.stalls(result) if result.verification is not None else ()
    return LaunchEvidence(
        result=msgspec.structs.replace(result, blocks=(), series=_NO_SERIES),
        figures=figures.of_launch(result),
        readings=readings if device.slice_of is None else of_slice(readings),
        measured_s=sum(block.end_ns - block.start_ns - stalls.inside(block, stood_still) for block in result.blocks)
        / 1e9,
        worked_ns=(result.blocks[0].start_ns, result.blocks[-1].end_ns) if result.blocks else None,
        stalls=stood_still,
        rates=_rates(result, stood_still) if result.verification and WORKLOADS[result.cell.workload].own_rate else (),
        beside=beside,
    )


def _rates(result: Result, stood_still: Sequence[Span]) -> tuple[Window, ...]:
    """Rates of a burn-in cell in operations, or else iterations, per second, without blocks that stalled."""
    blocks = [
        (block.start_ns, block.end_ns, block.iterations)
        for block in result.blocks
        if block.iterations and not stalls.inside(block, stood_still)
    ]
    cell = result.cell
    return windows(blocks, work=result.flops_per_iteration or 1.0, key=kind_of_work(cell, cell.batch_size))


def kind_of_work(cell: Cell, batch_size: int) -> str:
    """The key of comparable rates: at half the batch, a training step is other work."""
    size = f" b{batch_size}" if cell.workload is Workload.REPLAY else ""
    return f"{cell.workload} {cell.model} {cell.precision}{size}"


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None without one."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


@contextmanager
def collector_off() -> Iterator[None]:
    """Switch Python's cyclic garbage collector off: evidence has no cycles, and 100,000 results make it slow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
