"""Markdown, and records for PyTorch's benchmark database."""

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import msgspec
import pytest

from orchestrator.config.report_formats import ReportFormat, target
from orchestrator.figures.report import Report
from orchestrator.report import publish
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_pytorch import to_pytorch
from protocol.cell import Precision, Workload
from protocol.failure import Category
from tests.fakes.reports import launches_of
from tests.fakes.runs import FakeRun, gpus, shipped

HOSTILE: Final = "a|b `c` <script>x</script> *d* [e](http://f) @everyone #1 $x$ www.g.org\n# h\x1b[31m"


def made(folder: Path, **changes: Any) -> Report:
    """Two GPUs, half precision, two launches; one cell fails on the second GPU."""
    run = FakeRun(
        folder,
        devices=gpus(2, **changes),
        batch_sizes=(8,),
        precisions=(Precision.BF16,),
        workloads=(Workload.INFERENCE, Workload.TRAINING),
        launches=2,
    )
    for cell in run.stored.plan.cells:
        if cell.workload is Workload.TRAINING and cell.devices[0] == run.stored.devices[1].uuid:
            run.failed(cell, Category.CRASHED, message=HOSTILE)
            continue
        for number in range(2):
            run.measured(cell, number=number, forward_ms=10.0 + number)
    run.finish()
    return run.report()


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_foreign_text_is_harmless_in_markdown(tmp_path: Path) -> None:
    """No column, markup, mention, link or formula."""
    text = to_markdown(made(tmp_path, name=HOSTILE))
    assert "\x1b" not in text
    assert "<script>" not in text
    for character in "|`*[]@#$":
        ours = re.sub(r"^(\|.*\||## gpubench.*)$", "", text, flags=re.MULTILINE)
        assert not re.search(rf"(?<!\\){re.escape(character)}", ours), character
    rows = [line for line in text.splitlines() if line.startswith("|")]
    found = [line for line in text.splitlines() if "everyone" in line]
    assert len(found) >= 3
    for line in found:
        assert (
            r"a\|b \`c\` &lt;script>x&lt;/script> \*d\* \[e\](http\://f) \@everyone \#1 \$x\$ www\.g.org \# h" in line
        )
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    tables = [widths[place] for place, line in enumerate(rows) if re.fullmatch(r"\|(---\|)+", line)]
    assert set(widths) == set(tables)


# ── PyTorch's benchmark database ──────────────────────────────────────────────────────────────────────────────────────

TEXT: Final = {"type": "string"}
MAP: Final = {"type": "object", "additionalProperties": TEXT}
WHOLE: Final = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
FLOAT32: Final = {"type": "number", "minimum": -3.4e38, "maximum": 3.4e38}


def tuple_of(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    """A Tuple of ClickHouse with these fields only."""
    return {"type": "object", "properties": fields, "additionalProperties": False, "required": list(required)}


SCHEMA: Final = {
    "type": "array",
    "items": tuple_of(
        ("benchmark", "model", "metric"),
        benchmark=tuple_of(("name",), name=TEXT, mode=TEXT, dtype=TEXT, extra_info=MAP),
        model=tuple_of(
            ("name",), name=TEXT, type=TEXT, backend=TEXT, origins={"type": "array", "items": TEXT}, extra_info=MAP
        ),
        metric=tuple_of(
            ("name", "benchmark_values"),
            name=TEXT,
            benchmark_values={"type": "array", "items": FLOAT32, "minItems": 1},
            target_value=FLOAT32,
            extra_info=MAP,
        ),
        runners={
            "type": "array",
            "items": tuple_of(
                name=TEXT,
                type=TEXT,
                cpu_info=TEXT,
                cpu_count=WHOLE,
                mem_info=TEXT,
                avail_mem_in_gb=WHOLE,
                gpu_info=TEXT,
                gpu_count=WHOLE,
                gpu_mem_info=TEXT,
                avail_gpu_mem_in_gb=WHOLE,
                extra_info=MAP,
            ),
        },
        dependencies={
            "type": "object",
            "additionalProperties": tuple_of(repo=TEXT, branch=TEXT, sha=TEXT, version=TEXT, extra_info=MAP),
        },
    ),
}
"""The columns of the table oss_ci_benchmark_v3 that a benchmark fills in; the others are the uploader's."""


def test_records_match_the_database_schema(tmp_path: Path) -> None:
    """Every column has its type, and there are no others."""
    records = json.loads(to_pytorch(made(tmp_path, name=HOSTILE)))
    jsonschema.Draft202012Validator(SCHEMA).validate(records)


def test_a_record_has_the_values_of_all_launches(tmp_path: Path) -> None:
    """Of the main figure; with torch's name of the precision, and the device as runner."""
    report = made(tmp_path)
    records = [one for one in json.loads(to_pytorch(report)) if one["metric"]["name"] == "throughput_samples_per_sec"]
    first = records[0]
    assert first["metric"]["benchmark_values"] == list(
        report.results[0].inference_metrics["batch_size_8"].launch_values
    )
    assert (first["benchmark"]["mode"], first["benchmark"]["dtype"]) == ("inference", "bfloat16")
    assert first["model"]["name"] == shipped("resnet50")[0].name
    assert (first["runners"][0]["gpu_count"], first["runners"][0]["avail_gpu_mem_in_gb"]) == (1, 140)
    assert first["dependencies"]["pytorch"]["version"] == "2.15.0"


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.json", ReportFormat.JSON),
        ("x.PyTorch.json", ReportFormat.PYTORCH),
        ("pytorch.json", ReportFormat.JSON),
        ("a.b.samples.csv", ReportFormat.SAMPLES),
        ("x.md", ReportFormat.MD),
        ("x.csv", ReportFormat.CSV),
        ("x", None),
        ("md", None),
        ("x.2026.11.1", None),
    ],
)
def test_the_longest_suffix_says_the_format(name: str, kind: ReportFormat | None) -> None:
    """Two-part suffixes come first."""
    assert ReportFormat.of_name(name) is kind


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("x.json", ReportFormat.PYTORCH, "x.pytorch.json"),
        ("x.pytorch.json", ReportFormat.JSON, "x.json"),
        ("x.samples.csv", ReportFormat.MD, "x.md"),
        ("x.2026", ReportFormat.MD, "x.2026.md"),
        ("x.MD", ReportFormat.MD, "x.MD"),
    ],
)
def test_each_format_has_its_own_name_beside_the_others(name: str, kind: ReportFormat, expected: str) -> None:
    """Another format's suffix is replaced, anything else is part of the name."""
    assert target(Path(name), kind) == Path(expected)


def test_all_formats_are_published_side_by_side(tmp_path: Path) -> None:
    """None replaces another."""
    report = made(tmp_path / "run")
    written = publish(report, tmp_path / "out" / "x.json", tuple(ReportFormat), samples=launches_of(report))
    assert sorted(path.name for path in written) == sorted(f"x.{kind}" for kind in ReportFormat)
    assert msgspec.json.decode((tmp_path / "out" / "x.json").read_bytes(), type=Report) == report
