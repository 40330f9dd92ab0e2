"""The chapter of launches (processes that measure) without a result: the gravest failure first, equal ones grouped."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.analysis.root_cause import explains, kind, out_of_time, root
from orchestrator.config.naming import plural, sized
from orchestrator.figures.cells import Status
from orchestrator.figures.quality import quality
from orchestrator.figures.report import FailureReport, Report
from orchestrator.report.chapters.cells import badge
from orchestrator.report.chapters.excluded import input_sizes
from orchestrator.report.device_labels import label, label_of
from orchestrator.report.sections import Badge, Finding, Log, Section, Tone
from orchestrator.state.failure_policy import POLICY
from protocol.failure import Category

SHOWN_FAILURES: Final = 20
MOST_FAILURES: Final = 100
SHOWN_ALIKE: Final = 5
MOST_LINES: Final = 40
"""Largest number of lines of one log that the report shows."""
_SKIPPED: Final = ("the model is skipped", "the cell is skipped")
"""Beginnings of the reason (analysis/outcomes.py) of a cell that was not tried because of an earlier failure."""
_MEASURED: Final = "lost launch of a measured cell"
ROOT_CAUSE: Final = Badge("root cause", Tone.BAD)
FACTS: Final = {
    "fault": "At fault",
    "exit": "Exit",
    "progress": "Progress",
    "xids": "Xid",
    "chain": "Raised",
}
MEMORY: Final = {
    "device_free_bytes": "{} free on the device",
    "device_total_bytes": "{} in all",
    "device_used_bytes": "{} in use on the device, as last read",
    "available_bytes": "{} available on the host",
}
FILES: Final = {"stderr": ("End of stderr", True), "stacks": ("Stacks", False)}
"""Name of a log in FailureReport.evidence → its title, and whether to show its end. Stacks begin with the innermost."""


def failures(report: Report) -> Section | None:
    """Return the chapter with a finding for each group of equal failures; None without failures.

    The group with the gravest failure comes first, the others follow in the order of the report. Only the first
    MOST_FAILURES groups are shown.
    """
    if not report.failures:
        return None
    first = root(report.failures)
    ordered = [] if first is None else [first]
    ordered += [failure for failure in report.failures if failure is not first]
    ended = sum(map(out_of_time, ordered))
    distinct: dict[tuple[str, ...], list[FailureReport]] = {}
    for one in ordered:
        distinct.setdefault((kind(one), one.message, one.status), []).append(one)
    more = len(distinct) - MOST_FAILURES
    summary = [f"{plural(len(ordered), 'launch', 'launches')} without a result."]
    summary += [f"Ended by the time limit, not counted as failed: {ended}."] if ended else []
    return Section(
        "failures",
        "Launches without a result",
        tuple(summary),
        findings=tuple(
            _finding(alike, report, gravest=alike[0] is first) for alike in [*distinct.values()][:MOST_FAILURES]
        ),
        notes=(f"{more} more are in report.json.",) if more > 0 else (),
        most=SHOWN_FAILURES,
    )


def _finding(alike: Sequence[FailureReport], report: Report, *, gravest: bool) -> Finding:
    """Describe launches that failed in the same way: the first launch in full, the others by name.

    gravest: whether this is the gravest failure of the run. Then the text report, too, shows its details and logs.
    """
    one, *others = alike
    named = list(dict.fromkeys(f"{what(other, report)}, attempt {other.attempt}" for other in others))
    more = f" and {len(named) - SHOWN_ALIKE} more" if len(named) > SHOWN_ALIKE else ""
    same = [
        f"The same in {plural(len(others), 'more launch', 'more launches')}: {'; '.join(named[:SHOWN_ALIKE])}{more}"
    ]
    status = one.status.replace("_", " ")
    ended_as = [f"Ended as: {one.evidence['ended_as']}"] if "ended_as" in one.evidence else []
    ended = f"At {one.at}. Final status of the cell: {status}. Logs: {one.folder}"
    of_cell = badge(quality(one.status, None))
    words = _MEASURED if one.status is Status.OK else f"cell {of_cell.text}"
    return Finding(
        ROOT_CAUSE if gravest and explains(one, report.failures) else Badge(words, of_cell.tone),
        f"{what(one, report)}, attempt {one.attempt}: {kind(one)}",
        (one.message, *ended_as, *(same if others else ()), ended),
        (*_evidence(one), *(_consequences(one, report) if gravest else ())),
        tuple(_logs(one)),
        opened=gravest,
    )


def _evidence(failure: FailureReport) -> Iterator[str]:
    yield from (f"{words}: {failure.evidence[name]}" for name, words in FACTS.items() if name in failure.evidence)
    memory = [words.format(_gib(failure.evidence[name])) for name, words in MEMORY.items() if name in failure.evidence]
    if memory:
        yield f"Memory: {', '.join(memory)}"


def _consequences(failure: FailureReport, report: Report) -> Iterator[str]:
    if failure.category is not None:
        yield f"What to do: {POLICY[Category(failure.category)].advice}"
    for device in report.gpu_info:
        if device.quarantined:
            yield f"{label(device)} was quarantined: {device.quarantined}"
    skipped = (f"{cell.model_name}: {cell.reason}" for cell in report.cells if cell.reason.startswith(_SKIPPED))
    yield from dict.fromkeys(skipped)


def _logs(failure: FailureReport) -> Iterator[Log]:
    for name, (words, end) in FILES.items():
        lines = [line for line in failure.evidence.get(name, "").splitlines() if line.strip()]
        if lines:
            yield Log(words, tuple(lines[-MOST_LINES:] if end else lines[:MOST_LINES]), end)


def _gib(count: str) -> str:
    return f"{int(count) / 2**30:.1f} GiB" if count.isdecimal() else count


def what(failure: FailureReport, report: Report) -> str:
    """Name a failed launch: "GPU 5: resnet50 training fp32 at batch size 8"."""
    device = label_of(failure.gpu_uuid, report)
    cell = next(cell for cell in report.cells if cell.cell == failure.cell)
    name = sized(cell.model_name, cell.input_size, input_sizes(report)[cell.model_name, cell.workload])
    return f"{device}: {name} {failure.workload} {failure.precision} at batch size {failure.batch_size}"
