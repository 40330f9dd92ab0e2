"""What the page says: the same as the other formats, within its size, and what is missing where nothing is known."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds import registry
from orchestrator.report import render
from orchestrator.report.chapters.cells import cells
from orchestrator.report.chapters.findings import findings
from orchestrator.report.charts.types import Box, Heat, Kind
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.html import size_limit, to_html
from orchestrator.report.html.page import page
from orchestrator.report.html.render import bound
from orchestrator.report.html.size_limit import LEAST_CELLS, MOST_BYTES, _few, fitted
from orchestrator.report.numbers import number
from orchestrator.report.sections import (
    EMPTY,
    MOST_CELLS,
    MOST_ROWS,
    Badge,
    Chart,
    Finding,
    Log,
    Section,
    Tone,
    shortened,
    table,
    texts,
)
from orchestrator.run_reports import report_reader
from orchestrator.stats.stragglers import SiblingVerdict
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category
from tests.fakes.nvml import ROOT
from tests.fakes.pages import SLOW, many, standing, timeline
from tests.fakes.runs import FakeRun, gpus
from tests.golden.rendering import OLD_REPORTS, OUTPUTS

Invoke = Callable[..., Result]


def section(report: Report, name: str) -> Section:
    """A chapter of the page."""
    return next(one for one in page(report, NOTHING_KEPT).sections if one.id == name)


def test_eight_gpus_and_all_models_fit(zoo: Report) -> None:
    """With as many readings as are kept, the page stays below 3 MB."""
    node = many(zoo, 8)
    assert len(node.cells) > 700
    assert len(to_html(node, timeline(node))) < MOST_BYTES


def limit_bytes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Make the most bytes of a page fewer, so that reports of fewer cells are cut."""
    monkeypatch.setattr(size_limit, "MOST_BYTES", most)


