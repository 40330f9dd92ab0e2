"""What a run measured, read from its files once and reduced to figures: the thin step between archive and merge.

    launches/…/result.msgpack ──▶ hash checked ──▶ figures of each launch and cell ┐
    telemetry/<uuid>.samples ──▶ readings over the measured blocks                 ┼──▶ Evidence ──▶ merge (pure)
                                                                                   ┘
Raw times of one cell are held at a time, samples of one GPU: a night of both would take gigabytes.
"""

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """One good launch. result: without its blocks and series, which would take gigabytes.

    measured_s: in its measured blocks. worked_ns: from the first of them to the last, monotonic; None without any.
    stalls: of a burn-in, when in that time its worker stood still, which measured_s leaves out.
    rates: of a burn-in, in windows of ten seconds. beside: who else computed on its GPU, empty for nobody.
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
    """Means over the samples of a device from the first launch to the last.

    climates: of a burn-in, what it was like in each window of ten seconds, by boot of the host. traces: its readings
    over the whole run, for the eye, likewise.
    """

    utilization_percent: float | None = None
    power_w: float | None = None
    climates: Mapping[str, tuple[Climate, ...]] = field(default_factory=dict)
    traces: Mapping[str, Trace] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Everything that merge needs beside the archive.

    launches: good launches by their number. uncounted: of a burn-in, what the others verified, by launch and device,
    where that is anything (discarded_results.py). cells: figures by cell. damaged: launch → what is wrong with its
    file. courses: what was seen of the hardware's health; clocks: how each GPU's clocks were held down over the run.
    goes_on: somebody still works on the run.
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
    """Read the result of every attempt that has one, and the telemetry around it. Damaged results are named.

    goes_on: somebody still works on the run, so that what is missing is still to come.
    """
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
        for attempts in _by_cell(archive, device):
            results = dict(_results(archive, attempts, lost := dict[int, str]()))
            damaged |= lost
            stands = stands.without(lost)
            for attempt in attempts:
                if result := results.get(attempt.start.launch):
                    during = tracks[attempt.segment.boot_id]
                    launches[attempt.start.launch] = _launch(device, result, during, attempt.beside)
            cell = attempts[0].start.cell
            if counted := outcomes.counted(stands.state, slots[cell], planned):
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
    """What launches verified that are not among the good ones. Only cells of fixed length do."""
    if archive.stored.configuration.cell_s is None:
        return
    devices = {cell.id: cell.devices for cell in archive.stored.plan.cells}
    for attempt in archive.attempts:
        launch = attempt.start.launch
        if launch not in good and (found := discarded_results.verified(archive, attempt, devices[attempt.start.cell])):
            yield launch, found


def _results(archive: Archive, attempts: Sequence[Attempt], damaged: dict[int, str]) -> Iterator[tuple[int, Result]]:
    for attempt in attempts:
        if attempt.promised is None:
            continue
        try:
            yield attempt.start.launch, archive.result(attempt)
        except ResultFileError as error:
            damaged[attempt.start.launch] = str(error)


def _by_cell(archive: Archive, device: Device) -> Iterator[list[Attempt]]:
    """The attempts of each cell of a device."""
    cells: dict[str, list[Attempt]] = {}
    for attempt in archive.attempts:
        if attempt.start.device == device.uuid:
            cells.setdefault(attempt.start.cell, []).append(attempt)
    yield from cells.values()


def _samples(archive: Archive, device: Device) -> dict[str, tuple[Sample, ...]]:
    """Samples of a device for each boot of the host: monotonic times of different boots overlap."""
    path = archive.paths.samples(device.uuid)
    boots = dict.fromkeys(segment.boot_id for segment in archive.segments)
    if device.kind is not DeviceKind.CUDA:
        return dict.fromkeys(boots, ())
    return {boot: read_samples(path, boot) for boot in boots}


def _worked(archive: Archive) -> dict[str, Span]:
    """For each boot of the host, from the first beginning of an attempt to the last end; 0 where there is none."""
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
        utilization_percent=_mean([sample.gpu_percent for sample in within]),
        power_w=_mean([sample.power_mw / 1000 for sample in within if sample.power_mw is not None]),
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
    """Rates of a burn-in cell by the wall, in operations where they are known, else in iterations a second.

    Blocks in which the worker stood still have no rate.
    """
    blocks = [
        (block.start_ns, block.end_ns, block.iterations)
        for block in result.blocks
        if block.iterations and not stalls.inside(block, stood_still)
    ]
    cell = result.cell
    return windows(blocks, work=result.flops_per_iteration or 1.0, key=kind_of_work(cell, cell.batch_size))


def kind_of_work(cell: Cell, batch_size: int) -> str:
    """What rates are held against one another: at half the batch a step of training is another work."""
    size = f" b{batch_size}" if cell.workload is Workload.REPLAY else ""
    return f"{cell.workload} {cell.model} {cell.precision}{size}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep Python's cyclic garbage collector off: evidence has no cycles, and 100,000 results make it slow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
