"""kinds/burn_in/chapter.py: a burn-in of eight GPUs on one page."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from orchestrator.figures.burn_in import Fate, InjectedReport, ReasonReport
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import brief, chapter
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.kinds.burn_in.memory_test import NEVER
from orchestrator.kinds.burn_in.rate_checks import BESIDE
from orchestrator.report.as_text import to_text
from orchestrator.report.chapters import overview
from orchestrator.report.html.page import page
from orchestrator.run_reports import reporting
from orchestrator.state.stopping import OUT_OF_TIME
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn, sound
from tests.fakes.findings import mismatch
from tests.fakes.runs import cpus, gpus

PAGE = 60

pytestmark = pytest.mark.usefixtures("unsynced")


def eight(folder: Path) -> FakeBurnIn:
    """A quick burn-in of eight GPUs."""
    return FakeBurnIn(folder, gpus(8), "10m")


def text(burn_in_run: FakeBurnIn, *, interrupted: bool = False) -> list[str]:
    """The lines of its report."""
    for gpu in range(8):
        burn_in_run.climate(gpu)
    burn_in_run.well()
    burn_in_run.finish(interrupted=interrupted, reason="stopped on request" if interrupted else "")
    return to_text(burn_in_run.report(), BURN_IN.layout).splitlines()


def on_one_page(lines: list[str]) -> bool:
    """Of a printer, or of a tall terminal."""
    return len(lines) <= PAGE and max(map(len, lines)) <= 80


def test_a_healthy_node_of_eight_fits_one_page(tmp_path: Path) -> None:
    """Verdict and checks of every GPU. Golden files have the sentences; of ten minutes none is of an hour."""
    burn_in_run = eight(tmp_path)
    burn_in_run.work()
    lines = text(burn_in_run)
    assert on_one_page(lines)
    assert sum("| PASS " in line for line in lines) == 8
    whole = "\n".join(lines)
    links = {cell.id for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.LINKS}
    launched = sum(cell in links for cell, _ in burn_in_run.stored.plan.order[burn_in_run.stored.devices[0].uuid])
    assert re.search(
        rf"^links: [\d,]+ comparisons in {launched} launch(es)?[ ,;]", whole, re.M
    )  # one launch of all eight
    assert " per hour" not in whole


def test_a_bound_by_the_hour_is_told_where_it_excludes_something(untested: Report) -> None:
    """At most one error an hour, which takes three hours; else the one by the check alone."""
    burn_in_run = untested.burn_in
    for hourly, words in ((2.2e3, ""), (1.01, ""), (0.38, " and 0.38 per hour")):
        check = replace(burn_in_run.gpus[0].checks[0], error_bound=3e-4, error_bound_per_hour=hourly)
        (line,) = chapter.evidence(
            replace(burn_in_run, gpus=(replace(burn_in_run.gpus[0], checks=(check,)),), links=())
        )
        assert re.search(rf" 3\.0e-04 per comparison{words}, 95 %", line)


def test_the_times_of_a_burn_in_are_told_in_one_form(untested: Report) -> None:
    """What was asked for and what was served: not seconds beside minutes."""
    burn_in_run = untested.burn_in
    gpus = tuple(replace(gpu, served_seconds=69.0) for gpu in burn_in_run.gpus)
    told = chapter.requested_time(replace(burn_in_run, duration_seconds=75.0, gpus=gpus))
    assert re.findall(r"\d+ \w+", told) == ["75 seconds", "69 seconds"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(42, "42 s"), (59.7, "1 min"), (82, "1:22 min"), (300, "5 min"), (599.4, "9:59 min"), (631, "11 min")],
)
def test_short_times_are_told_to_the_second(seconds: float, words: str) -> None:
    """Beside a load of 35 s, 82 s at work are not "1 min"."""
    assert chapter.short(seconds) == words


def test_a_node_with_two_bad_gpus_fits_one_page(tmp_path: Path) -> None:
    """One with wrong bits, in two rounds, and one that lost a launch: both with the board to look for."""
    burn_in_run = eight(tmp_path)
    cell = next(cell for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.SOAK)
    what = "product of 8192 x 8192 in bf16"
    wrong = mismatch(what=what, at_ns=burn_in_run.now_ns, wrong_again=10, beyond_rounding=True)
    bad = msgspec.structs.replace(sound(cell), mismatches=100, kept=(wrong,) * 16)
    mine = burn_in_run.stored.plan.order[burn_in_run.stored.devices[5].uuid]
    burn_in_run.work(verified={(3, Workload.SOAK, round_): bad for round_ in (0, 1)}, last=len(mine) - 1)
    cell_id, number = mine[-1]
    lost = next(one for one in burn_in_run.stored.plan.cells if one.id == cell_id)
    burn_in_run.failed(lost, Category.CRASHED, number=number, message="SIGSEGV")
    lines = text(burn_in_run)
    assert on_one_page(lines), "\n".join(lines)
    for place in (3, 5):
        serial = burn_in_run.stored.devices[place].serial
        assert any(re.match(rf"[A-Z]+: GPU {place}, serial {serial}, at ", line) for line in lines)
    assert any(line.startswith("launches: without a result: 1") for line in lines)


def test_eight_gpus_with_wrong_bits_fit_one_page(tmp_path: Path) -> None:
    """Each with its gravest reason and its board; how many more there are; no bound where something was found."""
    burn_in_run = eight(tmp_path)
    cell = next(cell for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.SOAK)
    wrong = mismatch(
        what="product of 8192 x 8192 in bf16", at_ns=burn_in_run.now_ns, wrong_again=10, beyond_rounding=True
    )
    found = {}
    for gpu in range(8):
        bad = msgspec.structs.replace(sound(cell), mismatches=100 + gpu, kept=(wrong,) * 16)
        found |= {(gpu, Workload.SOAK, round_): bad for round_ in range(gpu % 2 + 1)}
    burn_in_run.work(verified=found)
    lines = text(burn_in_run)
    assert on_one_page(lines), "\n".join(lines)
    for device in burn_in_run.stored.devices:
        assert any(f"serial {device.serial}" in line for line in lines)
    (soak,) = [line for line in lines if line.startswith("soak: ")]
    assert re.search(r" launches, [\d,]+ wrong$", soak)  # not "of them": of a launch that was cut off no check counts


def test_what_holds_for_all_is_said_once(tmp_path: Path) -> None:
    """An interrupted burn-in is a line, not eight."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(8), "1h")
    burn_in_run.work(last=10)
    lines = text(burn_in_run, interrupted=True)
    assert on_one_page(lines)
    assert f"UNKNOWN: GPU 0 to GPU 7: {Action.RESUME}" in lines
    chapter = "\n".join(lines).partition("Verdict: ")[0]
    assert chapter.count("stopped on request") == 1
    assert re.search(r"GPU \d, serial", chapter) is None


