"""Launches (measuring processes) of each device over time. Above MOST_SPANS, those close together are merged. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.analysis.evidence import DeviceEvidence, Evidence
from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures.timeline import DeviceTimeline, Span, Stretch, Timeline
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from protocol.cell import Cell

MOST_SPANS: Final = 200
MOST_FAILED: Final = 100


def timeline(archive: Archive, evidence: Evidence, without_result: Collection[int]) -> Timeline:
    """Return the timeline of all devices. without_result: numbers of the launches to mark as failed.

    Failed launches are never merged: each device has the first MOST_FAILED of them, and the number of the others.
    """
    spans: dict[str, list[Span]] = {uuid: [] for uuid in archive.devices}
    clocks = _clocks(archive)
    for attempt in archive.attempts:
        cell = archive.cells[attempt.start.cell]
        span = _span(attempt, cell, clocks[attempt.segment.boot_id], failed=attempt.start.launch in without_result)
        for uuid in cell.devices:
            spans[uuid].append(span)
    return Timeline(
        began=archive.header.created,
        devices=tuple(
            _device(uuid, found, evidence.devices.get(uuid, DeviceEvidence()), clocks) for uuid, found in spans.items()
        ),
    )


def _clocks(archive: Archive) -> Mapping[str, float]:
    """Return boot of the host → seconds to add to its monotonic times to get the seconds since the start of the run."""
    clocks: dict[str, float] = {}
    for segment in archive.segments:
        clocks.setdefault(segment.boot_id, segment.wall - archive.header.created - segment.monotonic_ns / 1e9)
    return clocks


def _span(attempt: Attempt, cell: Cell, clock: float, *, failed: bool) -> Span:
    start_s = clock + attempt.start.at_ns / 1e9
    batch = "" if cell.workload in WITHOUT_BATCH else f" b{attempt.start.batch_size}"
    return Span(
        start_s=start_s,
        end_s=start_s + (attempt.lasted_ms or 0.0) / 1000,
        workload=cell.workload,
        failed=failed,
        words=f"{cell.model} {cell.workload} {cell.precision}{batch}",
    )


def _device(uuid: str, spans: Iterable[Span], evidence: DeviceEvidence, clocks: Mapping[str, float]) -> DeviceTimeline:
    ordered = sorted(spans, key=lambda span: span.start_s)
    failed = [span for span in ordered if span.failed]
    good = [span for span in ordered if not span.failed]
    stretches = (
        Stretch(at_s=tuple(clocks[boot] + at_ns / 1e9 for at_ns in trace.at_ns), curves=trace.curves)
        for boot, trace in evidence.traces.items()
        if trace.at_ns
    )
    return DeviceTimeline(
        gpu_uuid=uuid,
        spans=tuple(sorted([*merge_spans(good), *failed[:MOST_FAILED]], key=lambda span: span.start_s)),
        unseen=len(failed[MOST_FAILED:]),
        stretches=tuple(sorted(stretches, key=lambda stretch: stretch.at_s[0])),
    )


def merge_spans(spans: Sequence[Span], most: int = MOST_SPANS) -> Iterator[Span]:
    """Yield at most `most` spans: `spans` if not more, else those close together merged. spans: sorted by start."""
    if len(spans) <= most:
        yield from spans
        return
    first_s = spans[0].start_s
    length_s = (spans[-1].start_s - first_s) / (most - 1)
    stretches: dict[int, list[Span]] = {}
    for span in spans:
        stretches.setdefault(int((span.start_s - first_s) / length_s) if length_s else 0, []).append(span)
    yield from (_merge(alike) for alike in stretches.values())


def _merge(spans: Sequence[Span]) -> Span:
    if len(spans) == 1:
        return spans[0]
    workloads = dict.fromkeys(span.workload for span in spans)
    return Span(
        start_s=spans[0].start_s,
        end_s=max(span.end_s for span in spans),
        workload=spans[0].workload if len(workloads) == 1 else "",
        failed=False,
        words=f"{len(spans)} launches: {', '.join(workloads)}",
    )
