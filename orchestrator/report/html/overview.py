"""What stands first: the verdict with its reasons, the run in a few figures, each device, and the score."""

import datetime
from collections.abc import Iterator
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.health import DeviceHealth, NodeHealth
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report import stack_warning
from orchestrator.report.html.page_types import Badge, Card, Chart, Entry, Section, Table, Tone, numbers, table, texts
from orchestrator.report.html.plots import Bars, Kind, Series
from orchestrator.report.numbers import NOT_AVAILABLE, difference, duration, number, share, unit
from orchestrator.report.text_burn_in import asked
from orchestrator.report.text_burn_in_headline import answer
from orchestrator.report.text_comparisons import left_out
from orchestrator.report.text_gpus import facts_of, groups, label, label_of, labels
from orchestrator.report.text_health import findings
from protocol.exit_codes import ExitCode

LEAST_AXES: Final = 3
"""Of a radar chart: with fewer models it is a line."""
TONES: Final = {
    HealthVerdict.PASS: Tone.GOOD,
    HealthVerdict.WARN: Tone.WARN,
    HealthVerdict.FAIL: Tone.BAD,
    HealthVerdict.UNKNOWN: Tone.WARN,
    HealthVerdict.NOT_APPLICABLE: Tone.QUIET,
}
_RUN: Final = {
    ExitCode.PASSED: Tone.GOOD,
    ExitCode.MISSED: Tone.BAD,
    ExitCode.HARDWARE: Tone.BAD,
    ExitCode.INCOMPLETE: Tone.WARN,
}


def verdict(report: Report) -> Badge:
    """How the run ended, in a word; of a burn-in what it says of the GPUs."""
    if report.burn_in is not None:
        return Badge(answer(report.burn_in, report), TONES[report.burn_in.verdict])
    return Badge(report.verdict.word.upper(), _RUN.get(ExitCode(report.verdict.exit_code), Tone.BAD))


def heading(report: Report) -> str:
    """What was measured, and where: "8 x NVIDIA H200 on node-01"."""
    kinds = [f"{len(group.devices)} x {group.shown.gpu_name}" for group in groups(report)]
    what = "Burn-in of " if report.burn_in is not None else ""
    return f"{what}{' and '.join(kinds)} on {report.metadata.hostname}"


def meaning(report: Report) -> str:
    """What the verdict says in full; of a burn-in the time at work comes first."""
    ended = f"Exit code {report.verdict.exit_code}: {report.verdict.meaning}"
    return ended if report.burn_in is None else f"{asked(report.burn_in)}. {ended}"


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """The run, and the stack that it ran on."""
    data, setup = report.metadata, report.test_configuration
    date = datetime.datetime.fromisoformat(data.test_date)
    yield "Date", f"{date:%Y-%m-%d %H:%M:%S} UTC"
    yield "Duration", duration(data.test_duration_seconds)
    yield "Run", data.run_id
    stack = {
        "gpubench": data.tool_version,
        "PyTorch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "cuDNN": data.cudnn_version,
        "Driver": data.driver_version,
        "Python": data.python_version,
        "transformers": data.transformers_version,
    }
    yield from ((name, version) for name, version in stack.items() if version)
    if setup.preset:
        yield "Preset", setup.preset
    if report.burn_in is not None:
        yield "Burn-in", f"level {report.burn_in.level}, {duration(report.burn_in.duration_seconds)}"
    else:
        yield "Profile", f"{setup.profile}, {plural(setup.launches, 'launch', 'launches')} a cell, {setup.mode}"
    yield "Command", " ".join(data.command)


def notices(report: Report) -> Iterator[str]:
    """What to know before reading any figure."""
    if report.metadata.running:
        yield "The run still goes on: what has no result here has not been measured yet."
    if report.test_configuration.allow_busy:
        yield "Busy GPUs were allowed: other processes may have slowed what was measured."
    for note in filter(None, (stack_warning.words(report.metadata), report.metadata.stood_still)):
        yield f"Note: {note}."
    for one in report.metadata.settings:
        yield f"Changed by the environment: {one.name}={one.value}: {one.effect}"
    if report.metadata.telemetry_note:
        yield f"Telemetry: {report.metadata.telemetry_note}"


