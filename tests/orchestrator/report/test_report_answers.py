"""What a reader asks first, in every format for people: what a burn-in found, and why a figure is missing."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import reporting
from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.figures.burn_in import ReasonReport
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report import layout
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_pytorch import records
from orchestrator.report.as_text import to_text
from orchestrator.report.html import overview
from orchestrator.report.html.page import page
from orchestrator.report.html.page_types import Section, Tone
from orchestrator.report.text_burn_in_headline import answer
from orchestrator.report.text_comparisons import priced
from orchestrator.report.text_stragglers import MEANS_OF_LAUNCHES
from protocol.cell import Mode, Workload
from tests.fakes.findings import mismatch
from tests.fakes.nights import Night, sound
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

pytestmark = pytest.mark.usefixtures("unsynced")


def section(report: Report, name: str) -> Section:
    """A chapter of the page."""
    return next(one for one in page(report, NOTHING_KEPT).sections if one.id == name)


def burnt_in(folder: Path, *, wrong_on: int | None = None, on_cpu: bool = False) -> Report:
    """A burn-in of two devices, of which one may have had wrong bits."""
    night = Night(folder, cpus(2) if on_cpu else gpus(2), "10m")
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    kept = (mismatch(what="a product", at_ns=night.now_ns, wrong_again=10, beyond_rounding=True),) * 16
    bad = msgspec.structs.replace(sound(cell), mismatches=100, kept=kept)
    night.work(verified={} if wrong_on is None else {(wrong_on, Workload.SOAK, 0): bad})
    if not on_cpu:
        for gpu in range(2):
            night.climate(gpu)
    night.well()
    night.finish()
    return night.report()


@pytest.mark.parametrize(
    ("wrong_on", "on_cpu", "words", "tone"),
    [
        (None, False, "PASS: 2 of 2 GPUs", Tone.GOOD),
        (1, False, "FAIL: GPU 1 of 2", Tone.BAD),
        (None, True, "PASS: 2 of 2 devices", Tone.GOOD),
    ],
)
def test_a_burn_in_begins_with_its_answer(
    tmp_path: Path, wrong_on: int | None, on_cpu: bool, words: str, tone: Tone
) -> None:
    """The verdict and whose it is come first, then how long they were at work: in text, Markdown and page."""
    report = burnt_in(tmp_path, wrong_on=wrong_on, on_cpu=on_cpu)
    lines = to_text(report).splitlines()
    assert lines[4] == f"Burn-in: {words}"
    assert f"Verdict: {words}" in lines
    assert to_markdown(report).startswith(f"## gpubench burn-in: {words}; {report.verdict.word} (exit code ")
    made = page(report, NOTHING_KEPT)
    assert (made.verdict.text, made.verdict.tone) == (words, tone)
    assert made.heading.startswith("Burn-in of 2 x ")
    assert made.title.startswith(f"{words}: Burn-in of ")
    at_work = f"Level quick, 10 minutes asked for, {10 if on_cpu else 11} minutes at work. "
    assert made.meaning.startswith(f"{at_work}Exit code {report.verdict.exit_code}: ")
    assert at_work in " ".join(lines)
    assert at_work in to_markdown(report)
    assert "| At work |" in to_markdown(report)


def test_the_page_tells_of_devices_as_the_text_does(tmp_path: Path) -> None:
    """The gravest first: the one with wrong bits before those of which nothing is known."""
    report = burnt_in(tmp_path, wrong_on=1)
    night = report.burn_in
    assert night is not None
    unknown = ReasonReport(verdict=HealthVerdict.UNKNOWN, text="who knows", action=Action.NOTHING)
    first = msgspec.structs.replace(night.gpus[0], verdict=HealthVerdict.UNKNOWN, reasons=(unknown,))
    report = msgspec.structs.replace(report, burn_in=msgspec.structs.replace(night, gpus=(first, night.gpus[1])))
    titles = [finding.title for finding in section(report, "burn-in").findings]
    assert titles[:2] == ["GPU 1: take it out of service", "GPU 0"]
    text = to_text(report)
    assert text.index("GPU 1, serial") < text.index("GPU 0, serial")


def test_a_burn_in_is_described_as_what_it_is(tmp_path: Path) -> None:
    """Its level and duration, in place of a profile that it does not have; the models and sizes of its cells alone."""
    report = burnt_in(tmp_path, on_cpu=True)
    facts = dict(overview.facts(report))
    assert facts["Burn-in"] == "level quick, 10 minutes"
    assert "Profile" not in facts
    assert {record.benchmark.extra_info["profile"] for record in records(report)} == {"burn-in, level quick"}
    asked = report.test_configuration
    assert set(asked.models) == {cell.model_name for cell in report.cells}
    assert set(asked.batch_sizes) == {cell.batch_size_requested for cell in report.cells}
    assert (asked.training_batch_sizes, asked.generation_batch_sizes) == ((), ())
    assert "Profile" in dict(overview.facts(FakeRun(tmp_path / "other").report()))


def test_an_answer_says_that_faults_were_injected(tmp_path: Path) -> None:
    """It stands beside the verdict, wherever that is read."""
    report = burnt_in(tmp_path)
    assert report.burn_in is not None
    tainted = msgspec.structs.replace(report.burn_in, tainted=True)
    assert answer(tainted, report) == "PASS: 2 of 2 GPUs, with faults injected"


def test_what_no_device_has_is_no_column(tmp_path: Path) -> None:
    """A CPU has neither temperature nor power; a GPU that has them keeps both columns."""
    for on_cpu in (True, False):
        report = burnt_in(tmp_path / str(on_cpu), on_cpu=on_cpu)
        (table,) = section(report, "burn-in").tables
        titles = {column.title for column in table.columns}
        assert ({"Max C", "W"} <= titles, {"Max C", "W"} & titles == set()) == (not on_cpu, on_cpu)
        assert all(all(row) for row in table.rows)
        header = next(line for line in to_text(report).splitlines() if line.startswith("| GPU"))
        assert ("Max C" in header) is not on_cpu


def test_devices_that_are_alike_have_their_facts_in_rows(tmp_path: Path) -> None:
    """Of one device, or of several that differ in nothing: what is known of it, and not a table of its name alone."""
    for devices in (gpus(1), gpus(2)):
        run = FakeRun(tmp_path / str(len(devices)), devices=devices, batch_sizes=(8,))
        run.everything()
        facts = section(run.report(), "devices").tables[1]
        assert len(facts.columns) > 1
        assert all(any(row[1:]) for row in facts.rows)
    alone = FakeRun(tmp_path / "cpu", devices=cpus(1), batch_sizes=(8,))
    alone.everything()
    facts = section(alone.report(), "devices").tables[1]
    assert [column.title for column in facts.columns] == ["What", "cpu:0"]
    assert ("Device", "Some Processor") in facts.rows


def test_a_score_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    """In its chapter, without marks of code; a CPU is not sent to the baseline of a GPU."""
    for devices, ships in ((gpus(1), True), (cpus(1), False)):
        run = FakeRun(tmp_path / devices[0].kind, devices=devices, batch_sizes=(8,))
        run.everything()
        report = run.report()
        made = page(report, NOTHING_KEPT)
        assert "Score" not in {card.title for card in made.cards}
        (chart,) = section(report, "score").charts
        assert ("h200-141gb" in chart.empty, "`" in chart.empty) == (ships, False)
        assert "--compare-baseline" in chart.empty


def test_costs_say_why_energy_is_not_known(tmp_path: Path) -> None:
    """Short cells have no energy: the reason stands once below the table, in each format; with energy, no reason."""
    for blocks, known in ((1, False), (20, True)):
        run = FakeRun(tmp_path / str(blocks), batch_sizes=(8,))
        run.measured(run.cell(batch_size=8), blocks=blocks, iterations=40)
        run.samples()
        run.finish()
        report = references.hold(run.report(), Against(price_per_hour=2.5))
        (cost,) = report.costs
        assert (cost.energy_kwh_per_million is not None) is known
        reason = "Energy is not known of each cell: utilisation, power and energy need 5 s of measuring."
        assert ([*priced(report)][1:] == [reason]) is not known
        (table,) = section(report, "held-against").tables
        for text in (to_text(report), to_markdown(report), table.note):
            assert (reason in " ".join(text.split())) is not known


def test_the_means_of_a_full_node_are_told_apart_from_medians(tmp_path: Path) -> None:
    """Its figures are of another kind than those of the tables beside it: a line says so in each format."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), launches=3, modes=(Mode.LOADED, Mode.SOLO))
    run.everything()
    run.finish()
    report = run.report()
    assert MEANS_OF_LAUNCHES in " ".join(to_text(report).split())
    assert MEANS_OF_LAUNCHES in to_markdown(report)
    (table,) = [one for one in section(report, "spread").tables if one.caption == "What a full node loses"]
    assert table.note == MEANS_OF_LAUNCHES


