"""A small chart that compares the speed of identical GPUs (siblings)."""

from collections.abc import Iterator
from dataclasses import replace

from orchestrator.config import margins
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.report import Report
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.chapters import brief, health
from orchestrator.report.chapters.stragglers import TONES, cause
from orchestrator.report.charts.types import Kind, Ratio, Ratios
from orchestrator.report.device_labels import label
from orchestrator.report.gpu_differences import Differences, differences
from orchestrator.report.numbers import NOT_AVAILABLE, difference
from orchestrator.report.sections import Chart, Table, Tone, numbers, table, texts
from orchestrator.stats.stragglers import SiblingVerdict


def against_each_other(report: Report) -> tuple[Chart, Table]:
    """Return a chart with a plot for each group of identical GPUs that can be compared, and its table."""
    plots, says, rows = [], [], []
    for one in differences(report):
        plot = Ratios(f"{one.group.shown.gpu_name}, {len(one.group.devices)} GPUs", tuple(_ratios(report, one)))
        if plot.rows:
            plots.append(plot)
            words = _found(plot) or brief.describe(one, report)
            says.append(f"{words[0].upper()}{words[1:]}.")
            rows += [(row.name, row.word, *map(_percent, (row.ratio, row.low, row.high))) for row in plot.rows]
    chart = Chart(
        "siblings",
        "GPUs against each other",
        Kind.RATIOS,
        "Speed of each GPU relative to the median, of two GPUs to the faster one. A difference within the band counts "
        f"as none. {' '.join(says)}",
        tuple(plots),
        "siblings",
        "GPUs" if len(plots) > 1 else "",
    )
    header = (*texts("GPU", "Verdict"), *numbers("Relative speed", "From", "To"))
    return chart, table("GPUs against each other", header, rows, name="siblings")


def _found(plot: Ratios) -> str:
    """Return the GPUs with a bad verdict, slowest first: "GPU 5 -10.0% (STRAGGLER)"; "" if there is none."""
    slow = sorted((row for row in plot.rows if row.tone is not Tone.PLAIN), key=lambda row: row.ratio)
    return ", ".join(f"{row.name} {_percent(row.ratio)} ({row.word})" for row in slow)


def _ratios(report: Report, against: Differences) -> Iterator[Ratio]:
    """Yield the speed of each GPU with a verdict, if the speed is known.

    The verdict is the one on the speed. It is FAIL if the health of the GPU is FAIL and nothing speaks against its
    speed (Tone.PLAIN).
    """
    faulty = {one.gpu_uuid: one for one in report.health.gpus if one.verdict is HealthVerdict.FAIL}
    for uuid, ratio in _speeds(report, against):
        if uuid in faulty and ratio.tone is Tone.PLAIN:
            says = (f"hardware health {HealthVerdict.FAIL}", *health.findings(faulty[uuid].signals), *ratio.says)
            yield replace(ratio, word=HealthVerdict.FAIL, tone=Tone.BAD, says=says)
        else:
            yield ratio


def _speeds(report: Report, against: Differences) -> Iterator[tuple[str, Ratio]]:
    standings = {one.gpu_uuid: one for one in report.stragglers}
    for device in against.group.devices:
        standing, percent = standings.get(device.gpu_uuid), against.percent.get(device.gpu_uuid)
        if standing is not None and standing.percent is not None:
            yield device.gpu_uuid, _judged(label(device), standing, standing.percent)
        elif percent is not None:
            word, why = (SiblingVerdict.NONE, "") if standing is None else (standing.word, standing.why)
            band, says = _band(margins.load().siblings.clock.share), (difference(percent), *filter(None, (why,)))
            yield device.gpu_uuid, Ratio(label(device), word, Tone.PLAIN, 1 + percent / 100, None, None, *band, says)


def _judged(name: str, standing: Standing, percent: float) -> Ratio:
    says = (
        f"{standing.word}: {standing.why}",
        cause(standing),
        standing.next_step,
    )
    low, high = (None if end is None else end / 100 for end in (standing.low_percent, standing.high_percent))
    band = _band(max(effect.margin_percent for effect in standing.effects) / 100)
    tone = TONES[standing.verdict]
    own = Tone.PLAIN if tone is Tone.GOOD else tone
    return Ratio(name, standing.word, own, percent / 100, low, high, *band, tuple(filter(None, says)))


def _band(margin: float) -> tuple[float, float]:
    return 1 - margin, 1 / (1 - margin)


def _percent(ratio: float | None) -> str:
    return NOT_AVAILABLE if ratio is None else difference((ratio - 1) * 100)
