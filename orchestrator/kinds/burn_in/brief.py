"""The brief report of a burn-in: the answer, then a finding for each GPU, gravest first."""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from orchestrator.analysis.standings import NEXT_STEP
from orchestrator.config.naming import plural
from orchestrator.figures.burn_in import BurnInReport, Fate, GpuBurnIn, Pace
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import GRAVEST_FIRST, HealthVerdict
from orchestrator.kinds.burn_in import chapter
from orchestrator.report.chapters import health
from orchestrator.report.chapters.stragglers import board, brief_cause, to_do
from orchestrator.report.device_labels import label, labels
from orchestrator.report.layout import Answer
from orchestrator.report.sections import Badge, Finding, Section, Tone
from orchestrator.stats.slowdown_reasons import Reason

T = TypeVar("T", int, float)
_SLOW: Final = "compare its memory errors and links with a sibling's (nvidia-smi -q), or test it in another slot"
_ELSEWHERE: Final = "not judged: errors may come from the fault injected elsewhere"
_DETAIL: Final = re.compile(r"[.;] | \(")
"""Where the details begin in the reason of a verdict."""
_WITHOUT_FAULTS: Final = "to judge the hardware: the same command without --inject"
_TESTED: Final = "it follows from the injected faults and says nothing about the hardware"


def answer(report: Report) -> Answer | None:
    """Return the answer: "PASS: 3 of 3 GPUs", "FAIL: GPU 1; WARN (slow): GPU 2". None for another kind of run.

    After injected faults, the answer says how many of them were found, and gives no verdict.
    """
    result = report.burn_in
    if result is None:
        return None
    if result.tainted:
        test = f"TEST, no verdict on the hardware. Injected faults: {proven(result) or 'none'}"
        return Answer(Badge(test, Tone.WARN), chapter.requested_time(result), _TESTED)
    found = _by_verdict(result, report)
    kind = "GPU" if all(device.kind == "cuda" for device in report.gpu_info) else "device"
    first = next(iter(found), str(result.verdict))
    devices = found.pop(first, [])
    count = len(result.gpus)
    who = f"{count} of {plural(count, kind)}" if len(devices) == count else labels(devices)
    who += "".join(f"; {title}: {labels(more)}" for title, more in found.items())
    return Answer(Badge(f"{first}: {who}", health.TONES[result.verdict]), chapter.requested_time(result))


def _by_verdict(result: BurnInReport, report: Report) -> dict[str, list[GpuInfo]]:
    """Return verdict ("WARN (slow)" for a slow GPU) → devices with it, gravest first.

    PASS and NOT APPLICABLE are omitted unless they are the verdict of the run.
    """
    found: dict[str, list[GpuInfo]] = {}
    for gpu in sorted(result.gpus, key=lambda gpu: GRAVEST_FIRST.index(gpu.verdict)):
        if gpu.verdict in (HealthVerdict.PASS, HealthVerdict.NOT_APPLICABLE) and gpu.verdict is not result.verdict:
            continue
        title = f"{gpu.verdict} (slow)" if gpu.action is Action.SLOW else str(gpu.verdict)
        found.setdefault(title, []).extend(device for device in report.gpu_info if device.gpu_uuid == gpu.gpu_uuid)
    return found


def proven(result: BurnInReport) -> str:
    """Return how many injected faults took effect and, of those, were found; "" if no fault was injected.

    Examples: "2 of 2 found", "NOT ALL FOUND: 1 of 2", "1 of 2 TOOK EFFECT, 1 of 1 found".
    """
    total = len(result.injected)
    done = sum(chapter.fate(fault) is not Fate.UNDONE for fault in result.injected)
    found = sum(fault.found for fault in result.injected)
    effective = f"{done} of {total} TOOK EFFECT" if done < total else ""
    detected = f"{found} of {done} found" if found == done else f"NOT ALL FOUND: {found} of {done}"
    return ", ".join(filter(None, (effective, detected if done else "")))


