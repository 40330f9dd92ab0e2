"""The parts of the brief report, each a chapter. `report/as_brief.py` lays them out for a terminal."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.cells import ProbeMetrics
from orchestrator.figures.exit_code import CauseKind
from orchestrator.figures.health import DeviceHealth, NodeHealth
from orchestrator.figures.imperfections import imperfections
from orchestrator.figures.quality import Quality
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.chapters import health, overview, stragglers
from orchestrator.report.chapters.best import untested
from orchestrator.report.chapters.comparisons import slowest
from orchestrator.report.device_labels import label, labels
from orchestrator.report.gpu_differences import EQUAL_PERCENT, Differences, differences
from orchestrator.report.layout import Layout
from orchestrator.report.lines import Line, lines
from orchestrator.report.numbers import difference, duration, number
from orchestrator.report.sections import Finding, Section
from orchestrator.stats.stragglers import LEAST_GPUS, SiblingVerdict
from protocol.cell import DeviceKind
from protocol.exit_codes import ExitCode

SHOWN_CAUSES: Final = 2
_OWN_SECTION: Final = frozenset({CauseKind.FAULT, CauseKind.BURN_IN, CauseKind.TAINTED, CauseKind.CELLS})
"""Causes of the exit code that sections on GPUs, warnings or the verdict show."""
_DETAILS: Final = re.compile(r'\. |: "')
"""Where the details of a cause begin: its second sentence, or quoted names of thresholds."""
SHOWN_GPUS: Final = 8
"""Largest number of findings, or of GPUs in a list of differences, that the brief report shows."""
_WITHOUT_FIGURE: Final[Mapping[Quality, str]] = {
    Quality.FAILED: "failed",
    Quality.MISSING: "missing",
    Quality.DROPPED: "dropped (no time left; fewer models or a longer limit)",
    Quality.DOES_NOT_FIT: "too large for the memory",
    Quality.REFERRED: "referred to a smaller batch size of the run",
    Quality.UNSUPPORTED: "unsupported: see why with --full",
}
_ADVICE: Final[Mapping[Quality, str]] = {
    Quality.CONTAMINATED: "end other programs on the GPU",
    Quality.THROTTLED: "look at cooling and power",
    Quality.HOST_BOUND: "try larger batches",
    Quality.UNSETTLED: "{longer}",
    Quality.UNSETTLED_POWER: "may slow in the first minute of load",
    Quality.NOISY: "measure longer, end other programs",
    Quality.IMPLAUSIBLE: "--full shows the contradiction",
    Quality.DEGRADED: "ran out of memory, measured at a smaller batch",
}
"""Kind of doubtful result that a warning counts → what to do about it."""
_LONGER: Final = {"quick": "standard", "triage": "standard", "standard": "rigorous"}
"""Profile → the next one, which measures longer."""


def conditions(report: Report, layout: Layout) -> str:
    """Return a line such as "42 minutes, profile quick, 1 launch per cell, driver 580.95.05, torch 2.8.0".

    It has the duration of the run, its preset or profile, launches (if not layout.judges_gpus), and software versions.
    The texts of _counts come first if the machine or a GPU is faulty, or a GPU is slow or perhaps slow.
    """
    data = report.metadata
    stack = {"driver": data.driver_version, "torch": data.pytorch_version}
    known = (f"{name} {version}" for name, version in stack.items() if version)
    how = [overview.preset(report, layout)]
    launches = plural(report.test_configuration.launches, "launch", "launches")
    how += [] if layout.judges_gpus else [f"{launches} per cell"]
    counts = _counts(report, layout) if stragglers.concerns_gpus(report) else ()
    return ", ".join((*counts, duration(data.test_duration_seconds), *how, *known))


def result(report: Report, layout: Layout) -> Section:
    """Return the verdict, number of measured cells, speed relative to the baseline, and causes of the exit code.

    If a GPU is faulty, slow or perhaps slow (stragglers.concerns_gpus), the section has only the verdict and the speed.
    """
    badge = overview.verdict(report, layout)
    if stragglers.concerns_gpus(report):
        return Section("result", "Result", findings=(Finding(badge, "", tuple(speed_of_baseline(report))),))
    lines = (*speed_of_baseline(report), *_causes(report, layout))
    return Section("result", "Result", findings=(Finding(badge, ", ".join(_counts(report, layout)), lines),))


def _counts(report: Report, layout: Layout) -> Iterator[str]:
    """Yield up to three texts: the number of measured cells, the health verdict, and the exit code.

    No text on the cells if a burn-in (layout.judges_gpus) measured all of them. No text on health in a burn-in, if no
    health was judged, if the verdict of the run shows it, or if it is PASS although a GPU is slow or perhaps slow. No
    text on exit code 0, unless the machine or a GPU is faulty, or a GPU is slow or perhaps slow
    (stragglers.concerns_gpus).
    """
    cells, judged = report.summary.cells, report.health.verdict
    measured = cells.ok + cells.degraded
    every = measured == cells.planned
    larger = f", {cells.does_not_fit} too large for the memory" if cells.does_not_fit else ""
    if not (every and layout.judges_gpus):
        yield f"{measured}/{plural(cells.planned, 'cell')}{'' if every else ' measured'}{larger}"
    # PASS beside a slow GPU would read as an all-clear.
    silent = judged is HealthVerdict.PASS and stragglers.concerns_gpus(report)
    known = judged is not HealthVerdict.NOT_APPLICABLE and not layout.judges_gpus and not silent
    if known and f"health {judged}" not in overview.verdict(report, layout).text:
        yield f"health {judged}"
    answer = layout.answer(report)
    means = f" ({answer.meaning})" if answer is not None and answer.meaning else ""
    if report.verdict.exit_code:
        yield f"exit code {report.verdict.exit_code}{means}"
    elif stragglers.concerns_gpus(report):
        yield "exit code 0 (--strict: 1)" if any(imperfections(report)) else "exit code 0"


def _causes(report: Report, layout: Layout) -> Iterator[str]:
    """Yield the causes of the exit code that no other section shows, then the number of causes after SHOWN_CAUSES.

    For an old report without causes, yield its reason. If layout.judges_gpus, other sections show the verdict of the
    burn-in and that faults were injected. Otherwise they show cells that failed or were not measured.
    """
    shown = {CauseKind.BURN_IN, CauseKind.TAINTED} if layout.judges_gpus else {CauseKind.CELLS}
    causes = [cause.text for cause in report.verdict.causes if cause.kind not in shown]
    yield from causes[:SHOWN_CAUSES] if report.verdict.causes else filter(None, (report.verdict.why,))
    if len(causes) > SHOWN_CAUSES:
        yield f"and {plural(len(causes) - SHOWN_CAUSES, 'more reason')} for exit code {report.verdict.exit_code}"


def limits(report: Report) -> Section | None:
    """Return causes of the exit code that no other section shows; None without any, or if no GPU needs attention.

    A GPU needs attention if it or the machine is faulty, or if it is slow or perhaps slow (stragglers.concerns_gpus).
    """
    causes = [_DETAILS.split(cause.text)[0] for cause in report.verdict.causes if cause.kind not in _OWN_SECTION]
    return Section("limits", "Also", tuple(causes)) if causes and stragglers.concerns_gpus(report) else None


def speed_of_baseline(report: Report) -> Iterator[str]:
    """Yield the score against a baseline, the number of cells without a comparison, and the slowest models.

    Unknown parts are omitted. Without a baseline, yield nothing.
    """
    compared = report.baseline_comparison
    if compared is None:
        return
    if compared.overall_score is not None:
        over = plural(compared.cells, "cell")
        yield f"{compared.overall_score:.1f}% of the speed of the baseline {compared.baseline}, over {over}"
    if excluded := compared.not_comparable:
        reason = max(excluded, key=lambda why: excluded[why])
        more = f" and {plural(len(excluded) - 1, 'other reason')}" if len(excluded) > 1 else ""
        number = plural(sum(excluded.values()), "cell")
        yield f"{number} not compared with {compared.baseline}: {reason}{more}. `compare` judges them"
    yield from filter(None, (slowest(compared),))


def gpus(report: Report) -> Section | None:
    """Return findings on GPUs and the machine, then how much identical GPUs differ in speed; None without either.

    The differences are shown only for groups of identical GPUs in which no GPU is slow or perhaps slow.
    """
    found = tuple(_found(report))
    slow = {standing.gpu_uuid for standing in report.stragglers if stragglers.is_found(standing)}
    more = (f"and {len(found) - SHOWN_GPUS} more",) if len(found) > SHOWN_GPUS else ()
    notes = tuple(
        describe(one, report)
        for one in differences(report)
        if one.cells and not slow & {*one.percent} and (one.percent or not found)
    )
    shown = (*found[:SHOWN_GPUS], *(_healthy(report, slow) if found else ()))
    return Section("gpus", "GPUs", findings=shown, notes=(*more, *notes)) if found or notes else None


def _healthy(report: Report, slow: Collection[str]) -> Iterator[Finding]:
    """Yield one finding on all GPUs that are healthy and not slow. slow: UUIDs of slow GPUs."""
    healthy = {one.gpu_uuid for one in report.health.gpus if one.verdict is HealthVerdict.PASS} - {*slow}
    if healthy:
        who = labels([device for device in report.gpu_info if device.gpu_uuid in healthy])
        standings = [one for one in report.stragglers if one.gpu_uuid in healthy]
        alike = [one for one in standings if one.percent is not None]
        unjudged = (one.why for one in standings if one.percent is None)
        why = next((f": {reason}" for reason in unjudged), "")
        speed = f", {stragglers.rates(alike)}" if len(alike) == len(healthy) else f"; speed not judged{why}"
        yield Finding(health.badge(HealthVerdict.PASS), f"{who}: healthy{speed}")


def each_gpu(report: Report) -> Section | None:
    """Return findings on faulty or slow GPUs and on the machine, then on the other GPUs; None without any.

    The other GPUs get one finding that names all with verdict OK, and one for each reason why GPUs have no verdict.
    """
    faulty = {one.gpu_uuid for one in report.health.gpus if one.verdict is HealthVerdict.FAIL}
    found = (*_found(report), *stragglers.without_finding(report, faulty))
    return Section("gpus", "GPUs", findings=found) if found else None


def _found(report: Report) -> Iterator[Finding]:
    """Yield findings on GPUs with bad health, on the machine, and on slow or perhaps slow GPUs, in this order.

    The health of a GPU is bad if it is FAIL, or if it is WARN and the GPU is neither slow nor perhaps slow. The machine
    has a finding if its health is FAIL or WARN.
    """
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    slow = {standing.gpu_uuid for standing in report.stragglers if stragglers.is_found(standing)}
    for one in report.health.gpus:
        if one.verdict is HealthVerdict.FAIL or (one.verdict is HealthVerdict.WARN and one.gpu_uuid not in slow):
            device = devices[one.gpu_uuid]
            yield _of_health(label(device), one, stragglers.board(device))
    if report.health.node.verdict in (HealthVerdict.FAIL, HealthVerdict.WARN):
        yield _of_health("the machine", report.health.node)
    yield from stragglers.brief_findings(report)


def _of_health(name: str, judged: DeviceHealth | NodeHealth, board: str = "") -> Finding:
    signals = [
        f"{signal.title}: {signal.message}" for signal in judged.signals if signal.state in (State.FAIL, State.WARN)
    ]
    lines = stragglers.to_do(judged.action.advice, board)
    return Finding(health.badge(judged.verdict), f"{name}: {next(iter(signals), 'hardware health')}", lines)


def describe(against: Differences, report: Report) -> str:
    """Describe how much identical devices differ in speed, by the first of these cases that applies.

    They are CPU devices: "not compared: …". No cell can compare them: "not comparable: …". A GPU lags: "in 4 GPU-bound
    cells: GPU 5 up to 10.0% slower in 2 of them". All are equal: "equal within 0.3% (5 steady GPU-bound
    configurations)". There are two: the difference of the slower from the faster one, in percent. There are more: the
    difference of each from the median, in percent.
    """
    every = len(against.group.devices) == len(report.gpu_info)
    alike = "" if every else f"{labels(against.group.devices)} "
    if against.group.shown.kind == DeviceKind.CPU:
        return f"{alike}not compared: there is no verdict on the speed of CPU devices"
    if not against.percent:
        return f"{alike}not comparable: no cell is steady and GPU-bound on all"
    over = plural(against.judging, "GPU-bound cell")
    names = {device.gpu_uuid: labels([device]) for device in against.group.devices}
    if against.lagging:
        found = sorted(against.lagging.items(), key=lambda item: -item[1].percent)
        words = [f"{names[uuid]} up to {lag.percent:.1f}% slower in {lag.cells} of them" for uuid, lag in found]
        return f"{alike}in {over}: {', '.join(words[:SHOWN_GPUS])}"
    if against.are_equal:
        within = f"{max(0.1, against.range_percent):.1f}%"
        return f"{alike}equal within {within} ({plural(against.judging, 'steady GPU-bound configuration')})"
    ordered = sorted(against.percent.items(), key=lambda item: item[1])
    apart = [item for item in ordered if abs(item[1]) > EQUAL_PERCENT] or ordered
    speeds = [f"{names[uuid]} {difference(by)}" for uuid, by in apart[:SHOWN_GPUS]]
    if len(ordered) == 2:
        return f"in {over}: {speeds[0]} against the faster GPU"
    near = [abs(by) for item in ordered if item not in apart for by in item[1:]]
    speeds += [f"others within {max(0.1, *near):.1f}%"] if near else []
    return f"in {over}: {', '.join(speeds)} of the median"


def warnings(report: Report) -> Section | None:
    """Return warnings about missing and doubtful results, then caveats on all figures of the run; None without any.

    Missing results are one line, doubtful ones a line for each reason (`doubts`). The caveats are those of
    overview.notices, except the one on telemetry if the run has no GPU.
    """
    rows = tuple(doubts(report))
    # Without a GPU nobody expects its telemetry.
    notes = tuple(
        words for words in overview.notices(report) if _on_gpus(report) or report.metadata.telemetry_note not in words
    )
    return Section("warnings", "Warning", (*rows, *notes)) if rows or notes else None


def _on_gpus(report: Report) -> bool:
    return any(device.kind == DeviceKind.CUDA for device in report.gpu_info)


def doubts(report: Report) -> Iterator[str]:
    """Yield a text on all cells without a result, if any, then one for each kind of doubtful results, with advice."""
    alike: dict[Quality, list[Line]] = {}
    for line in lines(report):
        alike.setdefault(line.quality, []).append(line)
    total = plural(len(report.cells), "cell")
    lacking = {kind: words for kind, words in _WITHOUT_FIGURE.items() if kind in alike}
    if lacking:
        each = ", ".join(f"{len(alike[kind]):,} {words}" for kind, words in lacking.items())
        of = f"not measured: {each}" if len(lacking) > 1 else next(iter(lacking.values()))
        found = [line for kind in lacking for line in alike[kind]]
        yield f"{len(found):,} of {total} {of}{_where(found, report)}"
    longer = _LONGER.get(report.test_configuration.profile)
    settle = f"measure longer (--profile {longer})" if longer and _on_gpus(report) else "end other programs"
    for kind, advice in _ADVICE.items():
        if kind in alike:
            yield f"{len(alike[kind]):,} of {total} {kind}{_where(alike[kind], report)}: {advice.format(longer=settle)}"


def _where(found: Sequence[Line], report: Report) -> str:
    """Name the GPUs of these cells: " (GPU 2)"; "" if the cells are on all GPUs of the run."""
    uuids = {line.gpu.gpu_uuid for line in found}
    devices = [device for device in report.gpu_info if device.gpu_uuid in uuids]
    return f" ({labels(devices)})" if len(devices) < len(report.gpu_info) else ""


def probes(report: Report) -> Section | None:
    """Return a rate of each probe (of memory: copy), as median over devices and modes; None if no probe has one."""
    found: dict[str, dict[str, list[ProbeMetrics]]] = {}
    for probe in report.probes:
        if probe.launches:
            precision = f"{probe.precision} " if probe.name == "gemm" else ""
            found.setdefault(probe.title, {}).setdefault(precision, []).append(probe)
    rates = "; ".join(filter(None, (_rates(title, by_precision) for title, by_precision in found.items())))
    return Section("probes", "Probes", (rates,)) if rates else None


def _rates(title: str, by_precision: Mapping[str, Sequence[ProbeMetrics]]) -> str:
    for figure, unit in (("sustained_tflops", "TFLOP/s"), ("copy_gb_per_sec", "GB/s"), ("transfer_gb_per_sec", "GB/s")):
        known = {
            precision: values
            for precision, alike in by_precision.items()
            if (values := [value for probe in alike if (value := getattr(probe, figure)) is not None])
        }
        if known:
            rates = ", ".join(f"{precision}{number(median(values))}" for precision, values in known.items())
            return f"{title} {rates} {unit}"
    return ""


def next_steps(report: Report) -> Section:
    """Return commands to run next, at least one, such as `resume` for an unfinished run."""
    setup, data, cells = report.test_configuration, report.metadata, report.summary.cells
    steps = []
    if report.verdict.exit_code == ExitCode.HARDWARE:
        steps.append("after the to-do, verify the node: gpubench-orchestrate --burn-in 1h")
    elif any(map(stragglers.is_found, report.stragglers)):
        steps.append("after the to-do, compare the GPUs again: gpubench-orchestrate triage")
    if cells.failed:
        steps.append(f"why cells failed: gpubench-orchestrate explain {data.run_id}")
    if not data.running and (cells.missing or not data.finished):
        steps.append(f"continue the run: gpubench-orchestrate resume {data.run_id}")
    if steps:
        return Section("next", "Next", tuple(steps))
    if setup.preset != "triage" and (faster := " ".join(untested(report))):
        steps.append(f"perhaps faster: the same command with {faster}")
    judged = any(standing.verdict is not SiblingVerdict.NONE for standing in report.stragglers)
    compared = tuple(differences(report))
    if report.gpu_info[0].kind == DeviceKind.CUDA and not judged:
        if len(report.gpu_info) < LEAST_GPUS and any(one.lagging for one in compared):
            steps.append("which GPU is slow: compare each with a baseline (--solo --compare-baseline FILE)")
        elif len(report.gpu_info) >= LEAST_GPUS and not any(one.are_equal for one in compared):
            steps.append("which GPU is slow: gpubench-orchestrate triage")
    if setup.profile == "quick":
        longer = "without --fast" if "--fast" in data.command else "--profile standard"  # --fast wins over a profile
        steps.append(f"more precise figures: {longer}")
    steps.append(f"compare: gpubench-orchestrate compare EARLIER {data.run_id}")
    return Section("next", "Next", tuple(steps))
