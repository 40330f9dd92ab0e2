"""The parts of the brief report, each a chapter. `report/as_brief.py` lays them out for a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.cells import ProbeMetrics
from orchestrator.figures.comparisons import BaselineComparison
from orchestrator.figures.health import DeviceHealth, NodeHealth
from orchestrator.figures.quality import Quality
from orchestrator.figures.report import Report
from orchestrator.figures.run_verdict import COMPARED, CauseKind
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.chapters import health, overview, stragglers
from orchestrator.report.device_labels import by_uuid, labels
from orchestrator.report.gpu_differences import EQUAL_PERCENT, Differences, differences
from orchestrator.report.layout import Layout
from orchestrator.report.lines import lines
from orchestrator.report.numbers import difference, duration, number
from orchestrator.report.sections import Finding, Section
from orchestrator.stats.siblings import SiblingVerdict
from protocol.cell import DeviceKind

SHOWN_CAUSES: Final = 2
SHOWN_GPUS: Final = 8
"""Most GPUs with findings, or in a list of differences."""
_ADVICE: Final[Mapping[Quality, str]] = {
    Quality.FAILED: "`gpubench-orchestrate explain {run}`",
    Quality.MISSING: "`gpubench-orchestrate resume {run}`",
    Quality.CONTAMINATED: "end other programs on the GPU",
    Quality.THROTTLED: "look at cooling and power",
    Quality.HOST_BOUND: "limited by the CPU; larger batches (-b)",
    Quality.UNSETTLED: "measure longer (--profile standard)",
    Quality.NOISY: "measure longer, end other programs",
    Quality.IMPLAUSIBLE: "--full says what contradicts what",
    Quality.DEGRADED: "ran out of memory, measured at a smaller batch",
    Quality.DOES_NOT_FIT: "too large for the memory",
    Quality.UNSUPPORTED: "`gpubench-orchestrate doctor` says what is missing",
    Quality.DROPPED: "no time left; a longer --time-limit",
}
"""What a warning counts, and what to do about it."""


def title(report: Report, layout: Layout) -> str:
    """The devices, the software stack, and the run's duration, preset and launches."""
    data = report.metadata
    stack = {"driver": data.driver_version, "torch": data.pytorch_version}
    known = (f"{name} {version}" for name, version in stack.items() if version)
    how = [overview.preset(report, layout)]
    how += [plural(report.test_configuration.launches, "launch", "launches")] if report.burn_in is None else []
    took = ", ".join((duration(data.test_duration_seconds), *how))
    return f"gpubench: {', '.join((overview.heading(report, layout), *known))}; {took}"


def result(report: Report, layout: Layout) -> Section:
    """The verdict, how much was measured, and the causes that the parts below do not show."""
    badge, cells, judged = overview.verdict(report, layout), report.summary.cells, report.health.verdict
    words = [f"{cells.ok} of {plural(cells.planned, 'cell')} measured"]
    known = judged is not HealthVerdict.NOT_APPLICABLE and report.burn_in is None
    words += [f"health {judged}"] if known and f"health {judged}" not in badge.text else []
    words += [f"exit code {report.verdict.exit_code}"] if report.verdict.exit_code else []
    findings = (Finding(badge, ", ".join(words), tuple(_causes(report))),)
    return Section("result", "Result", findings=findings, notes=tuple(_baseline(report.baseline_comparison)))


def _causes(report: Report) -> Iterator[str]:
    """Yield the causes that no part below shows. For an old report: its most important cause."""
    shown = {CauseKind.BURN_IN, *((CauseKind.FAULT, *COMPARED) if _is_faulty(report) else ())}
    causes = [cause.text for cause in report.verdict.causes if cause.kind not in shown]
    yield from causes[:SHOWN_CAUSES] if report.verdict.causes else filter(None, (report.verdict.why,))
    if len(causes) > SHOWN_CAUSES:
        yield f"and {plural(len(causes) - SHOWN_CAUSES, 'more reason')}"


def _is_faulty(report: Report) -> bool:
    verdicts = [gpu.verdict for gpu in report.health.gpus]
    verdicts += [] if report.burn_in is None else [gpu.verdict for gpu in report.burn_in.gpus]
    return HealthVerdict.FAIL in verdicts


def limits(report: Report) -> Section | None:
    """What a run with a faulty GPU missed: thresholds, a baseline. This is less urgent than the fault."""
    causes = [cause.text for cause in report.verdict.causes if cause.kind in COMPARED]
    return Section("limits", "Limits", tuple(causes)) if causes and _is_faulty(report) else None


def _baseline(compared: BaselineComparison | None) -> Iterator[str]:
    if compared is not None and compared.overall_score is not None:
        over = plural(compared.cells, "cell")
        yield f"{compared.overall_score:.1f}% of the speed of the baseline {compared.baseline}, over {over}"


