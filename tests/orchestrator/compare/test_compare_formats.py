"""Comparisons as text, Markdown and JUnit XML: all say the same, and no name can steer them."""

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Collection

import msgspec
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.compare import wording
from orchestrator.compare.as_html import page
from orchestrator.compare.as_junit import to_junit
from orchestrator.compare.as_markdown import to_markdown
from orchestrator.compare.as_text import MOST_ROWS, to_text
from orchestrator.compare.chapters import ended, worst
from orchestrator.compare.comparison import FAIL_ON, Comparison, compare
from orchestrator.compare.run_figures import Side
from orchestrator.config import margins
from orchestrator.figures.cells import Status
from orchestrator.report.markdown import escaped
from orchestrator.report.text import WIDTH
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode
from tests.fakes.sides import STACK, baseline, cell, cells, device, side
from tests.fakes.tables import rows

HOSTILE = "<script>alert(1)</script>|`x`\x1b[31m\n# [a](b) @all ]]> & \u202e"


def compared(before: Side, after: Side) -> Comparison:
    """With the margins that ship."""
    return compare(before, after, margins.load())


def suite_of(found: Comparison, fail_on: Collection[ChangeVerdict] = ()) -> ET.Element:
    """The comparison in JUnit's XML."""
    return ET.fromstring(to_junit([found], fail_on))[0]


def in_every_format(found: Comparison) -> dict[str, str]:
    """What the comparison says, on one line each."""
    shown = page([found], ended(ExitCode.MISSED))
    texts = {
        "text": to_text([found], ended(ExitCode.MISSED)),
        "markdown": to_markdown([found], ended(ExitCode.MISSED)),
        "junit": to_junit([found], ()).decode(),
        "page": " ".join(map(str, (*shown.reasons, *shown.sections[-1].summary, shown.cells.table.rows))),
    }
    return {name: " ".join(text.split()) for name, text in texts.items()}


@pytest.fixture
def mixed() -> Comparison:
    """A cell of every verdict, after a new driver."""
    before = side(*cells(3), cell("slow"), cell("noisy", 90.0, 100.0, 110.0), cell("hot"), cell("gone"))
    slow, noisy = cell("slow", 90.0, 90.2, 89.9), cell("noisy", 80.0, 92.0, 84.0)
    stack = {**STACK, "driver": "580.95"}
    found = compared(
        before, side(*cells(3, seed=2), slow, noisy, cell("hot", throttled=True), name="after", stack=stack)
    )
    others = dict.fromkeys((ChangeVerdict.SLOWER, ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE), 1)
    assert found.counts == {ChangeVerdict.SAME: 3, **others}
    return found


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("@last~1", "@last~1 (20260401-213000-1f2e3d, node-01, 2026-04-01)"),
        ("before.json", "before.json (20260401-213000-1f2e3d, node-01, 2026-04-01)"),
        ("runs/20260401-213000-1f2e3d", "runs/20260401-213000-1f2e3d (node-01, 2026-04-01)"),
    ],
)
def test_every_format_names_both_runs_with_id_and_date(name: str, label: str) -> None:
    """Tomorrow @last is another run, and a file may be another one's."""
    later = "20260402-090000-aabbcc"
    found = compared(side(name=name), side(name="h", run_id=later, test_date="2026-04-02T09:00:00Z"))
    both = f"{label} -> h ({later}, node-01, 2026-04-02)"
    of_page = page([found], ended(ExitCode.PASSED)).facts[:2]
    for kind, shown in (in_every_format(found) | {"page": " -> ".join(value for _, value in of_page)}).items():
        said = {"markdown": escaped(both), "junit": both.replace(">", "&gt;")}.get(kind, both)
        assert said in shown, kind
    assert (found.before, found.runs_before, found.runs_after) == (name, ("20260401-213000-1f2e3d",), (later,))


def test_a_baseline_goes_by_its_name_and_names_its_runs_in_json() -> None:
    """It may be made of many."""
    found = compared(baseline(run_id="20260102-000000-000000, 20260101-000000-000000"), side())
    assert found.label_before == "base (node-01, 2026-04-01)"
    assert found.runs_before == ("20260101-000000-000000", "20260102-000000-000000")


