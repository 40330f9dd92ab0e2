"""Figures of models for charts: by choice, model and batch size, as medians over identical devices.

choice   what a chart shows at once: "inference, fp32"; with mode and kind of device where the run has several
model    name of the model, with input size, memory format and new tokens where the run has several, and with the
         compile mode unless that is eager
batch    the batch size that ran, which may be smaller than the requested one
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from statistics import median
from typing import Final, NamedTuple, TypeVar

from orchestrator.config.naming import shortened
from orchestrator.figures import keys
from orchestrator.figures.cells import BatchScan, Measured
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import Report
from orchestrator.report.device_labels import by_uuid, groups, labels
from orchestrator.system.plain_text import plain
from protocol.cell import CompileMode, Workload

LONGEST_NAME: Final = 60

Choice = TypeVar("Choice")
Column = TypeVar("Column")
Figures = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Choice → model → batch size → figure."""


class Measurement(NamedTuple):
    """Figures of a cell of a model on one device. model: name as in the module's table.

    where: mode and kind of device, as text; each only if the run has several, so it may be "".
    """

    where: str
    model: str
    gpu_uuid: str
    key: CellKey
    metric: Measured

    @property
    def choice(self) -> str:
        """Phase, precision and `where`, as one text: "inference, fp32"."""
        return ", ".join(filter(None, (self.key.phase, self.key.precision, self.where)))


class _Shape(NamedTuple):
    model: str
    phase: Workload
    size: int | None
    layout: str
    tokens: int | None
    compiled: str


def measurements(report: Report) -> Iterator[Measurement]:
    """Yield every cell of a model, also without figures (failed), in the order of the report."""
    kinds = _kinds(report)
    names = _names(report)
    modes = _modes(report)
    for result in report.results:
        for key, metric in keys.of_model(result):
            where = ", ".join(filter(None, (key.mode if len(modes) > 1 else "", kinds[result.gpu_uuid])))
            yield Measurement(where, names[_shape(key, key.phase)], result.gpu_uuid, key, metric)


def figures(report: Report, read: Callable[[Measured], float | None], *phases: Workload) -> Figures:
    """Return choice ("inference, fp32") → model → batch size → median of a figure over identical devices.

    read: returns the figure of a cell; None skips the cell. phases: workloads to include.
    """
    found = medians(report, read, phases, lambda one: one.choice, lambda one: one.metric.batch_size or 0)
    return {
        choice: {model: dict(sorted(batches.items())) for model, batches in models.items()}
        for choice, models in found.items()
    }


def medians(
    report: Report,
    read: Callable[[Measured], float | None],
    phases: Collection[Workload],
    choice: Callable[[Measurement], Choice],
    column: Callable[[Measurement], Column],
) -> Mapping[Choice, Mapping[str, Mapping[Column, float]]]:
    """Return choice → model → column → median of a figure over identical devices.

    read: returns the figure of a cell; None skips the cell. phases: workloads to include. choice, column: return these
    keys for a measurement.
    """
    values: dict[Choice, dict[str, dict[Column, list[float]]]] = {}
    for one in measurements(report):
        value = read(one.metric)
        if one.key.phase in phases and value is not None and one.metric.batch_size is not None:
            models = values.setdefault(choice(one), {})
            models.setdefault(one.model, defaultdict(list))[column(one)].append(value)
    return {
        name: {model: {each: median(known) for each, known in columns.items()} for model, columns in models.items()}
        for name, models in values.items()
    }


def scans(report: Report) -> Figures:
    """Return choice → model → batch size → throughput in samples/s, of all batch size scans (`-b auto`).

    A choice is "scan", workload, precision and device of a scan, as one text.
    """
    names, modes = _names(report), _modes(report)
    devices = by_uuid(report)
    values: dict[str, dict[str, dict[int, float]]] = {}
    for scan in report.batch_scans:
        mode = scan.mode if len(modes) > 1 else ""
        choice = ", ".join(filter(None, ("scan", scan.workload, scan.precision, mode, devices[scan.gpu_uuid])))
        model = names[_shape(scan, Workload(scan.workload))]
        points = {
            point.batch_size: point.throughput_samples_per_sec
            for point in scan.points
            if point.throughput_samples_per_sec is not None
        }
        if points:
            values.setdefault(choice, {})[model] = points
    return values


def caveats(report: Report) -> str:
    """Return a note on medians over devices and on reduced batch sizes, to put below charts; "" if neither applies."""
    words = []
    alike = [group for group in groups(report) if len(group.devices) > 1]
    if alike:
        words.append(f"Medians over identical devices ({'; '.join(labels(group.devices) for group in alike)}).")
    if report.summary.cells.degraded:
        words.append("Cells that ran out of memory are drawn at the batch size that fitted.")
    return " ".join(words)


def _kinds(report: Report) -> dict[str, str]:
    """Return device UUID → name and GPUs of its kind: "NVIDIA H200 (GPU 0, GPU 1)"; "" if all devices are identical."""
    several = groups(report)
    if len(several) == 1:
        return dict.fromkeys((device.gpu_uuid for device in report.gpu_info), "")
    return {
        device.gpu_uuid: f"{plain(group.shown.gpu_name)} ({labels(group.devices)})"
        for group in several
        for device in group.devices
    }


def _names(report: Report) -> dict[_Shape, str]:
    shapes: dict[tuple[str, Workload], dict[_Shape, None]] = {}
    for shape in _shapes(report):
        shapes.setdefault((shape.model, shape.phase), {})[shape] = None
    names = {}
    for of_model in shapes.values():
        for one in of_model:
            words = [shortened(plain(one.model), LONGEST_NAME)]
            if len({other.size for other in of_model}) > 1 and one.size is not None:
                words[0] += f"@{one.size}"
            if len({other.layout for other in of_model}) > 1:
                words.append(one.layout)
            if len({other.tokens for other in of_model}) > 1 and one.tokens is not None:
                words.append(f"{one.tokens} tokens")
            if one.compiled != CompileMode.EAGER:
                words.append(one.compiled)
            names[one] = " ".join(words)
    return names


def _shapes(report: Report) -> Iterator[_Shape]:
    for result in report.results:
        for key, _ in keys.of_model(result):
            yield _shape(key, key.phase)
    for scan in report.batch_scans:
        yield _shape(scan, Workload(scan.workload))


def _shape(of: CellKey | BatchScan, phase: Workload) -> _Shape:
    compiled = of.compile_mode if isinstance(of, CellKey) else CompileMode.EAGER
    return _Shape(of.model_name, phase, of.input_size, of.memory_format, of.new_tokens, compiled)


def _modes(report: Report) -> set[str]:
    return {result.mode for result in report.results} | {scan.mode for scan in report.batch_scans}
