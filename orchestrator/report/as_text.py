"""The report as text, laid out as in the requirements document, for a terminal of 80 columns.

    head, GPUs ─ performance of each GPU ─ spread between identical GPUs ─ failures ─ time beside measuring ─ summary

The verdict comes last: it is what stands above the prompt when the report was printed.
"""

import datetime
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Final

from orchestrator.report import layout
from orchestrator.report.cells import LaunchLedger
from orchestrator.report.model import FailureReport, GpuInfo, Report, Spread, SpreadValue
from orchestrator.report.numbers import duration, number, share, unit
from orchestrator.report.plain import plain
from orchestrator.report.text_models import LEAST, models

SHOWN_FAILURES: Final = 20
SHOWN_NOTES: Final = 12


def to_text(report: Report) -> str:
    """The whole text, ending with a newline."""
    parts = (_head, _gpus, _performance, _spread, _failures, _time, _summary)
    lines = [line.rstrip() for part in parts for line in part(report)]
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    data, setup = report.metadata, report.test_configuration
    date = datetime.datetime.fromisoformat(data.test_date)
    yield from (layout.RULE, layout.centred("PyTorch GPU Benchmark Report"), layout.RULE, "")
    yield f"Test Date: {date:%Y-%m-%d %H:%M:%S} UTC"
    yield f"Duration: {duration(data.test_duration_seconds)}"
    yield from layout.wrap(f"Host: {data.hostname}")
    yield from layout.wrap(f"Run: {data.run_id}, gpubench {data.tool_version}")
    stack = {"PyTorch": data.pytorch_version, "CUDA": data.cuda_version, "Python": data.python_version}
    yield from layout.wrap(
        "Stack: " + (", ".join(f"{name} {text}" for name, text in stack.items() if text) or "unknown")
    )
    launches = "1 launch a cell" if setup.launches == 1 else f"{setup.launches} launches a cell"
    yield from layout.wrap(
        f"Measured: profile {setup.profile}, {launches}, {setup.mode}, isolation {setup.isolation}, seed {setup.seed}"
    )
    if len(data.segments) > 1:
        yield f"Resumed: {len(data.segments) - 1} times"
    if setup.allow_busy:
        yield from layout.wrap("Busy GPUs were allowed: other processes may have slowed what was measured.")
    yield ""


def _gpus(report: Report) -> Iterator[str]:
    yield "GPU Information:"
    for device in report.gpu_info:
        yield from _gpu(device, several=len(report.gpu_info) > 1)
    yield ""