def test_markdown_is_a_headline_and_what_changed(mixed: Comparison) -> None:
    """Cells that are the same are counted, not listed; of many that changed the first are listed."""
    text = to_markdown([mixed], ended(ExitCode.MISSED, regression=True))
    assert text.startswith("### REGRESSION: 1 SLOWER, 1 INCONCLUSIVE, ")
    shown = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "Cell |" not in line]
    assert [row[1].strip() for row in shown] == ["slow inference bf16 b8", "noisy inference bf16 b8"]
    assert {len(row) for row in shown} == {6}
    assert "3 SAME" in text
    many = to_markdown([compared(side(*cells(200)), side(*cells(200, speed=0.9, seed=2)))], ended(ExitCode.MISSED))
    listed = sum(line.startswith("| model-") for line in many.splitlines())
    assert f"{200 - listed} more rows" in many
    assert len(many.splitlines()) <= 42


@pytest.mark.parametrize(("rates", "lost"), [((80.0, 92.0, 84.0), True), ((210.0, 90.0, 150.0), False)])
def test_a_cell_that_gained_is_not_called_the_worst(rates: tuple[float, ...], *, lost: bool) -> None:
    """Neither cell has a verdict."""
    found = compared(side(cell("noisy", 90.0, 100.0, 110.0)), side(cell("noisy", *rates), name="after"))
    assert found.counts == {ChangeVerdict.INCONCLUSIVE: 1}
    assert (worst([found]) is not None) is lost


def test_junit_has_a_case_for_each_cell(mixed: Comparison) -> None:
    """What --fail-on names fails, what has no verdict is skipped."""
    suite = suite_of(mixed, {ChangeVerdict.SLOWER})
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "1", "3")
    outcomes = {str(case.get("name")).removesuffix(" inference bf16 b8"): case[0] for case in suite}
    assert {name: one.tag for name, one in outcomes.items()} == {
        **dict.fromkeys((f"model-{at}" for at in range(3)), "system-out"),
        **dict.fromkeys(("noisy", "hot", "gone"), "skipped"),
        "slow": "failure",
    }
    assert str(outcomes["slow"].get("message")).startswith("SLOWER, -10.0% (")
    strict = suite_of(mixed, {ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE})
    assert (strict.get("failures"), strict.get("skipped")) == ("3", "0")
    assert "gone inference bf16 b8" in {case.get("name") for case in strict if case.find("failure") is not None}


def test_junit_fails_no_cell_that_the_first_run_lacks() -> None:
    """As the exit code: what has no result in the first run cannot be lost."""
    before = side(cell("m"), cell("failed", status=Status.FAILED, values=()))
    suite = suite_of(compared(before, side(cell("m"), cell("failed"), name="after")), {ChangeVerdict.NOT_COMPARABLE})
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "1")


def test_names_cannot_steer_what_shows_them() -> None:
    """Markup, terminal escapes and marks of direction in a model, a host, a GPU, a file name."""
    before = side(cell(HOSTILE), cell(f"b{HOSTILE}"), name=HOSTILE, stack={"host": HOSTILE})
    slow, hot = cell(HOSTILE, 50.0, 50.1, 50.2), cell(f"b{HOSTILE}", throttled=True)
    found = compared(before, side(slow, hot, name="after", stack={"host": "b"}, devices=(device(label=HOSTILE),)))
    assert found.counts == {ChangeVerdict.SLOWER: 1, ChangeVerdict.NOT_COMPARABLE: 1}
    text, markdown, junit = (
        to_text([found], ended(ExitCode.MISSED)),
        to_markdown([found], ended(ExitCode.MISSED)),
        to_junit([found], ()),
    )
    for shown in (text, markdown, junit.decode()):
        assert not {"\x1b", "\u202e"} & {*shown}
    assert ("<script" in markdown, "\n# " in markdown) == (False, False)
    shown_rows = [line for line in markdown.splitlines() if line.startswith("| ") and "Cell |" not in line]
    assert [row.replace("\\|", "").count("|") for row in shown_rows] == [5]
    assert ET.fromstring(junit)[0][1].get("classname") == "<script>alert(1)</script>|`x` # [a](b) @all ]]> &"
    assert max(map(cell_len, text.splitlines())) <= WIDTH