def each_gpu(report: Report) -> Section | None:
    """Return one finding per GPU, gravest first; None without a burn-in.

    All GPUs that PASS without a reason share the last finding.
    """
    result = report.burn_in
    if result is None:
        return None
    ordered = sorted(result.gpus, key=lambda gpu: GRAVEST_FIRST.index(gpu.verdict))
    well = [gpu for gpu in ordered if gpu.verdict is HealthVerdict.PASS and not gpu.reasons]
    findings = [_briefly(gpu, report, result) for gpu in ordered if gpu not in well]
    if well:
        of_well = [device for device in report.gpu_info if device.gpu_uuid in {gpu.gpu_uuid for gpu in well}]
        findings.append(Finding(health.badge(HealthVerdict.PASS), f"{labels(of_well)}: {_work(well)}"))
    return Section("gpus", "GPUs", findings=tuple(findings))


def next_steps(report: Report) -> Section | None:
    """Return what to do next: after injected faults, run without them; after FAIL, repeat the burn-in. Else None."""
    result = report.burn_in
    if result is None or not (result.tainted or result.verdict is HealthVerdict.FAIL):
        return None
    return Section(
        "next",
        "Next",
        (_WITHOUT_FAULTS if result.tainted else "after the to-do, repeat the burn-in on all GPUs in service",),
    )


def _work(gpus: Sequence[GpuBurnIn]) -> str:
    """Describe what these GPUs did: time, rounds, checks, temperature. Each figure is a range over the GPUs."""
    checks, wrong = (
        [sum(getattr(check, name) for check in gpu.checks) for gpu in gpus] for name in ("checks", "mismatches")
    )
    hottest = [gpu.temperature_max_c for gpu in gpus if gpu.temperature_max_c is not None]
    figures = (
        f"{_range([gpu.under_load_seconds for gpu in gpus], chapter.short)} under load",
        f"{_range([gpu.rounds for gpu in gpus], str)} {'round' if {gpu.rounds for gpu in gpus} == {1} else 'rounds'}",
        f"{_range(checks, '{:,}'.format)} comparisons",
        f"{_range(wrong, str)} wrong",
        f"{_range(hottest, '{:.0f}'.format)} °C" if hottest else "",
    )
    return ", ".join(filter(None, figures))


def _range(values: Sequence[T], shown: Callable[[T], str]) -> str:
    return " to ".join(dict.fromkeys(map(shown, (min(values), max(values)))))


def _briefly(gpu: GpuBurnIn, report: Report, result: BurnInReport) -> Finding:
    evidence = _DETAIL.split(next((reason.text for reason in gpu.reasons), ""))[0]
    cause = brief_cause(_why_slow(gpu)) if gpu.action is Action.SLOW else ""
    if result.tainted and not any(fault.gpu_uuid == gpu.gpu_uuid for fault in result.injected):
        evidence, cause = _ELSEWHERE, ""
    step = "" if result.tainted else _step(gpu)
    (device,) = (one for one in report.gpu_info if one.gpu_uuid == gpu.gpu_uuid)
    title = f"{label(device)}: {'; '.join(filter(None, (evidence, cause)))}"
    return Finding(chapter.badge(gpu, result), title, to_do(step, board(device)))


def _step(gpu: GpuBurnIn) -> str:
    if gpu.action is not Action.SLOW:
        return gpu.action.advice
    reason = _why_slow(gpu)
    return _SLOW if reason is None else NEXT_STEP.get(reason, _SLOW)


def _why_slow(gpu: GpuBurnIn) -> Reason | None:
    """Return a probable reason why a GPU is slower; None if it is not slower, or if no reason is known.

    Reasons for which NEXT_STEP (analysis/standings.py: reason → advice) has advice are preferred.
    """
    reasons = [pace.reason for pace in gpu.paces if pace.pace is Pace.SLOWER and pace.reason is not None]
    return next(iter(sorted(reasons, key=lambda reason: reason not in NEXT_STEP)), None)


def profile(report: Report) -> str:
    """Describe how the run was measured: "burn-in, level full". For another kind of run: its profile."""
    return report.test_configuration.profile if report.burn_in is None else f"burn-in, level {report.burn_in.level}"
