"""The first and last chapters of a report: verdict with reasons, key figures, software versions, command."""

import datetime
from collections.abc import Iterator
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.imperfections import imperfections
from orchestrator.figures.report import BestThroughput, CellCounts, ConfigurationReport, GpuInfo, Metadata, Report
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.chapters import health, stragglers
from orchestrator.report.chapters.comparisons import slowest
from orchestrator.report.device_labels import groups, label_of, labels
from orchestrator.report.layout import Answer, Layout
from orchestrator.report.numbers import duration, number, share, unit
from orchestrator.report.sections import MOST_ROWS, SHOWN_REASONS, Badge, Card, Finding, Rank, Section, Tone
from protocol.exit_codes import ExitCode

_GRAVEST_LAST: Final = (Tone.GOOD, Tone.WARN, Tone.BAD)
_RUN: Final = {
    ExitCode.PASSED: Tone.GOOD,
    ExitCode.MISSED: Tone.BAD,
    ExitCode.HARDWARE: Tone.BAD,
    ExitCode.INCOMPLETE: Tone.WARN,
}


def head(report: Report, layout: Layout) -> Section:
    """Return the head of the text report: the verdict, facts of the run, software versions, and notices."""
    answer = layout.answer(report)
    first = f"Verdict: {verdict(report, layout)}" if answer is None else f"{layout.title}: {answer.badge}"
    facts_of = (f"{name}: {fact}" for name, fact in facts(report, layout))
    return Section("head", "PyTorch GPU Benchmark Report", (first, *facts_of, *notices(report)))


def ticket(report: Report, layout: Layout) -> Section:
    """Return the head of the Markdown report: the verdict, facts of the run, then reasons and notices."""
    answer = layout.answer(report)
    code = f"(exit code {report.verdict.exit_code})"
    title = f"gpubench: {verdict(report, layout)} {code}"
    if answer is not None:
        title = f"gpubench {layout.title.lower()}: {answer.badge}; {report.verdict.word} {code}"
    facts_of = "; ".join(f"{name}: {fact}" for name, fact in (*facts(report, layout), *more_facts(report)))
    reasons = Finding(None, "", (*report.verdict.reasons, *notices(report)), listed=True)
    return Section("head", title, (f"{facts_of}.",), findings=(reasons,))