def cards(report: Report) -> Iterator[Card]:
    """The run in a few figures; what nobody knows has no card."""
    summary, cells = report.summary, report.summary.cells
    for group in groups(report):
        device = group.shown
        known = [device.gpu_architecture, *_memory(device)]
        what = labels(group.devices) if len(report.gpu_info) > 1 else "Device"
        yield Card(what, device.gpu_name, ", ".join(filter(None, known)))
    other = {
        "degraded": cells.degraded,
        "do not fit": cells.does_not_fit,
        "failed": cells.failed,
        "dropped for want of time": cells.dropped,
        "missing": cells.missing,
        "measured as another size": cells.referred,
        "with rounds still to be done": cells.short_of_launches if report.burn_in is not None else 0,
    }
    words = ", ".join(f"{count} {word}" for word, count in other.items() if count) or "every one with a result"
    worst = Tone.BAD if cells.failed else Tone.WARN if cells.missing else Tone.GOOD
    yield Card("Cells", f"{cells.ok} of {cells.planned}", words, worst)
    if best := summary.best_model_throughput:
        where = f", {label_of(best.gpu_uuid, report)}" if len(report.gpu_info) > 1 else ""
        of = f"{best.model}, {best.phase}, {best.precision}, batch {best.batch_size}{where}"
        yield Card("Best throughput", f"{number(best.throughput)} smp/s", of)
    if summary.overall_score is not None:
        yield Card("Score", number(summary.overall_score), summary.score_note)
    if summary.peak_memory_usage_mb is not None:
        yield Card("Peak memory", unit(summary.peak_memory_usage_mb, "MB"))
    if summary.average_gpu_utilization is not None:
        yield Card("GPU utilization", share(summary.average_gpu_utilization), "mean, first launch to last")
    if summary.average_power_draw_w is not None:
        yield Card("Power draw", unit(summary.average_power_draw_w, "W"), "mean of a GPU, first launch to last")
    health = report.health.verdict
    if health is not HealthVerdict.NOT_APPLICABLE:
        yield Card("Health", health, "of the hardware, the gravest of all", TONES[health])


def _memory(device: GpuInfo) -> Iterator[str]:
    if device.gpu_memory_total_mb is not None:
        yield unit(device.gpu_memory_total_mb, "MB", digits=0)
    if device.power_limit_w is not None:
        yield unit(device.power_limit_w, "W limit", digits=0)


def devices(report: Report) -> Section:
    """Each device with its verdict, and what led to it; then what is known of it."""
    health = {one.gpu_uuid: one for one in report.health.gpus}
    header = texts("Device", "Verdict", "Signals read", "What to know")
    rows: list[tuple[Entry, ...]] = [
        (label(device), *_judged(health.get(device.gpu_uuid), device)) for device in report.gpu_info
    ]
    node = report.health.node
    rows.append(("The machine", _badge(node.verdict), _signals(node), "; ".join(findings(node.signals)) or "nothing"))
    verdicts = table("Health of the hardware", header, rows)
    return Section("devices", "Devices and their health", tables=(verdicts, _facts(report)))


def _judged(health: DeviceHealth | None, device: GpuInfo) -> tuple[Entry, ...]:
    taken_out = f"taken out of the run: {device.taken_out}" if device.taken_out else ""
    busy = f"busy when the run began: {device.busy_with}" if device.busy_with else ""
    if health is None:
        return (_badge(HealthVerdict.NOT_APPLICABLE), "", "; ".join(filter(None, (taken_out, busy))))
    xids = [f"Xid {xid.xid} at {xid.at}: {xid.meaning}" for xid in health.xids]
    earlier = f"earlier: {health.earlier}" if health.earlier else ""
    words = "; ".join(filter(None, (taken_out, busy, health.note, earlier, *findings(health.signals), *xids)))
    return (_badge(health.verdict), _signals(health), words or "nothing")


def _signals(health: DeviceHealth | NodeHealth) -> str:
    return f"{health.readable} of {health.applicable}" if health.applicable else "none apply"


def _badge(verdict: HealthVerdict) -> Badge:
    return Badge(verdict, TONES[verdict])


def _facts(report: Report) -> Table:
    """A row for each device, a column for each fact in which they differ; what is the same of all is said below."""
    known = [facts_of(device) for device in report.gpu_info]
    told = {name: {found[name] for found in known} for name in known[0]}
    names = [name for name, values in told.items() if len(values) > 1]
    alike = [f"{name} {value}" for name, values in told.items() if len(values) == 1 for value in values if value]
    rows = [
        (label(device), *(found[name] or "" for name in names))
        for device, found in zip(report.gpu_info, known, strict=True)
    ]
    if not names:
        of_all = [(name, value) for name, value in known[0].items() if value]
        return table("What is known of each device", texts("What", labels(report.gpu_info)), of_all)
    shared = f"All: {', '.join(alike)}." if alike else ""
    return table("What is known of each device", texts("Id", *names), rows, shared)


def score(report: Report) -> Chart:
    """The run against its baseline, model by model, as a radar; what is missing where there is none."""
    found = report.baseline_comparison
    says = "Throughput of each model, where the baseline has 100: further out is faster."
    if found is None or not found.improvement_percent:
        return Chart("score", "Score against a baseline", Kind.RADAR, says, empty=f"{report.summary.score_note}.")
    ratios = {
        name.removesuffix("_throughput"): 100 + percent
        for name, percent in found.improvement_percent.items()
        if name != "overall"
    }
    series = (Series("this run", tuple(ratios.values())), Series("baseline", (100.0,) * len(ratios)))
    against = f"{found.baseline} ({found.baseline_gpu}, {found.baseline_date})"
    rows = [(name, difference(ratio - 100)) for name, ratio in ratios.items()]
    return Chart(
        "score",
        f"Score against {against}",
        Kind.RADAR if len(ratios) >= LEAST_AXES else Kind.BARS,
        f"{says} Overall score: {'; '.join(filter(None, (number(found.overall_score), found.note)))}.",
        (Bars("ratio", "", tuple(ratios), series),),
        table("Against the baseline", (*texts("Model"), *numbers("Difference")), rows, "; ".join(left_out(found))),
        "" if ratios else NOT_AVAILABLE,
    )