def test_what_the_time_limit_ends_is_no_failure(tmp_path: Path) -> None:
    """It is told for itself in text and on the page, and its bar is no red one; one that failed is told as ever."""
    for category, message, limited in ((Category.STOPPED, OUT_OF_TIME, True), (Category.EXCEPTION, "broken", False)):
        burn_in_run = FakeBurnIn(tmp_path / category, gpus(1), "10m")
        (slots,) = burn_in_run.stored.plan.order.values()
        burn_in_run.work(last=len(slots) - 1)
        cell_id, number = slots[-1]
        cell = next(cell for cell in burn_in_run.stored.plan.cells if cell.id == cell_id)
        burn_in_run.failed(cell, category, message=message, number=number, lasted_s=20.0)
        burn_in_run.well()
        burn_in_run.finish()
        made = reporting.make_all(burn_in_run.paths)
        text = to_text(made.report, made.layout)
        assert ("time limit: 1" in text) is limited
        assert ("without a result: 1" in text) is not limited
        words = next(
            section.summary
            for section in page(made.report, made.timeline, made.layout).sections
            if section.id == "failures"
        )
        assert any("time limit" in sentence for sentence in words) is limited
        assert sum(span.failed for device in made.timeline.devices for span in device.spans) == (not limited)


@pytest.mark.parametrize(
    ("fates", "words"),
    [
        ((), ""),
        ((Fate.FOUND, Fate.FOUND), "2 of 2 found"),
        ((Fate.MISSED, Fate.IN_PART, Fate.FOUND), "NOT ALL FOUND: 1 of 3"),
        ((Fate.UNDONE,), "0 of 1 TOOK EFFECT"),
        ((Fate.UNDONE, Fate.FOUND), "1 of 2 TOOK EFFECT, 1 of 1 found"),
        ((Fate.UNDONE, Fate.FOUND, Fate.MISSED), "2 of 3 TOOK EFFECT, NOT ALL FOUND: 1 of 2"),
    ],
)
def test_what_was_missed_is_told_apart_from_what_was_not_brought_about(
    untested: Report, fates: tuple[Fate, ...], words: str
) -> None:
    """A round that never came accuses no check; the answer at the head and the end says it too."""
    one = InjectedReport(gpu_uuid="", fault="it", found=False, outcome="")
    faults = tuple(replace(one, found=fate is Fate.FOUND, fate=fate) for fate in fates)
    burn_in_run = replace(untested.burn_in, injected=faults, tainted=True)
    assert brief.proven(burn_in_run) == words
    report = replace(untested, burn_in=burn_in_run)
    assert overview.verdict(report, BURN_IN.layout).text.startswith("TEST, ")
    assert overview.verdict(report, BURN_IN.layout).text.endswith(words or "none")


def test_what_became_of_a_fault_is_told_once(untested: Report) -> None:
    """The gravest first; its outcome may begin with the same words."""
    told = [
        InjectedReport(gpu_uuid="", fault="it", found=False, outcome=f"{Fate.UNDONE}: idle", fate=Fate.UNDONE),
        InjectedReport(gpu_uuid="", fault="it", found=False, outcome="unseen", fate=Fate.MISSED),
    ]
    lines = [*chapter.injected(replace(untested.burn_in, injected=tuple(told)))]
    assert lines == [f"{Fate.MISSED.upper()}: it: unseen", f"{Fate.UNDONE.upper()}: it: idle"]


