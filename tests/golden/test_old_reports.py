"""Reports that were kept since their schema version was current are read by `compare`, and rendered, from then on."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import report as reports
from orchestrator.config.report_formats import ReportFormat
from orchestrator.errors import ConfigError
from orchestrator.figures.report import SCHEMA_VERSION
from orchestrator.kinds import registry
from orchestrator.run_reports import report_migrations, report_reader
from tests.fakes.nvml import ROOT
from tests.golden.rendering import OLD_REPORTS

KEPT = sorted(OLD_REPORTS.glob("v*/*.json"))
MEASURED = sorted((ROOT / "docs" / "measurements").glob("*.json"))
VERSIONS = range(1, SCHEMA_VERSION)
EARLIER = [path for path in KEPT if path.parent.name != f"v{SCHEMA_VERSION}"]
MOVED = (
    *("schema_version", "health", "health_note", "steady_memory_mb", "baseline_comparison"),
    *("left_out", "taken_out", "stood_still_seconds", "asked_seconds", "left_out_seconds"),
    *("cannot be told", "it had taken as long as it may", "keep an eye on it"),
)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("path", [*KEPT, *MEASURED], ids=name)
def test_kept_report_is_read_by_compare(path: Path, tmp_path: Path) -> None:
    """Its devices and cells are those of the report, each with at least one figure where one was measured."""
    side, kept = report_reader.read(str(path), str(tmp_path)), read_json(path)
    assert side.run_id == kept["metadata"]["run_id"]
    assert {device.gpu_uuid for device in side.devices} == {gpu["gpu_uuid"] for gpu in kept["gpu_info"]}
    metrics = [one for result in kept["results"] for one in result["inference_metrics"].values()]
    measured = {one["throughput_samples_per_sec"] for one in metrics} - {None}
    if kept["schema_version"] < 4:  # later ones keep the figure of each launch
        assert measured <= {value for cell in side.cells for value in cell.values}


@pytest.mark.parametrize("path", KEPT, ids=name)
def test_kept_report_is_rendered(path: Path) -> None:
    """In every format that needs nothing but the report; JSON of today's version gives its values back."""
    report, kept = report_reader.report(path), read_json(path)
    layout = registry.of_report(report).layout
    for kind in ReportFormat:
        if kind is not ReportFormat.SAMPLES:
            assert reports.render(report, kind, layout=layout)
    rendered = json.loads(reports.render(report, ReportFormat.JSON))
    if kept["schema_version"] == SCHEMA_VERSION:
        assert set(flat(kept)) <= set(flat(rendered))  # what is more came since, with a default
    assert rendered["schema_version"] == SCHEMA_VERSION
    assert rendered["verdict"]["exit_code"] == kept["verdict"]["exit_code"]
    assert rendered["summary"]["cells"].items() >= kept["summary"]["cells"].items()


@pytest.mark.parametrize("path", EARLIER, ids=name)
def test_migration_keeps_every_figure(path: Path) -> None:
    """What the old report says is in the new one, but for what moved, as version 1's memory of warm blocks."""
    old = read_json(path)
    new = report_migrations.migrated(copy.deepcopy(old), old["schema_version"])
    kept = set(flat(new))
    assert {line for line in flat(old) if line not in kept and not any(word in line for word in MOVED)} == set()
    if old["schema_version"] == 1:
        warm = [one["warm_memory_allocated_mb"] for one in new["results"][0]["inference_metrics"].values()]
        assert warm == [one["steady_memory_mb"] for one in old["results"][0]["inference_metrics"].values()]


def test_migration_to_6_keeps_the_values_of_renamed_keys() -> None:
    """A burn-in with quarantined and suspended devices has all of them."""
    old = read_json(OLD_REPORTS / "v5" / "burn-in-gpus.json")
    new = report_migrations.migrated(copy.deepcopy(old), 5)
    assert new["excluded"] == old["left_out"]
    assert [gpu["quarantined"] for gpu in new["gpu_info"]] == [gpu["taken_out"] for gpu in old["gpu_info"]]
    sessions = zip(new["metadata"]["segments"], old["metadata"]["segments"], strict=True)
    assert all(after["suspended_seconds"] == before["stood_still_seconds"] for after, before in sessions)
    for after, before in zip(new["burn_in"]["gpus"], old["burn_in"]["gpus"], strict=True):
        assert after["requested_seconds"] == before["asked_seconds"]
        assert (after["heat_soak"] or {}).get("excluded_seconds") == (before["heat_soak"] or {}).get("left_out_seconds")


def flat(value: object, at: str = "") -> list[str]:
    if isinstance(value, dict):
        return [line for key, one in value.items() for line in flat(one, f"{at}.{key}")]
    if isinstance(value, list):
        return [line for number, one in enumerate(value) for line in flat(one, f"{at}[{number}]")]
    return [f"{at} = {float(value) if type(value) is int else value!r}"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_earlier_version_has_a_step_and_a_kept_report(version: int) -> None:
    """Else nothing above would hold for it."""
    assert version in report_migrations.STEPS
    assert list((OLD_REPORTS / f"v{version}").glob("*.json"))


@pytest.mark.parametrize("version", [0, -1, SCHEMA_VERSION + 1, 1.0, "1", 10**30])
def test_report_of_another_version_is_refused_by_its_number(tmp_path: Path, version: object) -> None:
    """With the versions that are read."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(read_json(KEPT[0]) | {"schema_version": version}))
    with pytest.raises(ConfigError) as refusal:
        report_reader.read(str(path), str(tmp_path))
    assert f"versions 1 to {SCHEMA_VERSION}." in str(refusal.value)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "damage",
    [
        {"results": 5},
        {"results": [[], {"inference_metrics": [{"launches": {}}], "model_name": []}]},
        {"probes": [{"ledger": 1, "model_name": {}}]},
        {"metadata": []},
        {"gpu_info": {"a": 1}},
        {"batch_scans": [{"points": 7, "model_name": []}]},
        {"health_note": []},
        {"unknown": 1},
        {"metadata": {"segments": [{}]}, "cells": [{"attempts": "many"}]},
    ],
)
def test_damaged_report_of_an_earlier_version_is_refused(tmp_path: Path, version: int, damage: dict[str, Any]) -> None:
    """By the decoder, as one of today's version."""
    kept = min((OLD_REPORTS / f"v{version}").glob("*.json"))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(read_json(kept) | damage))
    with pytest.raises(ConfigError, match="not as gpubench writes it"):
        report_reader.report(path)


def test_reports_of_the_current_schema_version_are_kept() -> None:
    """Else nothing above would hold for them: `python -m tests.golden --keep`."""
    assert list((OLD_REPORTS / f"v{SCHEMA_VERSION}").glob("*.json"))