def test_escaped_text_is_the_same_text() -> None:
    """A backslash before what steers, and nothing else."""
    assert escaped("resnet50 b8") == "resnet50 b8"
    assert escaped("a|b <c> @d http://x") == "a\\|b &lt;c> \\@d http\\://x"


def test_text_of_a_large_run_can_be_read() -> None:
    """The gravest cells, and how many more there are; where devices are several, each line names its own."""
    two = (device(0), device(1))
    both = [*cells(400), *(msgspec.structs.replace(one, gpu_uuid="GPU-1") for one in cells(400, seed=3))]
    text = to_text([compared(side(*both, devices=two), side(*both, devices=two))], ended(ExitCode.PASSED))
    listed = sum(line.startswith(("| GPU 0 model-", "| GPU 1 model-")) for line in text.splitlines())
    assert listed == MOST_ROWS
    assert f"... {len(both) - listed} more rows" in text


def test_modes_and_sizes_are_part_of_a_name_in_every_format() -> None:
    """A triage has each cell solo and loaded: each has a name of its own, wherever it stands."""
    both = [cell("a"), cell("a", mode="solo"), cell("b"), cell("b", input_size=512), cell("c")]
    found = compared(side(*both), side(*both))
    names = ["a inference bf16 b8 loaded", "a inference bf16 b8 solo", "b inference bf16 b8 input 224"]
    names += ["b inference bf16 b8 input 512", "c inference bf16 b8"]
    assert [one.cell for one in found.cells] == names
    assert [row[0] for row in rows(to_text([found], ended(ExitCode.PASSED)))[1:]] == names
    assert [case.get("name") for case in suite_of(found)] == names
    of_page = page([found], ended(ExitCode.PASSED)).cells.table
    columns = [column.title for column in of_page.columns]
    which = [columns.index(title) for title in ("Model", "Mode", "Input")]
    shown = {tuple(row[column] for column in which) for row in of_page.rows}
    assert {("a", "loaded", "224"), ("a", "solo", "224"), ("b", "loaded", "512")} <= shown


def test_long_names_are_not_cut_off_in_the_text() -> None:
    """On several GPUs, solo and loaded, and at two sizes: the part that differs comes last."""
    of_all = list(itertools.product((0, 1), ("solo", "loaded"), (224, 512)))
    both = [cell(gpu_uuid=f"GPU-{gpu}", mode=mode, input_size=size) for gpu, mode, size in of_all]
    two = (device(0), device(1))
    text = to_text([compared(side(*both, devices=two), side(*both, devices=two))], ended(ExitCode.PASSED))
    names = [f"GPU {gpu} resnet50 inference bf16 b8 {mode} input {size}" for gpu, mode, size in of_all]
    assert sorted(row[0] for row in rows(text)[1:]) == sorted(names)


def test_runs_with_nothing_in_common_have_no_table() -> None:
    """And no mean."""
    found = compared(side(cell("a")), side(cell("b"), name="after"))
    assert (found.cells, found.means) == ((), ())
    assert [
        "|" in shown
        for shown in (to_text([found], ended(ExitCode.INCOMPLETE)), to_markdown([found], ended(ExitCode.MISSED)))
    ] == [False, False]
    outcomes = [(case.get("name"), case[0].tag) for case in suite_of(found, {ChangeVerdict.NOT_COMPARABLE})]
    assert outcomes == [("a inference bf16 b8", "failure"), ("b inference bf16 b8", "skipped")]


