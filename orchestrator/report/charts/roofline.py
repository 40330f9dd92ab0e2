"""The roofline chart: the speed of each model below the limits of its GPU, which probes of the same run measured.

roof: the limits of a GPU in one precision: rate of matrix products, and memory bandwidth.
"""

from collections.abc import Iterator, Sequence

from orchestrator.figures.cells import Computed, ProbeMetrics
from orchestrator.figures.report import Report
from orchestrator.report.chapters import model_figures as measured
from orchestrator.report.chapters.model_figures import Measurement
from orchestrator.report.charts.types import Kind, Roof, Roofline, RoofPoint
from orchestrator.report.device_labels import groups, label_of
from orchestrator.report.lines import time_ms
from orchestrator.report.numbers import number, share, unit
from orchestrator.report.sections import Chart, Table, numbers, table, texts


def roofline(report: Report) -> tuple[Chart, Table]:
    """Return a chart with a plot for each workload, mode and kind of device, and its table. No plots without probes.

    The points of a plot are the models on one of the identical devices: that with the most results.
    """
    shown = {group.shown.gpu_uuid for group in groups(report)}
    several = len(report.gpu_info) > 1
    plots: dict[str, Roofline] = {}
    rows = []
    of_phase: dict[tuple[str, str], list[Measurement]] = {}
    for one in measured.measurements(report):
        if one.gpu_uuid in shown:
            of_phase.setdefault((one.key.phase, one.where), []).append(one)
    for (phase, where), several_of in of_phase.items():
        uuid = several_of[0].gpu_uuid
        roofs = {roof.name: roof for roof in _roofs(report.probes, uuid, several_of[0].key.mode)}
        points = tuple(_points(several_of, roofs))
        if points:
            place = where or (label_of(uuid, report) if several else "")
            name = ", ".join(filter(None, (phase, place)))
            used = {point.roof for point in points}
            plots[name] = Roofline(name, tuple(roof for roof in roofs.values() if roof.name in used), points)
            rows += [(name, point.name, point.roof, number(point.intensity), number(point.tflops)) for point in points]
    chart = Chart(
        "roofline",
        "Roofline of this GPU",
        Kind.ROOFLINE,
        "Lines: rates that the probes of this run sustained (memory bandwidth, matrix products). Points: models. Only "
        "the bytes of the weights are counted, read once, so the true point may lie further left. Hollow point: "
        "limited by the host.",
        tuple(plots.values()),
        "roofline",
        "Phase",
    )
    header = (*texts("Phase", "Measurement", "Precision"), *numbers("Operations per byte", "TFLOP/s"))
    return chart, table("Roofline", header, rows, name="roofline")


def _roofs(probes: Sequence[ProbeMetrics], gpu_uuid: str, mode: str) -> Iterator[Roof]:
    mine = [probe for probe in probes if probe.gpu_uuid == gpu_uuid and probe.mode == mode]
    rates = [rate for probe in mine for rate in (probe.copy_gb_per_sec, probe.triad_gb_per_sec) if rate is not None]
    for probe in mine:
        if probe.sustained_tflops is not None and rates:
            yield Roof(probe.precision, probe.sustained_tflops, max(rates) / 1000)


def _points(measurements: Sequence[Measurement], roofs: dict[str, Roof]) -> Iterator[RoofPoint]:
    for one in measurements:
        metric, roof = one.metric, roofs.get(one.key.precision)
        if not isinstance(metric, Computed) or roof is None:
            continue
        achieved, least_ms, took_ms = (
            metric.plausibility.achieved_tflops,
            metric.plausibility.least_iteration_ms,
            time_ms(metric),
        )
        if achieved is None or not least_ms or took_ms is None:
            continue
        intensity = achieved * took_ms / (roof.tb_per_sec * least_ms)
        name = f"{one.model} b{metric.batch_size}"
        limit = min(roof.tflops, intensity * roof.tb_per_sec)
        says = f"{name} {roof.name}: {unit(achieved, 'TFLOP/s')}, {share(achieved / limit * 100)} of its roof"
        yield RoofPoint(name, roof.name, intensity, achieved, bool(metric.launch_bound), says)
