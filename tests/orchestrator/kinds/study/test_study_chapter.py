"""The chapter of a study: which times and speeds the host limits."""

from pathlib import Path

from orchestrator.config.report_formats import ReportFormat
from orchestrator.kinds.study.chapter import study
from orchestrator.report.as_brief import to_brief
from orchestrator.report.files import render
from orchestrator.report.numbers import share
from orchestrator.report.remarks import HOST_LIMITED
from orchestrator.run_reports import reporting
from tests.fakes.runs import cpus, gpus
from tests.fakes.study_runs import StudyRun


def made(folder: Path, *, cpu: bool = False) -> reporting.Made:
    """JAX with r=64 waits for the host, and with r=256 the device is the limit."""
    run = StudyRun(folder, devices=cpus(1) if cpu else gpus(1))
    for cell in run.stored.plan.cells:
        run.did(cell, 0.0544 if "r=64" in cell.model else 0.5, host_ms=0.0573)
    run.finish()
    return reporting.make_all(run.paths)


def test_times_that_the_host_limits_are_marked(tmp_path: Path) -> None:
    """Where the calls were not graphed, and the device is done as soon as the host: time and speed, in every format."""
    found = made(tmp_path / "run")
    assert found.report.study is not None
    bound = {(row.implementation, row.sizes["r"]): row.host_bound for row in found.report.study.rows}
    assert {key for key, limited in bound.items() if limited} == {("jax", 64)}
    assert None not in bound.values()
    section = study(found.report)
    assert section is not None
    table = section.table("study")
    assert table is not None
    marked = {str(row[0]): [str(entry) for entry in row if str(entry).endswith("*")] for row in table.rows}
    assert {name: entries for name, entries in marked.items() if entries} == {"r=64 jax": ["0.0544*", "1.00*"]}
    for kind in (ReportFormat.TXT, ReportFormat.MD, ReportFormat.HTML):
        assert HOST_LIMITED in render(found.report, kind, **found.given).decode(), kind
    assert HOST_LIMITED in to_brief(found.report, found.layout)
    assert max(map(len, to_brief(found.report, found.layout).splitlines())) <= 80


def test_a_cpu_device_has_no_marks(tmp_path: Path) -> None:
    """Its host is the device."""
    found = made(tmp_path / "run", cpu=True)
    assert found.report.study is not None
    assert {row.host_bound for row in found.report.study.rows} == {None}
    assert HOST_LIMITED not in render(found.report, ReportFormat.TXT, **found.given).decode()


def test_cells_that_cannot_run_are_one_line_for_each_reason(tmp_path: Path) -> None:
    """An implementation that lacks all of its sizes is named without them."""
    run = StudyRun(tmp_path / "run")
    for cell in run.stored.plan.cells:
        if run.operator(cell).implementation == "jax" or ("compiled" in cell.model and "r=64" in cell.model):
            run.did(cell, 0.5, series={}, unsupported="no JAX here")
        else:
            run.did(cell, 0.5)
    run.finish()
    section = study(reporting.make_all(run.paths).report)
    assert section is not None
    (lines,) = [one.lines for one in section.findings if one.badge is not None]
    (line,) = lines
    assert (line.count("jax"), line.count("compiled"), line.count("r=64"), line.count("r=256")) == (1, 1, 1, 0)


def test_device_times_have_intervals(tmp_path: Path) -> None:
    """Over the launches, from three on."""
    run = StudyRun(tmp_path / "run", launches=3)
    for number, device_ms in enumerate((0.4, 0.5, 0.6)):
        for cell in run.stored.plan.cells:
            run.did(cell, device_ms, number=number)
    run.finish()
    report = reporting.make_all(run.paths).report
    assert report.study is not None
    section = study(report)
    assert section is not None
    table = section.table("study")
    assert table is not None
    place = [column.title for column in table.columns].index("+/-")
    known = [share(row.interval_percent) for row in report.study.rows if row.interval_percent]
    assert [row[place] for row in table.rows] == known