def _gpu(device: GpuInfo, *, several: bool) -> Iterator[str]:
    if several:
        yield f"  {label(device)}"
    indent = "    " if several else "  "
    pcie = f"generation {device.pcie_generation}, {device.pcie_width} lanes" if device.pcie_generation else None
    facts = {
        "Device": device.gpu_name,
        "Memory": unit(device.gpu_memory_total_mb, "MB", digits=0),
        "Driver": device.driver_version,
        "CUDA": device.cuda_version,
        "UUID": device.gpu_uuid,
        "Serial": device.serial,
        "Part Number": device.part_number,
        "VBIOS": device.vbios_version,
        "PCI Address": device.pci_address,
        "PCIe": pcie,
        "Power Limit": unit(device.power_limit_w, "W", digits=0) if device.power_limit_w is not None else None,
        "Busy": device.busy_with,
        "Taken out": device.taken_out,
        "Cores": "shared with another CPU device of this run" if device.shared_cores else None,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield from layout.wrap(f"{name}: {fact}", indent, "  ")


def _performance(report: Report) -> Iterator[str]:
    yield from layout.chapter("Model Performance Summary")
    for device in report.gpu_info:
        results = [result for result in report.results if result.gpu_uuid == device.gpu_uuid]
        if len(report.gpu_info) > 1:
            yield from layout.wrap(f"{label(device)}: {device.gpu_name}")
            yield ""
        yield from models(results)


def _spread(report: Report) -> Iterator[str]:
    if not report.cross_gpu:
        return
    kinds = {device.kind for device in report.gpu_info}
    yield from layout.chapter(f"Spread Between Identical {'Devices' if 'cpu' in kinds else 'GPUs'}")
    for name in dict.fromkeys(spread.gpu_name for spread in report.cross_gpu):
        spreads = [spread for spread in report.cross_gpu if spread.gpu_name == name]
        labels = {device.gpu_uuid: label(device) for device in report.gpu_info}
        yield from layout.wrap(f"{name}, {max(len(spread.values) for spread in spreads)} devices:")
        rows = [_spread_row(spread, labels) for spread in spreads]
        yield from layout.table(("Cell", "Median", "Spread", "Lowest", "Highest"), rows, "  ")
        yield from _bullets(_spread_notes(spreads), SHOWN_NOTES)
        yield ""


def _spread_row(spread: Spread, labels: dict[str, str]) -> tuple[str, ...]:
    if spread.median is None:
        return (_cell_name(spread), spread.comparison, "", "", "")
    compared = [value for value in spread.values if value.not_comparable is None]

    def amount(value: SpreadValue) -> float:
        return value.value or 0.0

    low, high = min(compared, key=amount), max(compared, key=amount)
    measure = "ms" if spread.metric == "model_load_time_ms" else "smp/s"
    return (
        _cell_name(spread),
        unit(spread.median, measure),
        share(spread.spread_percent),
        labels[low.gpu_uuid],
        labels[high.gpu_uuid],
    )


def _cell_name(spread: Spread) -> str:
    batch = "" if spread.phase == "load" else f" b{spread.batch_size_requested}"
    return f"{spread.model_name} {spread.phase} {spread.precision}{batch}"


def _spread_notes(spreads: Iterable[Spread]) -> Iterator[str]:
    """Each note once, with the cells that it is about; a note about every cell stands alone."""
    spreads = list(spreads)
    for note in dict.fromkeys(note for spread in spreads for note in spread.notes):
        cells = [_cell_name(spread) for spread in spreads if note in spread.notes]
        yield note if len(cells) == len(spreads) else f"{', '.join(cells)}: {note}"


def _failures(report: Report) -> Iterator[str]:
    if not report.failures:
        return
    yield from layout.chapter("Launches Without a Result")
    for index, failure in enumerate(report.failures[:SHOWN_FAILURES], start=1):
        yield from _failure(index, failure)
    if len(report.failures) > SHOWN_FAILURES:
        yield f"  ... and {len(report.failures) - SHOWN_FAILURES} more in the JSON report"
    yield ""


def _failure(index: int, failure: FailureReport) -> Iterator[str]:
    device = failure.gpu_uuid if failure.gpu_uuid.startswith("cpu:") else f"GPU {failure.gpu_id}"
    what = f"{failure.model_name} {failure.workload} {failure.precision} at batch size {failure.batch_size}"
    phase = f" while in phase {failure.phase}" if failure.phase else ""
    yield from layout.wrap(
        f"{index}. {device}: {what}, attempt {failure.attempt}: {failure.category or failure.outcome}{phase}",
        "  ",
        "   ",
    )
    yield from layout.wrap(failure.message, "     ")
    yield from layout.wrap(
        f"In the end the cell was: {failure.status.replace('_', ' ')}. Logs: {failure.folder}", "     "
    )


def _time(report: Report) -> Iterator[str]:
    overhead = report.overhead
    if overhead.median_ms is None:
        return
    yield from layout.chapter("Time Beside Measuring")
    yield from layout.wrap(
        f"A launch cost {number(overhead.median_ms)} ms beside loading, warm-up and measuring (median of "
        f"{overhead.launches}, isolation {overhead.isolation})."
    )
    if overhead.zygote_start_ms is not None:
        pays = overhead.pays_from_launches
        when = "does not pay" if pays is None else f"pays from {pays} launches on"
        yield from layout.wrap(
            f"The zygote took {number(overhead.zygote_start_ms)} ms to start, and {when} ({overhead.note})."
        )
    yield ""
    ledgers = _ledgers(report)
    rows = [
        (entry.removesuffix("_ms").replace("_", " "), *(_entry(found, entry) for found in ledgers.values()))
        for entry in LaunchLedger.__struct_fields__
    ]
    yield from layout.table(("Median, ms", *ledgers), rows, "  ", LEAST)
    yield ""


def _ledgers(report: Report) -> dict[str, list[LaunchLedger]]:
    found: dict[str, list[LaunchLedger]] = {"load": [], "inference": [], "training": []}
    for result in report.results:
        if result.load_metrics and result.load_metrics.ledger:
            found["load"].append(result.load_metrics.ledger)
        found["inference"] += [metric.ledger for metric in result.inference_metrics.values() if metric.ledger]
        found["training"] += [metric.ledger for metric in result.training_metrics.values() if metric.ledger]
    return {phase: ledgers for phase, ledgers in found.items() if ledgers}


def _entry(ledgers: Iterable[LaunchLedger], entry: str) -> str:
    known = [value for ledger in ledgers if (value := getattr(ledger, entry)) is not None]
    return number(median(known)) if known else "N/A"


def _summary(report: Report) -> Iterator[str]:
    summary, verdict, cells = report.summary, report.verdict, report.summary.cells
    yield from layout.chapter("Overall Summary")
    yield from layout.wrap(f"Overall Performance Score: N/A ({summary.score_note})")
    yield ""
    if best := summary.best_model_throughput:
        yield from layout.wrap(
            f"Best Throughput: {best.model} @ batch_size={best.batch_size} ({number(best.throughput)} samples/sec, "
            f"{best.phase}, {best.precision})"
        )
    yield f"Peak Memory Usage: {unit(summary.peak_memory_usage_mb, 'MB')}"
    yield f"Average GPU Utilization: {share(summary.average_gpu_utilization)}"
    yield f"Average Power Draw: {unit(summary.average_power_draw_w, 'W')}"
    yield from layout.wrap(
        f"Cells: {cells.planned} planned, {cells.ok} ok, {cells.degraded} degraded, {cells.referred} referred, "
        f"{cells.does_not_fit} do not fit, {cells.failed} failed, {cells.missing} missing"
    )
    if report.metadata.telemetry_note:
        yield from layout.wrap(f"Telemetry: {report.metadata.telemetry_note}")
    yield ""
    yield f"Verdict: {verdict.word.upper()}"
    yield from layout.wrap(f"Exit code {verdict.exit_code}: {verdict.meaning}", "  ", "  ")
    yield from _bullets(verdict.reasons, len(verdict.reasons))
    yield from ("", layout.RULE)


def label(device: GpuInfo) -> str:
    """How people call the device."""
    return plain(device.gpu_uuid) if device.kind == "cpu" else f"GPU {device.gpu_id}"


def _bullets(notes: Iterable[str], limit: int) -> Iterator[str]:
    notes = list(notes)
    for note in notes[:limit]:
        yield from layout.wrap(f"- {note}", "  ", "  ")
    if len(notes) > limit:
        yield f"  - ... and {len(notes) - limit} more in the JSON report"