def gpus(report: Report) -> Section | None:
    """What was found against single GPUs, and how far apart they are; None for a single GPU without a finding."""
    found = tuple(_found(report))
    more = (f"and {len(found) - SHOWN_GPUS} more",) if len(found) > SHOWN_GPUS else ()
    notes = tuple(describe(one) for one in differences(report) if one.cells)
    return Section("gpus", "GPUs", findings=found[:SHOWN_GPUS], notes=(*more, *notes)) if found or notes else None


def each_gpu(report: Report) -> Section | None:
    """A finding for each GPU, the slow ones first."""
    found = tuple(_found(report, every=True))
    return Section("gpus", "GPUs", findings=found) if found else None


def _found(report: Report, *, every: bool = False) -> Iterator[Finding]:
    """Findings of health, then of speed, without health warnings of slow GPUs, which have the same cause."""
    names = by_uuid(report)
    slow = {standing.gpu_uuid for standing in report.stragglers if stragglers.is_found(standing)}
    for one in report.health.gpus:
        if one.verdict is HealthVerdict.FAIL or (one.verdict is HealthVerdict.WARN and one.gpu_uuid not in slow):
            yield _of_health(names[one.gpu_uuid], one)
    if report.health.node.verdict in (HealthVerdict.FAIL, HealthVerdict.WARN):
        yield _of_health("the machine", report.health.node)
    yield from stragglers.brief_findings(report, every=every)


def _of_health(name: str, judged: DeviceHealth | NodeHealth) -> Finding:
    signals = [
        f"{signal.title}: {signal.message}" for signal in judged.signals if signal.state in (State.FAIL, State.WARN)
    ]
    more = f" (and {plural(len(signals) - 1, 'more signal')})" if len(signals) > 1 else ""
    step = (f"to do: {judged.action}",) if judged.action else ()
    return Finding(
        health.badge(judged.verdict), f"{name}, hardware health", (*(f"{words}{more}" for words in signals[:1]), *step)
    )


def describe(against: Differences) -> str:
    """How far apart identical devices are, and how many cells show it."""
    alike = labels(against.group.devices)
    if not against.percent:
        return (
            f"{alike} cannot be compared: none of {plural(against.cells, 'cell')} is steady and bound by the GPU on all"
        )
    over = f"{plural(against.judging, 'cell')} that can show it"
    if against.range_percent <= EQUAL_PERCENT:
        return f"{alike} are equal within {max(0.1, against.range_percent):.1f}% ({over})"
    names = {device.gpu_uuid: labels([device]) for device in against.group.devices}
    slowest = sorted(against.percent.items(), key=lambda item: item[1])[:SHOWN_GPUS]
    return f"against the median, {over}: {', '.join(f'{names[uuid]} {difference(by)}' for uuid, by in slowest)}"


def warnings(report: Report) -> Section | None:
    """Return the counts of doubtful rows, and notices about all rows."""
    rows = tuple(doubts(report))
    # Without a GPU nobody expects its telemetry.
    on_gpus = any(device.kind == DeviceKind.CUDA for device in report.gpu_info)
    notes = tuple(words for words in overview.notices(report) if on_gpus or report.metadata.telemetry_note not in words)
    return Section("warnings", "Warning", (*rows, *notes)) if rows or notes else None


def doubts(report: Report) -> Iterator[str]:
    """Yield the number of doubtful rows of each kind, with what to do about them."""
    counts = Counter(line.quality for line in lines(report))
    total = plural(len(report.cells), "result")
    for kind, advice in _ADVICE.items():
        if counts[kind]:
            yield f"{counts[kind]:,} of {total} {kind}: {advice.format(run=report.metadata.run_id)}"


def probes(report: Report) -> Section | None:
    """The rates of the probes, medians over all devices."""
    found: dict[str, list[ProbeMetrics]] = {}
    for probe in report.probes:
        if probe.launches:
            found.setdefault(f"{probe.title} {probe.precision}" if probe.name == "gemm" else probe.title, []).append(
                probe
            )
    rates = ", ".join(words for name, alike in found.items() if (words := _rate(name, alike)))
    return Section("probes", "Probes", (rates,)) if rates else None


def _rate(name: str, alike: Sequence[ProbeMetrics]) -> str:
    for figure, unit in (("sustained_tflops", "TFLOP/s"), ("copy_gb_per_sec", "GB/s"), ("transfer_gb_per_sec", "GB/s")):
        known = [value for probe in alike if (value := getattr(probe, figure)) is not None]
        if known:
            return f"{name} {number(median(known))} {unit}"
    return ""


def next_steps(report: Report) -> Section:
    """Return the commands that answer questions which this run leaves open."""
    setup = report.test_configuration
    steps = []
    judged = any(standing.verdict is not SiblingVerdict.NONE for standing in report.stragglers)
    if len(report.gpu_info) > 1 and not judged and report.gpu_info[0].kind == DeviceKind.CUDA:
        steps.append("which GPU is slow: gpubench-orchestrate triage")
    if setup.profile == "quick":
        steps.append("more precise figures: --profile standard")
    steps.append("slower than the run before: gpubench-orchestrate compare @last~1 @last")
    return Section("next", "Next", tuple(steps))
