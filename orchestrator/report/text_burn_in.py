"""The burn-in as text: what each GPU did and its verdict, on one page for a node of eight, then the reasons."""

from collections.abc import Iterator
from typing import Final

from orchestrator.health.judges import Action
from orchestrator.report import layout
from orchestrator.report.burn_in import BurnInReport, GpuBurnIn
from orchestrator.report.model import Report
from orchestrator.report.numbers import duration
from orchestrator.report.text_gpus import label_of

SHOWN_REASONS: Final = 4
HEADER: Final = ("GPU", "Verdict", "Load", "Rounds", "Checks", "Wrong", "Operations", "Max C", "W")


def burn_in(report: Report) -> Iterator[str]:
    """The chapter; nothing for a run that was no burn-in."""
    night = report.burn_in
    if night is None:
        return
    yield from layout.chapter("Burn-in")
    yield from layout.wrap(f"Level {night.level}, {duration(night.duration_seconds)} asked for. {_meaning(night)}")
    yield ""
    yield from layout.table(HEADER, [_row(gpu, report) for gpu in night.gpus])
    for gpu in night.gpus:
        yield from _reasons(gpu, report)
    yield from _evidence(night)
    yield ""


def _meaning(night: BurnInReport) -> str:
    if night.tainted:
        return "Faults were injected on purpose: this proves that they are found, and nothing about the GPUs."
    return "PASS says that no error was seen in the checks below, never that there is none."


def _row(gpu: GpuBurnIn, report: Report) -> tuple[str, ...]:
    operations = sum(check.verified_operations for check in gpu.checks)
    return (
        label_of(gpu.gpu_uuid, report),
        gpu.verdict,
        _short(gpu.under_load_seconds),
        str(gpu.rounds),
        f"{sum(check.checks for check in gpu.checks):,}",
        str(sum(check.mismatches for check in gpu.checks)),
        f"{operations:.1e}",
        "" if gpu.temperature_max_c is None else f"{gpu.temperature_max_c:.0f}",
        "" if gpu.average_power_draw_w is None else f"{gpu.average_power_draw_w:.0f}",
    )


def _short(seconds: float) -> str:
    """A duration that fits into a column: "42 s", "7 min", "7:58 h"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _reasons(gpu: GpuBurnIn, report: Report) -> Iterator[str]:
    if not gpu.reasons:
        return
    yield ""
    todo = f" ({gpu.action})" if gpu.action is not Action.NOTHING else ""
    yield from layout.wrap(f"{label_of(gpu.gpu_uuid, report)}: {gpu.verdict}{todo}")
    yield from layout.bullets([f"{reason.verdict}: {reason.text}" for reason in gpu.reasons], SHOWN_REASONS)


def _evidence(night: BurnInReport) -> Iterator[str]:
    """What the checks were, told once: they are the same on every GPU."""
    yield ""
    for kind in dict.fromkeys(check.check for gpu in night.gpus for check in gpu.checks):
        told = [check for gpu in night.gpus for check in gpu.checks if check.check == kind]
        bounds = [check.error_bound for check in told if check.error_bound is not None]
        bound = f", at most {max(bounds):.1e} errors a check (95 %)" if bounds else ""
        checks = sum(check.checks for check in told)
        launches = sum(check.launches for check in told)
        yield from layout.wrap(f"{kind}: {checks:,} checks in {launches} launches{bound}; {told[0].method}", "", "  ")
    untested = {f"{what}: {why}" for gpu in night.gpus for what, why in gpu.not_tested.items()}
    for line in sorted(untested)[:SHOWN_REASONS]:
        yield from layout.wrap(f"not tested: {line}", "", "  ")
    if len(untested) > SHOWN_REASONS:
        yield f"not tested: {len(untested) - SHOWN_REASONS} more in the JSON report"
