"""The report as text, laid out as in the requirements document, for a terminal of 80 columns.

    head, GPUs ─ performance by kind of GPU ─ scans for the batch size ─ who is slow ─ spread between identical GPUs
    ─ health ─ failures ─ what was left out ─ time beside measuring ─ thresholds, baseline, costs ─ summary
    head ─ who is slow ─ spread ─ health ─ failures                             of a triage: who is slow comes first
    head ─ burn-in                                                              of a burn-in: one page

The verdict comes last: it is what stands above the prompt when the report was printed.
"""

import datetime
from collections.abc import Callable, Iterator
from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.report import BestThroughput, CellCounts, ConfigurationReport, Metadata, Report
from orchestrator.report import layout, stack_warning
from orchestrator.report.numbers import duration, number, share, unit
from orchestrator.report.text_burn_in import burn_in
from orchestrator.report.text_burn_in_headline import answer
from orchestrator.report.text_comparisons import held_against
from orchestrator.report.text_exclusions import not_measured
from orchestrator.report.text_failures import failures
from orchestrator.report.text_gpus import gpus, groups, label, labels
from orchestrator.report.text_health import health
from orchestrator.report.text_models import models, without_readings
from orchestrator.report.text_overview import overview
from orchestrator.report.text_probes import probes
from orchestrator.report.text_scans import batch_scans
from orchestrator.report.text_spread import spread
from orchestrator.report.text_stragglers import full_node, stragglers
from orchestrator.report.text_time import time

_MODES: Final = {"solo": "Alone at work on the node", "loaded": "With all devices at work"}


def to_text(report: Report) -> str:
    """The whole text, ending with a newline."""
    parts: tuple[Callable[[Report], Iterator[str]], ...] = (
        *(_head, gpus, _performance, batch_scans, stragglers, full_node, spread, health, failures, not_measured, time),
        *(held_against, _summary, _verdict),
    )
    if report.burn_in is not None:
        parts = (_one_page,)
    elif report.test_configuration.preset == TRIAGE:
        parts = (_head, stragglers, full_node, spread, health, failures, not_measured, held_against, _verdict)
    lines = [line.rstrip() for part in parts for line in part(report)]
    return "\n".join(lines) + "\n"


def _one_page(report: Report) -> Iterator[str]:
    """A burn-in: what stands around its chapter shares the page with it."""
    yield from burn_in(report, tuple(_head(report)), tuple(_ended(report)))


def _head(report: Report) -> Iterator[str]:
    data, setup = report.metadata, report.test_configuration
    date = datetime.datetime.fromisoformat(data.test_date)
    yield from (layout.RULE, layout.centred("PyTorch GPU Benchmark Report"), layout.RULE, "")
    if report.burn_in is not None:
        yield from layout.wrap(f"Burn-in: {answer(report.burn_in, report)}")
    yield f"Test Date: {date:%Y-%m-%d %H:%M:%S} UTC"
    yield f"Duration: {duration(data.test_duration_seconds)}"
    yield from layout.wrap(f"Host: {data.hostname}")
    yield from layout.wrap(f"Run: {data.run_id}, gpubench {data.tool_version}")
    stack = {"PyTorch": data.pytorch_version, "CUDA": data.cuda_version, "Python": data.python_version}
    known = ", ".join(f"{name} {text}" for name, text in stack.items() if text)
    yield from layout.wrap(f"Stack: {known or 'unknown, because no cell was measured'}")
    if report.burn_in is None:
        yield from layout.wrap(f"Measured: {_measured(setup)}")
        yield "Units: 1 MB = 1024 x 1024 bytes"
    if data.running:
        yield from layout.wrap("The run still goes on: what has no result here has not been measured yet.")
    if resumed := _resumed(data):
        yield f"Resumed: {resumed} {'time' if resumed == 1 else 'times'}"
    for note in filter(None, (stack_warning.words(data), data.stood_still)):
        yield from layout.wrap(f"Note: {note}.")
    if setup.allow_busy:
        yield from layout.wrap("Busy GPUs were allowed: other processes may have slowed what was measured.")
    yield ""


