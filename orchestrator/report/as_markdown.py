"""The report as Markdown, for a ticket or a pull request.

    verdict and its reasons ─ GPUs ─ who of them is slow, what a full node loses ─ every cell in a row
    ─ spread between identical GPUs ─ thresholds, baseline, costs ─ launches without a result
    verdict and its reasons ─ GPUs ─ what a burn-in says of each                              of a burn-in

Figures in their digits are those of the text report (numbers.py).
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures.cells import LoadMetrics
from orchestrator.figures.report import FailureReport, Report
from orchestrator.report import stack_warning
from orchestrator.report.lines import Line, lines, memory_mb, time_ms
from orchestrator.report.markup import escaped, table
from orchestrator.report.numbers import NOT_AVAILABLE, duration, number, share, unit
from orchestrator.report.text_burn_in import asked, meaning
from orchestrator.report.text_burn_in_headline import answer
from orchestrator.report.text_comparisons import actual, cell, cost_row, gravity, left_out, names, priced
from orchestrator.report.text_gpus import label
from orchestrator.report.text_injected import injected
from orchestrator.report.text_spread import UNITS, by_devices, cell_names
from orchestrator.report.text_stragglers import MEANS_OF_LAUNCHES
from orchestrator.state.stopping import how_it_ended
from protocol.cell import Mode, Workload

_CELLS: Final = ("Cell", "GPU", "Batch", "Status", "Rate", "Time", "95% interval", "Launch spread", "Memory")


def to_markdown(report: Report) -> str:
    """The whole text, ending with a newline."""
    names = {gpu.gpu_uuid: label(gpu) for gpu in report.gpu_info}
    middle: tuple[Iterator[str], ...]
    if report.burn_in is None:
        middle = (_slow(report, names), _cells(report, names), _spread(report), _held_against(report))
    else:
        middle = (_burn_in(report, names),)
    parts = (_head(report), _gpus(report), *middle, _failures(report, names))
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _head(report: Report) -> Iterator[str]:
    data, verdict = report.metadata, report.verdict
    ended = f"{escaped(verdict.word)} (exit code {verdict.exit_code})"
    night = report.burn_in
    yield f"## gpubench: {ended}" if night is None else f"## gpubench burn-in: {answer(night, report)}; {ended}"
    yield ""
    date = datetime.datetime.fromisoformat(data.test_date)
    took = duration(data.test_duration_seconds)
    yield escaped(f"Run {data.run_id} on {data.hostname}, {date:%Y-%m-%d %H:%M} UTC, {took}; {_stack(report)}.")
    yield ""
    yield from (f"- {escaped(reason)}" for reason in verdict.reasons)
    yield from (f"- {note}" for note in (stack_warning.words(data), data.stood_still) if note)
    if data.running:
        yield "- The run still goes on: what has no result has not been measured yet."
    yield ""


def _stack(report: Report) -> str:
    data = report.metadata
    known = {
        "driver": data.driver_version,
        "PyTorch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "gpubench": data.tool_version,
    }
    return ", ".join(f"{name} {text}" for name, text in known.items() if text)


def _gpus(report: Report) -> Iterator[str]:
    health = {gpu.gpu_uuid: gpu.verdict for gpu in report.health.gpus}
    yield from table(
        ("GPU", "Name", "Memory", "Power limit", "UUID", "Health"),
        (
            (
                label(gpu),
                gpu.gpu_name,
                unit(gpu.gpu_memory_total_mb, "MB", digits=0),
                unit(gpu.power_limit_w, "W", digits=0),
                gpu.gpu_uuid,
                str(health.get(gpu.gpu_uuid, NOT_AVAILABLE)) + (f"; {gpu.taken_out}" if gpu.taken_out else ""),
            )
            for gpu in report.gpu_info
        ),
    )


def _cells(report: Report, names: Mapping[str, str]) -> Iterator[str]:
    if not report.cells:
        return
    counts = report.summary.cells
    became = f"{counts.ok} ok, {counts.failed} failed, {counts.missing} missing"
    yield f"{plural(counts.planned, 'cell')} planned, {became}."
    yield ""
    yield from table(_CELLS, (_cell(line, names) for line in lines(report)))


def _cell(line: Line, names: Mapping[str, str]) -> tuple[str, ...]:
    entry, metric = line.entry, line.metric
    status = entry.status.replace("_", " ") + (f": {entry.reason}" if entry.reason else "")
    size = NOT_AVAILABLE if entry.batch_size is None or entry.workload in WITHOUT_BATCH else str(entry.batch_size)
    if metric is None:
        return (_name(line), names[entry.gpu_uuid], size, status, *(NOT_AVAILABLE,) * 5)
    interval, figure = metric.relative_half_width, line.figure
    return (
        _name(line),
        names[entry.gpu_uuid],
        size,
        status,
        NOT_AVAILABLE if isinstance(metric, LoadMetrics) or figure is None else unit(line.value, figure.unit),
        unit(time_ms(metric), "ms"),
        NOT_AVAILABLE if interval is None else f"+/- {interval * 100:.2f}%",
        share(metric.launch_spread_percent),
        unit(memory_mb(metric), "MB"),
    )


def _name(line: Line) -> str:
    """What was measured: "resnet50 inference fp32 b8"; sizes and formats where a cell has any."""
    entry = line.entry
    words = [entry.model_name, entry.workload, entry.precision]
    if entry.workload not in (Workload.LOAD, Workload.PROBE):
        words.append(f"b{entry.batch_size_requested or 'auto'}")
    words += ["solo"] if line.mode == Mode.SOLO else []
    words += [f"input {entry.input_size}"] if entry.input_size is not None else []
    words += [entry.memory_format] if entry.memory_format == "channels_last" else []
    words += [f"{entry.new_tokens} tokens"] if entry.new_tokens is not None else []
    return " ".join(words)


def _slow(report: Report, names: Mapping[str, str]) -> Iterator[str]:
    """Who is slower than its siblings, and why; and what cells lose where all devices are at work."""
    if len(report.stragglers) > 1:
        yield "Who is slower than its identical siblings:"
        yield ""
        yield from table(
            ("GPU", "Verdict", "Of its siblings", "Why", "Probably", "What next"),
            (
                (names[one.gpu_uuid], one.word, share(one.percent), one.why, one.reason_text, one.next_step)
                for one in report.stragglers
            ),
        )
    if report.full_node:
        yield "What a full node loses:"
        yield ""
        yield from table(
            ("GPU", "Cell", "Alone", "All at work", "Lost", "Remark"),
            (
                (
                    names[one.gpu_uuid],
                    one.cell,
                    unit(one.solo, UNITS[one.metric]),
                    unit(one.loaded, UNITS[one.metric]),
                    share(one.lost_percent),
                    one.remark,
                )
                for one in report.full_node
            ),
        )
        yield MEANS_OF_LAUNCHES
        yield ""


def _spread(report: Report) -> Iterator[str]:
    if not report.cross_gpu:
        return
    cells = [
        cell for spreads in by_devices(report.cross_gpu) for cell in zip(cell_names(spreads), spreads, strict=True)
    ]
    yield "Identical GPUs side by side:"
    yield ""
    yield from table(
        ("Cell", "Median", "Spread", "Devices", "Comparison"),
        (
            (
                name,
                unit(one.median, UNITS[one.metric]),
                share(one.spread_percent),
                str(len(one.values)),
                one.comparison,
            )
            for name, one in cells
        ),
    )


def _held_against(report: Report) -> Iterator[str]:
    held = report.baseline_comparison
    if held is not None:
        score = NOT_AVAILABLE if held.overall_score is None else number(held.overall_score)
        over = "; ".join(filter(None, (f"over {plural(held.cells, 'cell')}", held.note)))
        said = report.summary.score_note if held.overall_score is None else over
        yield escaped(f"Against {held.baseline} ({held.baseline_gpu}): score {score}, {said}.")
        yield ""
        if whys := left_out(held):
            yield from (f"- {escaped(why)}" for why in whys)
            yield ""
    called = names(report)
    if report.thresholds:
        yield from table(
            ("Threshold", "Cell", "Target", "Actual", "Status", "Why"),
            (
                (one.threshold, cell(one, called), one.target, actual(one), str(one.status), one.note)
                for one in sorted(report.thresholds, key=gravity)
            ),
        )
    if report.costs:
        yield "Costs:"
        yield ""
        yield from table(("Cell", "A million", "Price", "Energy"), (cost_row(one, called) for one in report.costs))
        yield escaped(" ".join(priced(report)))
        yield ""


def _burn_in(report: Report, names: Mapping[str, str]) -> Iterator[str]:
    night = report.burn_in
    if night is None:
        return
    yield escaped(f"{asked(night)}. {meaning(night)}")
    yield ""
    yield from table(
        ("GPU", "Verdict", "What to do", "At work", "Under load", "Why"),
        (
            (
                names[gpu.gpu_uuid],
                str(gpu.verdict),
                str(gpu.action),
                duration(gpu.served_seconds),
                duration(gpu.under_load_seconds),
                "; ".join(reason.text for reason in gpu.reasons),
            )
            for gpu in night.gpus
        ),
    )
    if night.injected:
        yield from (f"- {escaped(f'injected: {line}')}" for line in injected(night))
        yield ""


def _failures(report: Report, names: Mapping[str, str]) -> Iterator[str]:
    if not report.failures:
        return
    yield f"Launches without a result: {len(report.failures)}."
    yield ""
    yield from table(
        ("GPU", "Cell", "Attempt", "What", "Message", "In the end", "Logs"),
        (_failure(one, names) for one in report.failures),
    )


def _failure(one: FailureReport, names: Mapping[str, str]) -> tuple[str, ...]:
    return (
        names[one.gpu_uuid],
        f"{one.model_name} {one.workload} {one.precision} b{one.batch_size}",
        str(one.attempt),
        how_it_ended(one.category or one.outcome, one.message),
        one.message,
        one.status.replace("_", " "),
        one.folder,
    )