def test_cells_of_only_one_run_are_named_in_every_format() -> None:
    """The first of them, with their device where there are several, and how many more; JSON and JUnit have all."""
    two = (device(0), device(1))
    both = [*cells(40), *(msgspec.structs.replace(one, gpu_uuid="GPU-1") for one in cells(40))]
    other = msgspec.structs.replace(device(0), gpu_name="NVIDIA H100")
    found = compared(side(*both, devices=two), side(*cells(40), name="after", devices=(other,)))
    shown = in_every_format(found)
    for name, more, named in (("text", 30, 10), ("markdown", 30, 10), ("page", 10, 10 + 30)):
        assert "40 cells of before" in shown[name]
        assert f"and {more} more" in shown[name]
        assert shown[name].count("GPU 1 model-") == named
    assert len(found.only_before) == 40
    assert sum(str(case.get("name")).startswith("GPU 1 model-") for case in suite_of(found)) == 40


def test_a_regression_without_telemetry_is_marked_in_every_format() -> None:
    """The reason is beside the verdict."""
    found = compared(side(cell(throttled=None)), side(cell("resnet50", 90.0, 90.1, 90.2)))
    (one,) = found.cells
    assert (one.verdict, "throttling" in one.reason) == (ChangeVerdict.SLOWER, True)
    assert [name for name, shown in in_every_format(found).items() if one.reason not in shown] == []


def test_cells_that_could_not_be_judged_follow_the_verdict_in_every_format(mixed: Comparison) -> None:
    """With their change, the slowest first, then what is missing; before the table of cells."""
    shown = in_every_format(mixed)
    for name, last in (("text", ("slow inference",)), ("markdown", ("slow inference",)), ("page", ())):
        order = ("noisy inference", "hot inference", "gone inference", *last)
        below = shown[name].find("Exit code ")  # beyond the worst cell
        places = [shown[name].find(words, max(below, 0)) for words in order]
        assert places == sorted(places), name
        assert min(places) > 0, name
    first = [str(case.get("name")).partition(" ")[0] for case in suite_of(mixed)][:2]
    assert first == ["noisy", "hot"]
    changes = {found.model_name: f"({wording.change(found)})" for found in mixed.cells}
    assert [changes[name] in shown["text"] for name in ("noisy", "hot")] == [True, True]


def test_what_would_decide_an_inconclusive_cell_is_the_next_step(mixed: Comparison) -> None:
    """The number of launches that the cell needs; another margin if no number suffices; nothing if all is decided."""
    [noisy] = [one for one in mixed.cells if one.verdict is ChangeVerdict.INCONCLUSIVE]
    steps = []
    for needed, beyond in ((7, False), (None, True), (None, False)):
        changed = replace(noisy, launches_needed=needed, needed_beyond=beyond)
        steps.append(wording.next_step([replace(mixed, cells=(changed,))]))
    assert ["--launches 7" in steps[0], "--threshold" in steps[1], f" gate {mixed.before}`" in steps[2]] == [True] * 3
    assert wording.next_step([compared(side(*cells(3)), side(*cells(3)))]) == ""
    end = ended(ExitCode.INCOMPLETE, step=steps[0])
    shown = (to_text([mixed], end), to_markdown([mixed], end), page([mixed], end).meaning)
    assert all("7" in words.partition("Next:")[2] for words in shown)


def test_what_is_probably_slower_has_a_heading_of_its_own() -> None:
    """It is judged, and comes before what is not."""
    slow = {"steady": False, "host_bound": True}
    before, after = [cell("lost", 100.0), cell("fine")], [cell("lost", 20.0, **slow), cell("fine", throttled=True)]
    probably, unjudged = wording.unjudged(compared(side(*before), side(*after)))
    assert ("lost" in probably, "fine" in probably) == (True, False)
    assert ("lost" in unjudged, "fine" in unjudged) == (False, True)


def test_all_cells_together_are_a_case_where_they_have_a_verdict() -> None:
    """No cell fails by itself, and the suite does."""
    before, after = ([cell(f"m{at}", rate) for at in range(30)] for rate in (100.0, 94.0))
    suite = suite_of(compared(side(*before), side(*after)), FAIL_ON)
    [failed] = [str(case.get("name")) for case in suite if case.find("failure") is not None]
    assert failed.startswith("inference, all ")
