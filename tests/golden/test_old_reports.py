"""Reports that were kept since their schema version was current are read by `compare`, and rendered, from then on."""

import json
from pathlib import Path

import pytest

from orchestrator import report as reports
from orchestrator.compare import strict_json
from orchestrator.config.report_formats import ReportFormat
from orchestrator.errors import ConfigError
from orchestrator.figures.report import SCHEMA_VERSION, Report
from orchestrator.run_reports import report_reader
from tests.golden.rendering import OLD_REPORTS

KEPT = sorted(OLD_REPORTS.glob("v*/*.json"))
READ = [path for path in KEPT if path.parent.name == f"v{SCHEMA_VERSION}"]
REFUSED = [path for path in KEPT if path not in READ]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", READ, ids=name)
def test_kept_report_is_read_by_compare(path: Path, tmp_path: Path) -> None:
    """Its cells are those of the report; a new required field would refuse it."""
    side = report_reader.read(str(path), str(tmp_path))
    told = json.loads(path.read_bytes())
    assert side.run_id == told["metadata"]["run_id"]
    assert {device.gpu_uuid for device in side.devices} == {gpu["gpu_uuid"] for gpu in told["gpu_info"]}


@pytest.mark.parametrize("path", READ, ids=name)
def test_kept_report_is_rendered(path: Path) -> None:
    """In every format that needs nothing but the report; JSON gives the same values back."""
    report = strict_json.decode(path.read_bytes(), Report, path.name)
    for kind in ReportFormat:
        if kind is not ReportFormat.SAMPLES:
            assert reports.render(report, kind)
    assert json.loads(reports.render(report, ReportFormat.JSON)) == json.loads(path.read_bytes())


@pytest.mark.parametrize("path", REFUSED, ids=name)
def test_report_of_an_earlier_schema_version_is_refused_by_its_number(path: Path, tmp_path: Path) -> None:
    """Today's reader knows one version. It names both, and never reads an old report wrongly."""
    with pytest.raises(ConfigError) as refusal:
        report_reader.read(str(path), str(tmp_path))
    version = path.parent.name.removeprefix("v")
    assert f"schema version {version}" in str(refusal.value)
    assert f"version {SCHEMA_VERSION}." in str(refusal.value)


def test_reports_of_the_current_schema_version_are_kept() -> None:
    """Else nothing above would hold for them: `python -m tests.golden --keep`."""
    assert READ