def _measured(setup: ConfigurationReport) -> str:
    launches = "1 launch a cell" if setup.launches == 1 else f"{setup.launches} launches a cell"
    words = [*([f"preset {setup.preset}"] if setup.preset else []), f"profile {setup.profile}", launches]
    if setup.test_iterations is not None and setup.warmup_iterations is not None:
        words.append(f"{_iterations(setup.test_iterations)} after {setup.warmup_iterations} of warm-up")
    elif setup.test_iterations is not None:
        words.append(f"{_iterations(setup.test_iterations)} after an adaptive warm-up")
    elif setup.warmup_iterations is not None:
        words.append(f"{_iterations(setup.warmup_iterations)} of warm-up")
    return ", ".join([*words, setup.mode, f"isolation {setup.isolation}", f"seed {setup.seed}"])


def _iterations(count: int) -> str:
    return "1 iteration" if count == 1 else f"{count} iterations"


def _resumed(data: Metadata) -> int:
    """How often the run was gone on with; a resume that found nothing left to do changed nothing."""
    return sum(1 for segment in data.segments[1:] if segment.launches)


def _performance(report: Report) -> Iterator[str]:
    if not report.results and not report.probes:
        return
    yield from layout.chapter("Model Performance Summary")
    for group in groups(report):
        results = [result for result in report.results if result.gpu_uuid == group.shown.gpu_uuid]
        if len(report.gpu_info) > 1:
            yield from layout.wrap(f"{label(group.shown)}: {group.shown.gpu_name}")
            if group.others:
                yield from layout.wrap(
                    f"Identical to it: {labels(group.others)}. The spread below says where they differ.", "  "
                )
            yield ""
        own_probes = [probe for probe in report.probes if probe.gpu_uuid == group.shown.gpu_uuid]
        modes = dict.fromkeys([*(one.mode for one in own_probes), *(one.mode for one in results)])
        for mode in modes:
            if len(modes) > 1:
                yield from (f"{_MODES[mode]}:", "")
            yield from probes([probe for probe in own_probes if probe.mode == mode])
            yield from overview([result for result in results if result.mode == mode])
            yield from models([result for result in results if result.mode == mode])
        yield from without_readings(results)


def _summary(report: Report) -> Iterator[str]:
    summary = report.summary
    yield from layout.chapter("Overall Summary")
    facts = {
        "Overall Performance Score": None if summary.overall_score is None else number(summary.overall_score),
        "Best Throughput": _best(report, summary.best_model_throughput) if summary.best_model_throughput else None,
        "Peak Memory Usage": _known(summary.peak_memory_usage_mb, unit(summary.peak_memory_usage_mb, "MB")),
        "Average GPU Utilization": _known(summary.average_gpu_utilization, share(summary.average_gpu_utilization)),
        "Average Power Draw": _known(summary.average_power_draw_w, unit(summary.average_power_draw_w, "W")),
        "Cells": _cells(summary.cells),
        "Telemetry": report.metadata.telemetry_note or None,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield from layout.wrap(f"{name}: {fact}")
    for one in report.metadata.settings:
        yield from layout.wrap(f"Changed by the environment: {one.name}={one.value}: {one.effect}", "", "  ")
    yield ""


def _verdict(report: Report) -> Iterator[str]:
    yield from _ended(report)
    yield from layout.bullets(report.verdict.reasons, len(report.verdict.reasons))
    yield from ("", layout.RULE)


def _ended(report: Report) -> Iterator[str]:
    """The verdict, and what its exit code means."""
    verdict = report.verdict
    word = verdict.word.upper() if report.burn_in is None else answer(report.burn_in, report)
    yield from layout.wrap(f"Verdict: {word}", "", "  ")
    yield from layout.wrap(f"Exit code {verdict.exit_code}: {verdict.meaning}", "  ", "  ")


def _known(value: float | None, text: str) -> str | None:
    return None if value is None else text


def _best(report: Report, best: BestThroughput) -> str:
    device = next(label(device) for device in report.gpu_info if device.gpu_uuid == best.gpu_uuid)
    return (
        f"{best.model} @ batch_size={best.batch_size} ({number(best.throughput)} smp/s, {best.phase}, "
        f"{best.precision}, {device})"
    )


def _cells(cells: CellCounts) -> str:
    """What became of the planned cells; what did not happen is not listed."""
    words = {
        "ok": cells.ok,
        "degraded (measured at a smaller batch size)": cells.degraded,
        "referred (measured as another planned batch size)": cells.referred,
        "too large for the device's memory": cells.does_not_fit,
        "failed": cells.failed,
        "dropped for want of time": cells.dropped,
        "missing": cells.missing,
    }
    return ", ".join([f"{cells.planned} planned", *(f"{count} {word}" for word, count in words.items() if count)])