def test_operations_that_were_not_counted_have_a_reason(tmp_path: Path) -> None:
    """Beside a batch whose operations were counted, one with an iteration of more than 2 s says why it has no rate."""
    run = FakeRun(tmp_path, batch_sizes=(1, 4))
    run.measured(run.cell(batch_size=1), flops_per_iteration=1e12)
    run.measured(run.cell(batch_size=4), forward_ms=2_500.0, flops_per_iteration=None)
    run.finish()
    text = to_text(run.report())
    assert re.search(r"\| Achieved +\| [0-9.]+ TFLOP/s +\| N/A ", text)
    assert "batch 4: Achieved is not known: operations were not counted: that takes one iteration" in " ".join(
        text.split()
    )
    assert "batch 1: Achieved" not in text
    assert max(map(layout.width, text.splitlines())) <= layout.WIDTH


def test_a_unit_has_one_name(tmp_path: Path) -> None:
    """Samples a second are called the same in tables, summary, page and Markdown."""
    run = FakeRun(tmp_path, models=shipped("resnet50"), workloads=(Workload.INFERENCE,), batch_sizes=(8,))
    run.everything()
    run.finish()
    report = reporting.make_all(run.paths).report
    cards = " ".join(card.figure for card in page(report, NOTHING_KEPT).cards)
    for text in (to_text(report), to_markdown(report), cards):
        assert "smp/s" in text
        assert re.search("samples/s|items/s", text) is None
