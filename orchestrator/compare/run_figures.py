"""One side of a comparison: a run reduced to the compared values. Also the format of a baseline file."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

import msgspec

from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured, Status
from orchestrator.figures.exit_code import COMPARED, run_verdict
from orchestrator.figures.keys import CellKey
from orchestrator.figures.operators import OperatorMetric
from orchestrator.figures.parts import Part
from orchestrator.figures.quality import is_steady
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import BY_FIELD, Metric, main_figure
from orchestrator.stats.slowdown_reasons import CAPPED_SHARE
from orchestrator.stats.two_runs import LEAST_LAUNCHES
from protocol.cell import device_label
from protocol.exit_codes import ExitCode

VERSION: Final = 1

RUNS_APART: Final = ", "
LEAST: Final = 1e-9
MOST: Final = 1e18
Rate = Annotated[float, msgspec.Meta(ge=LEAST, le=MOST)]
"""Value of a launch, in the unit of its metric. gpubench measures none beyond these limits; powers would overflow."""


class SideCell(Part, frozen=True, kw_only=True, omit_defaults=True):
    """A cell (model and configuration) on one device, with the compared figure of each of its launches.

    metric: name of this figure with its unit, such as "model_load_time_ms". values: one per launch. ran_at: batch size.
    parameters: number of the model's parameters. steady: whether times were steady after warm-up, or it is unknown.
    throttled: whether heat or a hardware brake lowered the clocks in over 1 % of the measured time of a launch.
    power_capped: whether power limited them in over half of it. contaminated: whether another process used the device.
    host_bound: whether the GPU waited for the host. wrong: why the result of an operator or a compiled model is wrong,
    or "". figures: further figures, which are only shown, such as "p95, ms" → 5.2. None: unknown, as in older
    baselines.
    """

    gpu_uuid: str
    key: CellKey
    metric: str
    values: tuple[Rate, ...]
    status: Status
    ran_at: int | None
    parameters: int | None
    steady: bool
    throttled: bool | None
    contaminated: bool
    power_capped: bool
    host_bound: bool | None = None
    wrong: str = ""
    figures: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def is_time(self) -> bool:
        """Whether the values are times, so that a lower value is faster."""
        return self.metric.endswith("_ms")

    @property
    def rates(self) -> tuple[float, ...]:
        """The values of all launches as rates: a higher rate is faster."""
        return tuple(1 / value for value in self.values) if self.is_time else self.values


class SideDevice(Part, frozen=True, kw_only=True):
    """A device of a run or baseline. label: "GPU 0". kind: "cuda" or "cpu". stack: further facts, "VBIOS" → version."""

    gpu_uuid: str
    label: str
    gpu_name: str
    kind: str
    memory_mb: float | None
    power_limit_w: float | None
    stack: dict[str, str]


class Side(Part, frozen=True, kw_only=True, omit_defaults=True):
    """A run or a baseline. baseline_version: None for a run. name: to show, such as "@last".

    run_id: of a baseline, ids of all its runs, with RUNS_APART between them. test_date: start of the (first) run, ISO
    8601, UTC. profile: such as "standard". stack: versions and settings of the software and the host, such as
    {"driver": "580.95.05"}. ended: why the run did not end well, or "".
    """

    baseline_version: int | None
    name: str
    run_id: str
    test_date: str
    profile: str
    stack: dict[str, str]
    devices: tuple[SideDevice, ...]
    cells: tuple[SideCell, ...]
    ended: str = ""

    @property
    def is_baseline(self) -> bool:
        """Whether this side was made by `make-baseline`."""
        return self.baseline_version is not None

    @property
    def label(self) -> str:
        """Name with run id, host and date: a name such as @last may stand for another run tomorrow."""
        run_id = "" if self.is_baseline or self.run_id in self.name else self.run_id
        facts = (run_id, self.stack.get("host", ""), self.test_date.partition("T")[0])
        return f"{self.name} ({', '.join(filter(None, facts))})"

    @property
    def run_ids(self) -> frozenset[str]:
        """Ids of the runs that this side was made of."""
        return frozenset(self.run_id.split(RUNS_APART))


def impossible(report: Report) -> Iterator[str]:
    """Yield a text for each value below LEAST or above MOST: "1e+308 of resnet50 inference fp32 b8 on GPU-1"."""
    for uuid, key, metric, _ in _metrics(report):
        for value in metric.launch_values:
            if not LEAST <= value <= MOST:
                yield f"{value:g} of {key.label} on {uuid}"


def of_report(report: Report, name: str) -> Side:
    """Reduce a report to a side, without values below LEAST or above MOST.

    name: to show, such as "this run".
    """
    return Side(
        baseline_version=None,
        name=name,
        run_id=report.metadata.run_id,
        test_date=report.metadata.test_date,
        profile=report.test_configuration.profile,
        stack=_stack(report),
        devices=tuple(_device(device) for device in report.gpu_info),
        cells=tuple(_cell(*found) for found in _metrics(report)),
        ended=_ended(report),
    )


def _ended(report: Report) -> str:
    """Return why the run did not end well, thresholds and baselines ignored; "" if it did."""
    verdict, cells = report.verdict, report.summary.cells
    if verdict.causes:
        verdict = run_verdict((cause for cause in verdict.causes if cause.kind not in COMPARED), verdict.remarks)
    if verdict.exit_code not in (ExitCode.PASSED, ExitCode.MISSED):
        return ": ".join((verdict.word, *verdict.reasons[:1]))
    lost = cells.missing + cells.failed
    return f"incomplete: {plural(lost, 'cell')} without a result" if lost else ""


def _stack(report: Report) -> dict[str, str]:
    data, asked = report.metadata, report.test_configuration
    drivers = dict.fromkeys(device.driver_version for device in report.gpu_info if device.driver_version)
    facts: Mapping[str, object] = {
        "driver": data.driver_version or ", ".join(drivers),
        "torch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "cuDNN": data.cudnn_version,
        "torchvision": data.torchvision_version,
        "transformers": data.transformers_version,
        "python": data.python_version,
        "host": data.hostname,
        "gpubench": data.tool_version,
        "profile": asked.profile,
        "isolation": asked.isolation,
        "seed": asked.seed,
        "iterations": asked.test_iterations,
        "warm-up iterations": asked.warmup_iterations,
        **{setting.name: setting.value for setting in data.settings},
    }
    return {name: str(fact) for name, fact in facts.items() if fact not in (None, "")}


def _device(gpu: GpuInfo) -> SideDevice:
    facts: Mapping[str, object] = {
        "VBIOS": gpu.vbios_version,
        "ECC": gpu.ecc_enabled,
        "PCIe generation": gpu.pcie_generation,
        "PCIe width": gpu.pcie_width,
    }
    return SideDevice(
        gpu_uuid=gpu.gpu_uuid,
        label=device_label(gpu.kind, gpu.gpu_uuid, gpu.gpu_id, gpu.slice_index),
        gpu_name=gpu.gpu_name,
        kind=gpu.kind,
        memory_mb=gpu.gpu_memory_total_mb,
        power_limit_w=gpu.power_limit_w,
        stack={name: str(fact) for name, fact in facts.items() if fact is not None},
    )


def _metrics(report: Report) -> Iterator[tuple[str, CellKey, Metric, int | None]]:
    for result in report.results:
        for key, metric in keys.of_model(result):
            yield result.gpu_uuid, key, metric, result.parameters_count
    for probe in report.probes:
        yield probe.gpu_uuid, keys.of_probe(probe), probe, None
    yield from ((uuid, key, metric, None) for uuid, key, metric in keys.of_operators(report))


def _cell(gpu_uuid: str, key: CellKey, metric: Metric, parameters: int | None) -> SideCell:
    return SideCell(
        gpu_uuid=gpu_uuid,
        key=key,
        metric=main_figure(key.phase, key.model_name).field,
        values=tuple(value for value in metric.launch_values if LEAST <= value <= MOST),
        status=metric.status,
        ran_at=metric.batch_size,
        parameters=parameters,
        steady=is_steady(metric.steady_state, _half_width(metric)),
        throttled=metric.throttled,
        contaminated=metric.contaminated,
        power_capped=(metric.power_capped_percent or 0) > 100 * CAPPED_SHARE,
        host_bound=metric.launch_bound,
        wrong=metric.wrong,
        figures=dict(_figures(metric)),
    )


def _half_width(metric: Measured | OperatorMetric) -> float | None:
    few = len(metric.launch_values) < LEAST_LAUNCHES
    return metric.relative_half_width if few and not isinstance(metric, OperatorMetric) else None


def _figures(metric: Metric) -> Iterator[tuple[str, float]]:
    for name, read in BESIDE.items():
        value = read(metric)
        if value is not None:
            yield name, value


def _share_ms(share: str) -> Callable[[Metric], float | None]:
    return lambda metric: (
        None if metric.statistics is None else getattr(metric.statistics, f"iteration_time_{share}_ms")
    )


BESIDE: Final[Mapping[str, Callable[[Metric], float | None]]] = {
    **{f"{share}, ms": _share_ms(share) for share in ("p50", "p95", "p99")},
    "peak memory, MB": BY_FIELD["peak_memory_mb"].number,
    "cold compilation, ms": BY_FIELD["compile_cold_ms"].number,
}
"""Name with unit → reader of a figure that is shown beside the compared one and has no verdict."""
