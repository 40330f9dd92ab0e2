"""What went wrong, as text: the root cause with its evidence first, then every launch without a result.

The root cause is a failure of the hardware if there is any, else the earliest one that cost a cell its result, else the
earliest: what follows a failure is often nothing but its consequence.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.analysis.outcomes import Status
from orchestrator.config.naming import sized
from orchestrator.figures.report import FailureReport, Report
from orchestrator.report import layout
from orchestrator.report.text_exclusions import input_sizes
from orchestrator.report.text_gpus import label, label_of
from orchestrator.state.failure_policy import POLICY, Trait, has_trait
from orchestrator.state.stopping import OUT_OF_TIME, how_it_ended
from protocol.failure import Category

SHOWN_FAILURES: Final = 20
_SHOWN_LINES: Final = 8
_SKIPPED: Final = ("the model is skipped", "the cell is skipped")
"""How outcomes.py begins the reason of a cell that was not tried because it had failed elsewhere."""
_WITHOUT: Final = frozenset({Status.FAILED, Status.MISSING})
_ENDED_AS: Final = "Ended as"
FACTS: Final = {
    "ended_as": _ENDED_AS,
    "fault": "Whose fault",
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
FILES: Final = {
    "stderr": ("End of stderr", slice(-_SHOWN_LINES, None)),
    "stacks": ("Stacks", slice(_SHOWN_LINES)),  # the innermost call comes first
}


def failures(report: Report) -> Iterator[str]:
    """The chapter, nothing where every launch has its result."""
    if not report.failures:
        return
    yield from layout.chapter("Launches Without a Result")
    yield from root_cause(report)
    for index, failure in enumerate(report.failures[:SHOWN_FAILURES], start=1):
        yield from _failure(index, failure, report)
    if len(report.failures) > SHOWN_FAILURES:
        yield f"  ... and {len(report.failures) - SHOWN_FAILURES} more in the JSON report"
    yield ""


def root_cause(report: Report) -> Iterator[str]:
    """The failure that explains most, with its evidence and what to do; and what the run did about it."""
    failure = root(report.failures)
    if failure is None:
        return
    yield from layout.wrap(f"Root cause: {what(failure, report)}: {kind(failure)}", "", "  ")
    yield from layout.wrap(failure.message, "  ")
    yield from _evidence(failure)
    if failure.category is not None:
        yield from layout.wrap(f"What to do: {POLICY[Category(failure.category)].advice}", "  ", "  ")
    yield from layout.wrap(f"Logs: {failure.folder}", "  ", "  ")
    for device in report.gpu_info:
        if device.taken_out:
            yield from layout.wrap(f"{label(device)} was taken out of the run: {device.taken_out}", "  ", "  ")
    skipped = dict.fromkeys(
        f"{cell.model_name}: {cell.reason}" for cell in report.cells if cell.reason.startswith(_SKIPPED)
    )
    for line in skipped:
        yield from layout.wrap(line, "  ", "  ")
    yield ""


def root(found: Sequence[FailureReport]) -> FailureReport | None:
    """The earliest of the gravest. Interrupted attempts and those that a person stopped explain nothing."""
    causes = [one for one in found if one.category is not None and not has_trait(one.category, Trait.NO_ROOT_CAUSE)]
    return min(causes, key=_gravity, default=None)


def _gravity(failure: FailureReport) -> int:
    if has_trait(failure.category, Trait.ROOT_CAUSE):
        return 0
    return 1 if failure.status in _WITHOUT else 2


def _evidence(failure: FailureReport) -> Iterator[str]:
    known = failure.evidence
    for name, words in FACTS.items():
        if name in known:
            yield from layout.wrap(f"{words}: {known[name]}", "  ", "  ")
    memory = [words.format(gib(known[name])) for name, words in MEMORY.items() if name in known]
    if memory:
        yield from layout.wrap(f"Memory: {', '.join(memory)}", "  ", "  ")
    for name, (words, shown) in FILES.items():
        lines = [line for line in known.get(name, "").splitlines() if line.strip()]
        if lines:
            yield f"  {words}:"
            yield from (f"    {layout.cut(line, layout.WIDTH - 4)}" for line in lines[shown])


def gib(count: str) -> str:
    """Bytes, as evidence has them, in GiB; anything else as it is."""
    return f"{int(count) / 2**30:.1f} GiB" if count.isdecimal() else count


def _failure(index: int, failure: FailureReport, report: Report) -> Iterator[str]:
    yield from layout.wrap(
        f"{index}. {what(failure, report)}, attempt {failure.attempt}: {kind(failure)}",
        "  ",
        "   ",
    )
    yield from layout.wrap(failure.message, "     ")
    if ended_as := failure.evidence.get("ended_as"):  # the message is of what the driver says was the cause
        yield from layout.wrap(f"{_ENDED_AS}: {ended_as}", "     ")
    yield from layout.wrap(
        f"In the end the cell was: {failure.status.replace('_', ' ')}. Logs: {failure.folder}", "     "
    )


def what(failure: FailureReport, report: Report) -> str:
    """Which launch it was, by its device and its cell."""
    device = label_of(failure.gpu_uuid, report)
    cell = next(cell for cell in report.cells if cell.cell == failure.cell)
    name = sized(cell.model_name, cell.input_size, input_sizes(report)[cell.model_name, cell.workload])
    return f"{device}: {name} {failure.workload} {failure.precision} at batch size {failure.batch_size}"


def out_of_time(failure: FailureReport) -> bool:
    """Whether the time limit of the run ended it, which is no failure of anything."""
    return failure.category == Category.STOPPED and failure.message == OUT_OF_TIME


def kind(failure: FailureReport) -> str:
    """How it ended, and when."""
    phase = f" while in phase {failure.phase}" if failure.phase else ""
    return f"{how_it_ended(failure.category or failure.outcome, failure.message)}{phase}"