def test_an_injected_fault_is_nothing_to_do_about(untested: Report) -> None:
    """No GPU of a test gets advice or a verdict on its hardware."""
    why = ReasonReport(verdict=HealthVerdict.UNKNOWN, text="tainted", action=Action.NOTHING)
    faulty, other = (replace(gpu, reasons=(why,)) for gpu in untested.burn_in.gpus)
    fault = InjectedReport(gpu_uuid=faulty.gpu_uuid, fault="it", found=True, outcome="", fate=Fate.FOUND)
    burn_in_run = replace(untested.burn_in, gpus=(faulty, other), injected=(fault,), tainted=True)
    section = brief.each_gpu(replace(untested, burn_in=burn_in_run))
    assert section is not None
    assert [str(finding.badge) for finding in section.findings] == [f"TEST {gpu.verdict}" for gpu in (faulty, other)]
    assert not any("to do" in line for finding in section.findings for line in finding.lines)


def test_the_gravest_gpus_come_first_and_empty_columns_are_excluded(untested: Report) -> None:
    """A CPU has neither temperature nor power."""
    section = chapter.burn_in(untested)
    assert {"Max C", "W"} & {column.title for column in section.tables[0].columns} == set()
    burn_in_run = untested.burn_in
    bad = ReasonReport(verdict=HealthVerdict.FAIL, text="wrong bits", action=Action.REPLACE)
    gpus_of = (
        burn_in_run.gpus[0],
        replace(burn_in_run.gpus[1], verdict=HealthVerdict.FAIL, action=Action.REPLACE, reasons=(bad,) * 2),
    )
    found = chapter.burn_in(replace(untested, burn_in=replace(burn_in_run, gpus=gpus_of)))
    first = next(finding for finding in found.findings if finding.badge is not None)
    assert (str(first.badge), first.lines) == ("FAIL", ("FAIL: wrong bits (2 times)",))
    assert first.title == f"cpu:1: {Action.REPLACE}"


UNTESTED = {
    "links peers fp32: NVLink and PCIe": "CPU devices have none",
    "memory: pattern modulo 20": NEVER,
    "memory: pattern random": NEVER,
    **{f"{number} thing": f"reason {number}" for number in range(6)},
}


@pytest.fixture
def untested(tmp_path: Path) -> Report:
    """Of two CPU devices, of one of which much was not tested."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    burn_in_run.work(last=3)
    burn_in_run.finish()
    report = burn_in_run.report()
    first, second = report.burn_in.gpus
    patterns = tuple(what for what, why in UNTESTED.items() if why == NEVER)
    second = replace(second, not_tested=UNTESTED, unfinished=patterns)
    return replace(report, burn_in=replace(report.burn_in, gpus=(replace(first, not_tested={}), second)))


def test_what_never_came_to_its_end_is_told_before_what_cannot_be_tested(untested: Report) -> None:
    """A pattern of memory that nobody tested, before NVLink of a CPU; what has one reason has one line."""
    burn_in_run = untested.burn_in
    first, *rest = chapter.not_tested(burn_in_run, untested)
    assert [part for part in ("20 and random", "cpu:1", NEVER) if part not in first] == []
    assert "NVLink and PCIe" in rest[-1]
    assert len(rest) == 7


def test_what_has_no_verdict_is_apart_and_names_its_devices(untested: Report) -> None:
    """Rates that were measured are no part of what was not tested."""
    first, second = untested.burn_in.gpus
    open_question = dict.fromkeys((BESIDE[Workload.SOAK], BESIDE[Workload.TRUTH]), "open")
    undecided = replace(second, not_tested=UNTESTED | open_question, not_decided=tuple(open_question))
    burn_in_run = replace(untested.burn_in, gpus=(first, undecided))
    (line,) = chapter.not_decided(burn_in_run, untested)
    assert [part for part in ('"soak" and "truth"', "cpu:1", "open") if part not in line] == []
    assert chapter.not_tested(burn_in_run, untested) == chapter.not_tested(untested.burn_in, untested)


def test_the_table_of_a_burn_in_has_what_there_is(tmp_path: Path) -> None:
    """Checks have no figures of their own: their table has no column that is empty for all of them."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(2), "10m")
    burn_in_run.work()
    burn_in_run.well()
    burn_in_run.finish()
    made = reporting.make_all(burn_in_run.paths)
    table = page(made.report, made.timeline, made.layout).cells.table
    columns = [column.title for column in table.columns]
    assert columns == ["GPU", "Model", "Phase", "Precision", "Status", "Launches", "Attempts", "Remarks"]
    assert len(table.rows) == len(made.report.cells) > 8
    assert {str(field) for row in table.rows for field in row} & {"N/A", ""} <= {""}
    (first,) = (row for row in table.rows if row[:4] == ("GPU 1", "gemm", "soak", "bf16"))
    (entry,) = (one for one in made.report.cells if (one.gpu_id, one.workload, one.precision) == (1, "soak", "bf16"))
    assert first[5:7] == tuple(map(str, (entry.launches, entry.attempts)))
