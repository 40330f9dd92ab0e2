"""The best configuration of each model and workload: a line for each model, medians over identical GPUs.

Model    infer/s bs prec   x  % smp/J train/s bs prec   x  % smp/J
resnet50  7764.3 32 bf16 2.8 41  12.1  1694.3 32 bf16 2.1 33   4.1

bs: batch size. x: speed-up over fp32. %: share of the rate of a matrix product. smp/J: samples for each joule.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from msgspec import structs

from orchestrator.config.naming import shortened
from orchestrator.figures.cells import Computed, Measured
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import BY_FIELD, main_figure
from orchestrator.report import remarks
from orchestrator.report.chapters.model_figures import measurements
from orchestrator.report.chapters.stragglers import concerns_gpus
from orchestrator.report.device_labels import groups, labels
from orchestrator.report.lines import precision_and_mode
from orchestrator.report.numbers import number
from orchestrator.report.sections import Column, Section, Table, numbers, texts
from protocol.cell import DeviceKind, Mode, Precision, Workload

LONGEST_NAME: Final = 20
_WHOLE: Final = 10_000
"""Rate from which no decimals are shown, so that inference and training fit beside each other in 80 columns."""
_RATES: Final = {
    Workload.INFERENCE: ("inference/s", "infer/s"),
    Workload.TRAINING: ("training/s", "train/s"),
    Workload.GENERATION: ("tokens/s", ""),
}
"""Phase → title of its rate, and the title on a terminal."""
_ENERGY: Final = {
    Workload.INFERENCE: ("smp/J", BY_FIELD["energy_per_sample_j"]),
    Workload.TRAINING: ("smp/J", BY_FIELD["energy_per_sample_j"]),
    Workload.GENERATION: ("tok/J", BY_FIELD["energy_per_token_j"]),
}
_FACTS: Final = (
    Column("batch", number=True, short="bs"),
    Column("max batch", number=True, short="max"),
    Column("prec.", short="prec"),
    Column("x fp32", number=True, short="x"),
    Column("% GEMM", number=True, short="%"),
)
_EXPLAINED: Final = {
    "max batch": "max: largest batch that fits",
    "x fp32": "x: speed-up over fp32",
    "% GEMM": "%: of the matrix rate (GEMM)",
    "smp/J": "smp/J: samples per joule",
}


class _Shape(NamedTuple):
    precision: str
    batch: int
    input_size: int | None
    compile_mode: str

    @property
    def format(self) -> str:
        return precision_and_mode(self.precision, self.compile_mode)


class _Rate(NamedTuple):
    shape: _Shape
    rate: float
    metrics: Sequence[Measured]


_Models = dict[str, dict[Workload, dict[_Shape, list[Measured]]]]
"""Model → phase → shape → metrics, one for each device."""
_Scanned = tuple[str, str, str, int | None]
"""A batch scan: model, phase, precision, input size."""


def best(report: Report) -> Section | None:
    """Return a table for each kind of device, with the highest rate of each model and workload.

    Rates of mode solo do not count if there are loaded ones. The fastest kind comes first. The summary names options
    for higher rates, such as "-b 64,128". None without a rate.
    """
    tables: dict[str, Table] = {}
    found: list[_Models] = []
    rates: dict[str, Mapping[tuple[str, Workload], float]] = {}
    for group in groups(report):
        models = _found(report, {device.gpu_uuid for device in group.devices})
        made, name = _table(models, _largest(report, group.devices)), f"{group.shown.gpu_name}, {labels(group.devices)}"
        if made.rows:
            found.append(models)
            tables[name] = replace(made, caption=name if len(groups(report)) > 1 else "")
            rates[name] = _tops(models)
    if not tables:
        return None
    won = _won(rates)
    ordered = [tables[name] for name in sorted(tables, key=lambda name: -won[name])]
    titles = {column.title for table in ordered for column in table.columns}
    several = any(len(group.devices) > 1 for group in groups(report))
    legend = [_tested(report, found), *(["medians of GPUs"] if several else [])]
    legend += [words for column, words in _EXPLAINED.items() if column in titles]
    marks = list(remarks.legend(str(entry) for table in ordered for row in table.rows for entry in row[1:]))
    if several and marks:
        marks[-1] += " (at least one GPU)"
    counts = "; in ".join(f"{count}: {name}" for name, count in won.items())
    fastest = [f"of {won.total()} models and phases, fastest in {counts}"] if won else []
    further = " ".join(untested(report))
    summary = (*fastest, *([f"so far; try {further}"] if further else []))
    ordered[-1] = replace(ordered[-1], remarks=("; ".join((*legend, *marks)),))
    return Section("best", "Best", summary, tables=tuple(ordered))


def _tested(report: Report, found: Sequence[_Models]) -> str:
    """Return what was measured: "Batch sizes (bs) tested: 1, 8, 32, in fp32, bf16", or that -b auto chose the size."""
    phases = [one for models in found for by_phase in models.values() for one in by_phase.items()]
    shapes = {shape for _, by_shape in phases for shape in by_shape}
    if report.batch_scans:
        return "bs: fastest batch size that -b auto found"
    sizes = sorted({shape.batch for shape in shapes})
    precisions = [one for one in Precision if any(shape.precision == one for shape in shapes)]
    many = "s" if len(sizes) > 1 else ""
    return f"Batch size{many} (bs) tested: {', '.join(map(str, sizes))}, in {', '.join(precisions)}"


def _grows(report: Report, phases: Sequence[tuple[Workload, dict[_Shape, list[Measured]]]]) -> bool:
    """Whether batches larger than the measured ones may be faster: somewhere, the largest one has the highest rate.

    phases: (workload, figures by shape) for each model and workload. Entries with a single batch size count only if
    none has several. Return False if any cell has no figures or a smaller batch than requested, or if -b auto chose the
    sizes.
    """
    several = [one for one in phases if len({shape.batch for shape in one[1]}) > 1] or phases
    tops = [(_top(*one), max(shape.batch for shape in one[1])) for one in several]
    fits = not report.batch_scans and all(
        one.metric.batch_size == one.metric.batch_size_requested for one in measurements(report)
    )
    return fits and any(top is not None and top.shape.batch == largest for top, largest in tops)


def untested(report: Report) -> Iterator[str]:
    """Yield options with which a run may show higher rates; nothing if a device is faulty or may be slow.

    "-b 64,128" if batches larger than the measured ones may be faster, "-p fp32,bf16" if GPUs only ran fp32. Faulty or
    slow: see stragglers.concerns_gpus.
    """
    if concerns_gpus(report):
        return
    devices = {device.gpu_uuid for device in report.gpu_info}
    phases = [one for by_phase in _found(report, devices).values() for one in by_phase.items()]
    shapes = {shape for _, by_shape in phases for shape in by_shape}
    if _grows(report, phases):
        largest = max(shape.batch for shape in shapes)
        yield f"-b {2 * largest},{4 * largest}"
    on_gpus = any(device.kind == DeviceKind.CUDA for device in report.gpu_info)
    if on_gpus and {shape.precision for shape in shapes} == {Precision.FP32}:
        yield "-p fp32,bf16"


def _won(rates: Mapping[str, Mapping[tuple[str, Workload], float]]) -> Counter[str]:
    """Return kind of device → number of pairs (model, workload) in which it is the fastest kind.

    A pair counts only if every kind has measured it. rates: kind of device → (model, workload) → highest rate.
    """
    one, *others = rates.values()
    common = [each for each in one if all(each in other for other in others)] if others else []
    won = Counter(max(rates, key=lambda name: rates[name][each]) for each in common)
    return Counter(dict(won.most_common()))


def _tops(models: _Models) -> dict[tuple[str, Workload], float]:
    return {
        (model, phase): top.rate
        for model, phases in models.items()
        for phase, by_shape in phases.items()
        if (top := _top(phase, by_shape)) is not None
    }


def _found(report: Report, uuids: set[str]) -> _Models:
    of_group = structs.replace(report, results=tuple(one for one in report.results if one.gpu_uuid in uuids))
    loaded = any(result.mode == Mode.LOADED for result in of_group.results)
    found: _Models = {}
    for one in measurements(of_group):
        batch = one.metric.batch_size
        if one.key.phase in _RATES and batch is not None and (one.key.mode == Mode.LOADED) is loaded:
            model = one.model.removesuffix(f" {one.key.compile_mode}")  # modes of a model compete
            phases = found.setdefault(shortened(model, LONGEST_NAME), {})
            shape = _Shape(one.key.precision, batch, one.key.input_size, one.key.compile_mode)
            phases.setdefault(one.key.phase, {}).setdefault(shape, []).append(one.metric)
    return found


def _largest(report: Report, devices: Sequence[GpuInfo]) -> dict[_Scanned, int]:
    """Return scan (-b auto) → largest batch that fits on each of `devices` for which the scan has a result."""
    uuids, sizes = {device.gpu_uuid for device in devices}, dict[_Scanned, int]()
    for scan in report.batch_scans:
        if scan.gpu_uuid in uuids and (size := scan.largest_batch_size) is not None:
            key = shortened(scan.model_name, LONGEST_NAME), scan.workload, scan.precision, scan.input_size
            sizes[key] = min(size, sizes.get(key, size))
    return sizes


def _table(models: _Models, largest: Mapping[_Scanned, int]) -> Table:
    columns = [*texts("Model"), *(column for phase in _RATES for column in _columns(phase))]
    rows = [
        (model, *(entry for phase in _RATES for entry in _entries(model, phase, phases.get(phase, {}), largest)))
        for model, phases in models.items()
    ]
    known = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    kept: tuple[Column, ...] = tuple(columns[place] for place in known)
    shown = tuple(tuple(row[place] for place in known) for row in rows if any(row[1:]))
    return Table("", kept, shown, framed=False)


def _columns(phase: Workload) -> tuple[Column, ...]:
    title, short = _RATES[phase]
    columns = (Column(title, number=True, short=short), *_FACTS, *numbers(_ENERGY[phase][0]))
    return tuple(replace(column, block=phase) for column in columns)


def _entries(
    model: str, phase: Workload, by_shape: dict[_Shape, list[Measured]], largest: Mapping[_Scanned, int]
) -> tuple[str, ...]:
    top = _top(phase, by_shape)
    if top is None:
        return ("",) * len(_columns(phase))
    in_doubt = "".join(dict.fromkeys(remarks.mark(metric) for metric in top.metrics))
    in_fp32 = top.shape._replace(precision=Precision.FP32)
    base = next((one.rate for one in _rates(phase, by_shape) if one.shape == in_fp32), None)
    several = any(shape.precision != Precision.FP32 for shape in by_shape)
    gain = f"{top.rate / base:.1f}" if base is not None and several else ""
    shares = [one.plausibility.gemm_percent for one in top.metrics if isinstance(one, Computed)]
    share, joule = _median(shares), _median([_ENERGY[phase][1].number(one) for one in top.metrics])
    return (
        f"{number(top.rate) if top.rate < _WHOLE else round(top.rate)}{in_doubt}",
        str(top.shape.batch),
        str(largest.get((model, phase, top.shape.precision, top.shape.input_size), "")),
        top.shape.format,
        gain,
        "" if share is None else f"{share:.0f}",
        "" if not joule else number(1 / joule),
    )


def _top(phase: Workload, by_shape: dict[_Shape, list[Measured]]) -> _Rate | None:
    return max(_rates(phase, by_shape), key=lambda one: one.rate, default=None)


def _rates(phase: Workload, by_shape: dict[_Shape, list[Measured]]) -> Iterator[_Rate]:
    figure = main_figure(phase, "")
    most = max(map(len, by_shape.values()), default=0)
    for shape, metrics in by_shape.items():
        if 2 * len(metrics) <= most:  # it ran on few of the GPUs, and does not fit on the others
            continue
        rate = _median([figure.number(metric) for metric in metrics])
        if rate is not None and not any(metric.wrong for metric in metrics):
            yield _Rate(shape, rate, metrics)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
