"""The report as records for PyTorch's benchmark database (schema v3): one for each figure of a cell.

A cell is a model in one configuration on one device; it also has a record named `measured`, 1 or 0. Schema: table
oss_ci_benchmark_v3 (pytorch/test-infra, clickhouse_db_schema). The uploader adds timestamp, repository, commit and job.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import FIGURES, Better
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.report.lines import Line, lines

_FIGURES: Final = sorted(
    (figure for figure in FIGURES if figure.pytorch),
    key=lambda figure: (not figure.main, figure.better is not Better.HIGHER),
)
"""Figures that become records: main ones first, then other rates (higher is better), then the rest."""
MEASURED: Final = "measured"
_DTYPES: Final = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Precision → torch's name of the dtype. TF32 is no dtype and keeps its name."""

Json = dict[str, Any]


def to_pytorch(report: Report, layout: Layout = DEFAULT) -> bytes:
    """Return the report as a JSON list of all records, indented, ending with a newline.

    layout.profile(report) becomes the profile of each record.
    """
    return msgspec.json.format(msgspec.json.encode(_records(report, layout)), indent=2) + b"\n"


def _records(report: Report, layout: Layout) -> list[Json]:
    dependencies = _dependencies(report)
    runners = {gpu.gpu_uuid: _runner(gpu, report) for gpu in report.gpu_info}
    return [
        {
            "benchmark": _benchmark(line, report, layout),
            "model": _model(line),
            "metric": metric,
            "runners": [runners[line.gpu.gpu_uuid]],
            "dependencies": dependencies,
        }
        for line in lines(report)
        for metric in _metrics(line)
    ]


def _benchmark(line: Line, report: Report, layout: Layout) -> Json:
    data, precision = report.metadata, line.entry.precision
    return {
        "name": "gpubench",
        "mode": line.entry.workload,
        "dtype": _DTYPES.get(precision, precision),
        "extra_info": {
            "device": line.gpu.kind,
            "run_id": data.run_id,
            "test_date": data.test_date,
            "profile": layout.profile(report),
            "verdict": report.verdict.word,
            "failures": str(len(report.failures)),
        },
    }


def _model(line: Line) -> Json:
    entry, result = line.entry, line.result
    known = {
        "cell": entry.cell,
        "batch_size": entry.batch_size,
        "batch_size_requested": entry.batch_size_requested,
        "input_size": entry.input_size,
        "memory_format": entry.memory_format or None,
        "new_tokens": entry.new_tokens,
        "parameters": None if result is None else result.parameters_count,
        "mode": line.mode,
    }
    return {
        "name": entry.model_name,
        "type": "probe" if result is None else result.model_type,
        "backend": "" if result is None else result.compile_mode,
        "origins": ["gpubench"],
        "extra_info": {name: str(value) for name, value in known.items() if value is not None},
    }


def _metrics(line: Line) -> Iterator[Json]:
    """Yield the `metric` object of each record of a cell: first MEASURED, then each known figure.

    MEASURED is 1 if the cell has any figure, else 0. The main figure has the values of all launches, any other figure
    one value.
    """
    metric, fate = line.metric, {"status": str(line.entry.status), "reason": line.entry.reason}
    values = {} if metric is None else {figure: figure.number(metric) for figure in _FIGURES}
    measured = any(value is not None for value in values.values())
    yield {"name": MEASURED, "benchmark_values": [float(measured)], "extra_info": fate}
    for figure, value in values.items():
        if metric is not None and value is not None:
            several = metric.launch_values if figure is line.figure and metric.launch_values else [value]
            yield {"name": figure.field, "benchmark_values": several, "extra_info": fate}


def _runner(gpu: GpuInfo, report: Report) -> Json:
    memory = gpu.gpu_memory_total_mb
    return {
        "name": gpu.kind,
        "type": gpu.gpu_name,
        "gpu_info": gpu.gpu_name if gpu.kind == "cuda" else "",
        "gpu_count": int(gpu.kind == "cuda"),
        "avail_gpu_mem_in_gb": 0 if memory is None else int(memory // 1024),
        "extra_info": {"hostname": report.metadata.hostname, "gpu_uuid": gpu.gpu_uuid, "gpu_id": str(gpu.gpu_id)},
    }


def _dependencies(report: Report) -> Json:
    data = report.metadata
    known = {
        "pytorch": data.pytorch_version,
        "cuda": data.cuda_version,
        "cudnn": data.cudnn_version,
        "torchvision": data.torchvision_version,
        "transformers": data.transformers_version,
        "python": data.python_version,
        "driver": data.driver_version,
        "gpubench": data.tool_version,
    }
    return {name: {"version": version} for name, version in known.items() if version}