def test_a_huge_run_fits_as_well(zoo: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the cells that are not well, and as many others as it holds; it says what is missing."""
    limit_bytes(monkeypatch, 2_000_000)
    huge = msgspec.structs.replace(
        zoo,
        cells=zoo.cells * 20,
        results=tuple(
            msgspec.structs.replace(one, model_name=f"model-{number}") for number in range(15) for one in zoo.results
        ),
        failures=zoo.failures * 20,
    )
    made = page(huge, NOTHING_KEPT)
    assert len(made.cells.table.rows) == MOST_CELLS
    assert re.search(r"\d more cells .*report\.csv", made.cells.table.note)
    status = [column.title for column in made.cells.table.columns].index("Status")
    assert str(made.cells.table.rows[0][status]) == "failed"
    assert len(to_html(huge, timeline(zoo))) <= 2_000_000 < len(bound(made))


def test_every_chapter_at_once_fits_as_well(zoo: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs, two precisions, thresholds and costs for each cell: the table of all cells has what they leave."""
    limit_bytes(monkeypatch, 2_070_000)
    node = many(zoo, 4)
    precisions = ("fp32", "bf16")
    wide = msgspec.structs.replace(
        node,
        cells=node.cells * len(precisions),
        results=tuple(
            msgspec.structs.replace(one, precision=precision) for precision in precisions for one in node.results
        ),
    )
    limit = Threshold(name="a limit for each cell", figure=LimitName.FORWARD_TIME, phase=Workload.INFERENCE, below=5.0)
    held = references.hold(wide, Against(thresholds=(limit,) * 3, price_per_hour=2.5))
    made = {name: to_html(report, timeline(node)).decode() for name, report in (("plain", wide), ("held", held))}
    rows = {name: text.partition('id="cells-table"')[2].count("<tr><td>") for name, text in made.items()}
    assert all(len(text.encode()) <= 2_070_000 for text in made.values())
    assert LEAST_CELLS < rows["held"] < rows["plain"] <= MOST_CELLS
    cells = page(held, NOTHING_KEPT).cells.table
    beyond = cells.beyond + len(cells.rows) - rows["held"]
    assert re.search(rf"\b{beyond} more cells [^<]*report\.csv and report\.json", made["held"])
    assert made["held"].partition('id="cells-table"')[2].count(">failed</span>") == 8
    assert re.search(r"\d more rows [^<]*report\.json", made["held"])


def test_long_logs_leave_room_for_the_rest(zoo: Report) -> None:
    """A hundred failures with the longest logs there are: the first have them, and the others say where theirs lie."""
    (failure,) = zoo.failures
    line = "x" * 1900
    loud = msgspec.structs.replace(failure, evidence={"stderr": f"{line}\n" * 40, "stdout": f"{line}\n" * 40})
    several = tuple(msgspec.structs.replace(loud, launch=number, message=f"{number}") for number in range(150))
    made = to_html(msgspec.structs.replace(zoo, failures=several), timeline(zoo))
    assert len(made) <= MOST_BYTES
    text = made.decode()
    assert line in text
    assert re.search(r"\b50 more [^<]*report\.json", text)
    assert text.count("no room for") > 50
    assert text.count("Logs: ") == 100


def test_cells_are_excluded_where_everything_else_takes_the_room(zoo: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than are wanted otherwise; none where what cannot be left out is too much by itself."""
    whole = replace(page(many(zoo, 4), NOTHING_KEPT), sections=())
    bare = len(bound(replace(whole, cells=_few(whole.cells, 0))))
    limit_bytes(monkeypatch, bare + 150_000)

    def made(left: int) -> tuple[int, int]:
        """Bytes of the page and rows of the table, where so many bytes are left."""
        filler = Finding(None, "much to say", ("x" * 1900,) * ((150_000 - left) // 1940))
        text = fitted(replace(whole, sections=(Section("loud", "Loud", findings=(filler,)),))).decode()
        return len(text.encode()), text.partition('id="cells-table"')[2].count("<tr><td>")

    size, rows = made(left=60_000)
    assert size <= bare + 150_000
    assert 0 < rows < LEAST_CELLS < len(whole.cells.table.rows)
    assert made(left=-100_000)[1] == 0


def test_choices_of_a_chart_are_excluded_last(zoo: Report) -> None:
    """Where the charts alone are too large, as many as fit are drawn, and how many there are is said."""
    whole = page(zoo, NOTHING_KEPT)
    heat = Heat("a map", ("a",), ("b",), tuple(Box(0, 0, 1.0, "", "x" * 1000) for _ in range(20)))
    chart = Chart("many", "Many", Kind.HEAT, "Says.", (heat,) * 200, choice="Map")
    made = fitted(replace(whole, sections=(*whole.sections, Section("many", "Many", charts=(chart,)))))
    assert len(made) <= MOST_BYTES
    assert re.search(r"Says\. Of 200 [^<]* (40|12) ", made.decode())


def test_medians_are_over_identical_devices(tmp_path: Path) -> None:
    """Three GPUs of one kind make one bar, another kind of GPU one of its own; the choice says which."""
    devices = (*gpus(3), msgspec.structs.replace(gpus(4)[3], name="NVIDIA L40S"))
    run = FakeRun(tmp_path, devices=devices, batch_sizes=(8,))
    for place, milliseconds in enumerate((10.0, 11.0, 30.0, 20.0)):
        run.measured(run.cell(batch_size=8, device=place), forward_ms=milliseconds, noise=0.0)
    run.finish()
    table = section(run.report(), "performance").table("throughput-inference")
    assert table is not None
    assert [(row[0], row[2]) for row in table.rows] == [
        ("batch 8, NVIDIA H200 (GPU 0 to GPU 2)", number(8 / 0.011)),
        ("batch 8, NVIDIA L40S (GPU 3)", number(8 / 0.020)),
    ]


def boxes(report: Report) -> list[tuple[str, str, Box]]:
    """The boxes of the heat map: cell, device, box."""
    (chart,) = section(report, "spread").charts
    maps = [plot for plot in chart.plots if isinstance(plot, Heat)]
    return [(one.rows[box.row], one.columns[box.column], box) for one in maps for box in one.boxes]


def framed(report: Report) -> set[str]:
    """The devices that have a frame."""
    return {device for _, device, box in boxes(report) if box.marked}


def with_verdicts(node: Report, *verdicts: SiblingVerdict) -> Report:
    return msgspec.structs.replace(node, stragglers=tuple(map(standing, node.gpu_info, verdicts)))


def test_only_a_verdict_has_a_frame(node: Report) -> None:
    """A GPU that is slow without one has none, nor a SUSPECT; one with a verdict has it where it is slower."""
    others = [SiblingVerdict.OK] * SLOW
    assert framed(node) == framed(with_verdicts(node, *[SiblingVerdict.NONE] * 4)) == set()
    assert framed(with_verdicts(node, *others, SiblingVerdict.SUSPECT, SiblingVerdict.OK)) == set()
    judged = with_verdicts(node, *others, SiblingVerdict.STRAGGLER, SiblingVerdict.STRAGGLER)
    assert framed(judged) == {f"GPU {SLOW}: STRAGGLER"}
    slower = {(box.value or 100) < 99 for _, _, box in boxes(judged) if box.marked}
    assert slower == {True}


def test_what_fails_by_its_health_has_a_frame(node: Report) -> None:
    """FAIL is a verdict, too."""
    (*others, slow, last) = node.health.gpus
    failed = msgspec.structs.replace(slow, verdict=HealthVerdict.FAIL)
    health = msgspec.structs.replace(node.health, gpus=(*others, failed, last))
    assert framed(msgspec.structs.replace(node, health=health)) == {f"GPU {SLOW}: FAIL"}


def test_cells_that_cannot_judge_a_gpu_are_hatched(tmp_path: Path) -> None:
    """Loading, and what waits for the host; where most wait, all of them. They have no frame, and come last."""
    run = FakeRun(tmp_path, devices=gpus(4), workloads=(Workload.LOAD, Workload.INFERENCE), batch_sizes=(1, 2, 8))
    for cell in run.stored.plan.cells:
        waits = {1: 3, 2: 1}.get(cell.batch_size, 0) if cell.workload is Workload.INFERENCE else 0
        place = [device.uuid for device in gpus(4)].index(cell.devices[0])
        run.measured(cell, forward_ms=12.0 if place == 3 else 10.0, launch_bound=place < waits, noise=0.0)
    run.finish()
    report = with_verdicts(run.report(), *[SiblingVerdict.OK] * 3, SiblingVerdict.STRAGGLER)
    found = boxes(report)
    counts = Counter(cell for cell, _, box in found if box.hatched)
    assert counts == {"resnet50 load fp32": 4, "resnet50 infer fp32 b1": 4, "resnet50 infer fp32 b2": 1}
    assert not any(box.hatched and box.marked for _, _, box in found)
    assert [cell for cell, _, _ in found[::4]][2:] == [
        cell for cell in dict.fromkeys(one[0] for one in found) if counts[cell] == 4
    ]
    assert framed(report) == {"GPU 3: STRAGGLER"}


CASES = (*sorted(OLD_REPORTS.glob("v*/*.json")), *sorted((ROOT / "docs" / "measurements").glob("*.json")))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_chapter_and_no_column_is_empty(path: Path) -> None:
    """Of reports of every schema version: what has nothing to say is not there."""
    report = report_reader.report(path)
    made = page(report, NOTHING_KEPT, registry.of_report(report).layout)
    sections = [*made.sections, *([made.glance] if made.glance else [])]
    for one in sections:
        assert one.charts or one.tables or one.findings or one.summary, one.id
        assert all(chart.plots for chart in one.charts), one.id
        assert all(len(section.rows) for section in one.own_tables), one.id
    for column, entries in zip(made.cells.table.columns[:-1], zip(*made.cells.table.rows, strict=True), strict=False):
        assert {str(entry) for entry in entries} - EMPTY, column.title


def test_samples_per_joule_are_a_column_where_energy_is_known(tmp_path: Path) -> None:
    """Not in a run that measured for too short a time."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples()
    run.finish()
    report = run.report()
    (metric,) = report.results[0].inference_metrics.values()
    assert metric.energy_per_sample_j
    entries = dict(
        zip(
            (one.title for one in cells(report, DEFAULT).table.columns),
            cells(report, DEFAULT).table.rows[0],
            strict=True,
        )
    )
    assert entries["Per J"] == number(1 / metric.energy_per_sample_j)
    without = msgspec.structs.replace(metric, energy_per_sample_j=None)
    results = (msgspec.structs.replace(report.results[0], inference_metrics={"batch_size_8": without}),)
    columns = cells(msgspec.structs.replace(report, results=results), DEFAULT).table.columns
    assert "Per J" not in {one.title for one in columns}


def test_the_first_screen_has_the_gravest_finding(node: Report) -> None:
    """A faulty GPU before what fails the run, then the speed of the baseline; nothing where all is well."""
    report = report_reader.report(ROOT / "docs" / "measurements" / "h200-x2-main-job.json")
    assert not findings(report, DEFAULT)
    assert findings(node, DEFAULT)[0].title == node.verdict.reasons[0]
    slow = with_verdicts(node, *[SiblingVerdict.OK] * SLOW, SiblingVerdict.STRAGGLER, SiblingVerdict.STRAGGLER)
    badges = [Badge("STRAGGLER", Tone.WARN)] * 2 + [Badge("PASS", Tone.GOOD)]
    assert [one.badge for one in findings(slow, DEFAULT)] == badges
    compared = report_reader.report(OUTPUTS / "after" / "report.json")
    assert [str(one.badge) for one in findings(compared, DEFAULT)] == ["worst finding", "baseline"]


def test_the_page_answers_before_it_warns() -> None:
    """Best configurations, GPUs against each other, doubtful results, tiles; the worst finding is above them."""
    report = report_reader.report(OUTPUTS / "siblings" / "report.json")
    text = to_html(report, NOTHING_KEPT).decode()
    words = ("STRAGGLER", '<div class="glance">', 'id="plot-siblings"', '<div class="notice">', '<dl class="cards">')
    places = [text.index(word) for word in (*words, 'class="facts"')]
    assert places == sorted(places)


def test_the_root_cause_comes_first(tmp_path: Path) -> None:
    """A lost GPU explains what else went wrong: it is opened, with its evidence and what to do; others are folded."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), Category.EXCEPTION, message="some mistake")
    run.failed(
        run.cell(batch_size=8), Category.DEVICE_LOST, message="gone", evidence={"xids": "79", "stderr": "a\n\nb"}
    )
    run.finish()
    first, second = section(run.report(), "failures").findings
    assert (first.badge, first.opened) == (Badge("root cause", Tone.BAD), True)
    assert (first.lines[0], first.details[0]) == ("gone", "Xid: 79")
    assert any(line.startswith("What to do: ") for line in first.details)
    assert first.logs == (Log("End of stderr", ("a", "b"), end=True),)
    assert (second.opened, second.lines[0]) == (False, "some mistake")


def test_logs_stand_as_they_were(tmp_path: Path) -> None:
    """A traceback keeps its indentation; of endless logs the end is shown, of stacks the innermost calls."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    stderr = "\n".join([*(f"noise {number}" for number in range(60)), "Traceback:", '  File "x"', "    boom()"])
    stacks = "\n".join(f"  call {number}" for number in range(60))
    run.failed(run.cell(), Category.EXCEPTION, evidence={"stderr": stderr, "stacks": stacks})
    run.finish()
    report = run.report()
    logs = {log.title: log.lines for log in section(report, "failures").findings[0].logs}
    assert (logs["End of stderr"][0], logs["End of stderr"][-1]) == ("noise 23", "    boom()")
    assert (logs["Stacks"][0], logs["Stacks"][-1]) == ("  call 0", "  call 39")
    text = to_html(report, NOTHING_KEPT).decode()
    assert "Traceback:\n  File &#34;x&#34;\n    boom()\n</pre>" in text
    assert '<pre tabindex="0">  call 0\n  call 1\n' in text


def test_long_tables_say_what_they_leave_out() -> None:
    """A table beside a chart ends at MOST_ROWS, with the number of the others after its own note."""
    whole = table("numbers", texts("Number"), [(str(number),) for number in range(MOST_ROWS + 3)], "Of a kind.")
    made = shortened(whole, MOST_ROWS)
    assert made.rows[-1] == (str(MOST_ROWS - 1),)
    assert re.fullmatch(r"Of a kind\. 3 more .*report\.json\.", made.note)
    assert table("numbers", texts("Number"), [("1",)]).note == ""


def test_the_command_makes_the_page(invoke: Invoke, tmp_path: Path) -> None:
    """`report RUN -f html` renders it into the run's folder, -o x.html where it is wanted, both with what was read."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell())
    run.samples()
    run.finish()
    for options, path in ((("-f", "html"), run.paths.report("html")), (("-o", "x.html"), tmp_path / "x.html")):
        done = invoke("report", str(run.paths.folder), *options)
        assert (done.exit_code, done.stdout.split()) == (ExitCode.PASSED, [str(path)]), done.output
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!DOCTYPE html>")
        assert '"Utilisation"' in text


def test_without_a_timeline_the_page_is_whole(tmp_path: Path) -> None:
    """A report of which no folder is at hand is rendered as well."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.everything()
    text = render(run.report(), ReportFormat.HTML)
    assert (b'id="performance"' in text, b'id="course"' in text) == (True, False)