def facts(report: Report, layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each main fact about the run and its software: ("Duration", "42 minutes")."""
    data = report.metadata
    yield "Test Date", f"{_date(data):%Y-%m-%d %H:%M:%S} UTC"
    yield "Duration", duration(data.test_duration_seconds)
    yield "Host", data.hostname
    yield "Run", f"{data.run_id}, gpubench {data.tool_version}"
    stack = {
        "PyTorch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "Python": data.python_version,
    }
    known = ", ".join(f"{name} {text}" for name, text in stack.items() if text)
    yield "Stack", known or "unknown, because no cell was measured"
    if not layout.checks:
        yield "Measured", _measured(report.test_configuration)
        yield "Units", "1 MB = 1024 x 1024 bytes"
    # A resume that found nothing left to do changed nothing.
    if resumed := sum(1 for segment in data.segments[1:] if segment.launches):
        yield "Resumed", plural(resumed, "time")


def more_facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of further known software versions, then of the run's command line."""
    data = report.metadata
    versions = {"Driver": data.driver_version, "cuDNN": data.cudnn_version, "transformers": data.transformers_version}
    yield from ((name, version) for name, version in versions.items() if version)
    yield "Command", " ".join(data.command)


def _date(data: Metadata) -> datetime.datetime:
    return datetime.datetime.fromisoformat(data.test_date)


def _measured(setup: ConfigurationReport) -> str:
    launches = f"{plural(setup.launches, 'launch', 'launches')} a cell"
    words = [*([f"preset {setup.preset}"] if setup.preset else []), f"profile {setup.profile}", launches]
    if setup.test_iterations is not None:
        fixed = setup.warmup_iterations
        warm_up = "an adaptive warm-up" if fixed is None else f"{fixed} of warm-up"
        words.append(f"{plural(setup.test_iterations, 'iteration')} after {warm_up}")
    elif setup.warmup_iterations is not None:
        words.append(f"{plural(setup.warmup_iterations, 'iteration')} of warm-up")
    return ", ".join([*words, setup.mode, f"isolation {setup.isolation}", f"seed {setup.seed}"])


def notices(report: Report) -> Iterator[str]:
    """Yield caveats that concern all figures of the run."""
    if report.metadata.running:
        yield "The run is still running. Cells without a result here have not been measured yet."
    if report.test_configuration.allow_busy:
        yield "Busy GPUs were allowed: other processes may have slowed the measurements."
    for note in filter(None, (_mixed_stack(report.metadata), report.metadata.suspended)):
        yield f"Note: {note}."
    for one in report.metadata.settings:
        yield f"Environment variable {one.name}={one.value}: {one.effect}"
    if report.metadata.telemetry_note:
        yield f"Telemetry: {report.metadata.telemetry_note}"


def _mixed_stack(data: Metadata) -> str:
    of_launches = {
        "PyTorch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "cuDNN": data.cudnn_version,
        "torchvision": data.torchvision_version,
        "transformers": data.transformers_version,
        "Python": data.python_version,
    }
    several = [name for name, versions in of_launches.items() if versions and ", " in versions]
    drivers = {segment.driver_version for segment in data.segments if segment.launches and segment.driver_version}
    several += ["driver"] if len(drivers) > 1 else []
    if not several:
        return ""
    return f"launches of this run differ in {', '.join(several)}: their figures are not comparable with each other"


def summary(report: Report) -> Section:
    """Return the known key figures of the run, one a line: "Peak Memory Usage: 1024.0 MB"."""
    one = report.summary
    figures = {
        "Overall Performance Score": None if one.overall_score is None else number(one.overall_score),
        "Best Throughput": _best(report, one.best_model_throughput) if one.best_model_throughput else None,
        "Peak Memory Usage": None if one.peak_memory_usage_mb is None else unit(one.peak_memory_usage_mb, "MB"),
        "Average GPU Utilization": None if one.average_gpu_utilization is None else share(one.average_gpu_utilization),
        "Average Power Draw": None if one.average_power_draw_w is None else unit(one.average_power_draw_w, "W"),
        "Cells": f"{one.cells.planned} planned, {one.cells.ok} ok"
        + "".join(f", {words}" for words in _without(report.summary.cells)),
    }
    lines = tuple(f"{name}: {fact}" for name, fact in figures.items() if fact is not None)
    return Section("summary", "Overall Summary", lines)


def _best(report: Report, best: BestThroughput) -> str:
    of = f"{best.phase}, {best.precision}, {label_of(best.gpu_uuid, report)}"
    return f"{best.model} @ batch_size={best.batch_size} ({number(best.throughput)} smp/s, {of})"


def _without(cells: CellCounts, *, rounds: bool = False) -> Iterator[str]:
    """Yield a text such as "2 failed" for each status other than ok that at least one cell has.

    rounds: also yield such a text for cells that were measured in fewer rounds than planned.
    """
    found = {
        "degraded (measured at a smaller batch size)": cells.degraded,
        "referred (see the cell of a smaller batch size)": cells.referred,
        "too large for the memory": cells.does_not_fit,
        "unsupported on this machine": cells.unsupported,
        "failed": cells.failed,
        "dropped for lack of time": cells.dropped,
        "missing": cells.missing,
        "measured in fewer rounds than planned": cells.short_of_launches if rounds else 0,
    }
    return (f"{count} {word}" for word, count in found.items() if count)


def ended(report: Report, layout: Layout) -> Section:
    """Return the end of the text report: the verdict, the meaning of the exit code, and the reasons."""
    code = _exit_code(report, layout.answer(report))
    must = Finding(None, f"Verdict: {verdict(report, layout).text}", (code,), ranks=(Rank.MUST, Rank.MUST))
    most = SHOWN_REASONS if layout.one_page else MOST_ROWS
    reasons = Finding(None, "", report.verdict.reasons, listed=True, most=most)
    return Section("verdict", "", findings=(must, reasons))


def verdict(report: Report, layout: Layout) -> Badge:
    """Return the verdict of layout.answer, if any, else those on the run and its GPUs: "GPU 5 slow, COMPLETE".

    The gravest verdict comes first and decides the colour.
    """
    if (answer := layout.answer(report)) is not None:
        return answer.badge
    ended = Badge(report.verdict.word.upper(), _RUN.get(ExitCode(report.verdict.exit_code), Tone.BAD))
    badges = sorted((ended, *_against_gpus(report)), key=lambda badge: -_GRAVEST_LAST.index(badge.tone))
    return Badge(", ".join(map(str, badges)), badges[0].tone)


def _against_gpus(report: Report) -> Iterator[Badge]:
    """Yield badges that name faulty, slow and doubtful GPUs.

    If no GPU is slow or doubtful, but health is WARN, yield a badge for it, too.
    """
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    if faulty := [devices[one.gpu_uuid] for one in report.health.gpus if one.verdict is HealthVerdict.FAIL]:
        yield Badge(f"{labels(faulty)} faulty", Tone.BAD)
    alike: dict[str, list[GpuInfo]] = {}
    for one in filter(stragglers.is_found, report.stragglers):
        word = "slow" if one.verdict in stragglers.SLOW else one.word.lower()
        alike.setdefault(word, []).append(devices[one.gpu_uuid])
    for word, gpus in alike.items():
        yield Badge(f"{labels(gpus)} {word}", Tone.WARN)
    if not alike and report.health.verdict is HealthVerdict.WARN:
        yield Badge(f"health {HealthVerdict.WARN}", Tone.WARN)


def heading(report: Report, layout: Layout) -> str:
    """Return the title of the report: "8 x H200 on node-01", or "Burn-in of 8 x H200 on node-01" (layout.title)."""
    kinds = [f"{len(group.devices)} x {group.shown.gpu_name.removeprefix('NVIDIA ')}" for group in groups(report)]
    what = f"{layout.title} of " if layout.title else ""
    return f"{what}{' and '.join(kinds)} on {report.metadata.hostname}"


def preset(report: Report, layout: Layout) -> str:
    """Return the user's preset, else the profile as the layout names it: "profile quick", "burn-in, level full"."""
    profile = layout.profile(report)
    named = f"profile {profile}" if profile == report.test_configuration.profile else profile
    return report.test_configuration.preset or named


def meaning(report: Report, layout: Layout) -> str:
    """Return the meaning of the exit code as text.

    If layout.answer returns a verdict, the text begins with the basis of that verdict: "Level full, 8 h requested".
    """
    answer = layout.answer(report)
    ended = _exit_code(report, answer)
    return ended if answer is None else f"{answer.reach.removesuffix('.')}. {ended}"


def _exit_code(report: Report, answer: Answer | None) -> str:
    what = report.verdict.meaning if answer is None else answer.meaning or report.verdict.meaning
    if report.verdict.exit_code == ExitCode.PASSED and not any(imperfections(report)):
        what = "passed"  # the whole meaning says what --strict would not let pass
    return f"Exit code {report.verdict.exit_code}: {what}"


def cards(report: Report, layout: Layout) -> Iterator[Card]:
    """Yield cards (boxes of the HTML page) with the key figures of the run that are known."""
    summary, cells, data = report.summary, report.summary.cells, report.metadata
    words = ", ".join(_without(cells, rounds=layout.checks)) or "each has a result"
    worst = Tone.BAD if cells.failed else Tone.WARN if cells.missing else Tone.GOOD
    yield Card("Cells", f"{cells.ok} of {cells.planned}", words, worst)
    judged = report.health.verdict
    if judged is not HealthVerdict.NOT_APPLICABLE and not layout.judges_gpus:
        yield Card("Health", judged, "the worst verdict on a GPU or the machine", health.TONES[judged])
    if summary.overall_score is not None:
        slower = "" if report.baseline_comparison is None else slowest(report.baseline_comparison)
        yield Card("Score", number(summary.overall_score), slower or summary.score_note)
    launches = plural(report.test_configuration.launches, "launch", "launches")
    yield Card("Measured", preset(report, layout), f"{launches} a cell, {duration(data.test_duration_seconds)}")
    for group in groups(report):
        device = group.shown
        what = labels(group.devices) if len(report.gpu_info) > 1 else "Device"
        yield Card(what, device.gpu_name, ", ".join(filter(None, [device.gpu_architecture, *_memory(device)])))
    stack = {"CUDA": data.cuda_version, "driver": data.driver_version}
    if data.pytorch_version:
        known = ", ".join(f"{name} {version}" for name, version in stack.items() if version)
        yield Card("Stack", f"torch {data.pytorch_version}", known)


def _memory(device: GpuInfo) -> Iterator[str]:
    if device.gpu_memory_total_mb is not None:
        yield unit(device.gpu_memory_total_mb, "MB", digits=0)
    if device.power_limit_w is not None:
        yield unit(device.power_limit_w, "W limit", digits=0)
