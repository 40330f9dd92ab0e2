"""Comparisons as text, Markdown and JUnit XML: all say the same, and no name can steer them."""

import xml.etree.ElementTree as ET

import msgspec
import pytest

from orchestrator.compare.as_html import page
from orchestrator.compare.as_junit import to_junit
from orchestrator.compare.as_markdown import escaped, to_markdown
from orchestrator.compare.as_text import to_text
from orchestrator.compare.comparison import Comparison, compare
from orchestrator.config import margins
from orchestrator.report import layout
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode
from tests.fakes.sides import STACK, baseline, cell, cells, device, side
from tests.fakes.tables import rows

HOSTILE = "<script>alert(1)</script>|`x`\x1b[31m\n# [a](b) @all ]]> & \u202e"


@pytest.fixture
def mixed() -> Comparison:
    """A cell of every verdict, after a new driver."""
    before = side(*cells(3), cell("slow"), cell("noisy", 90.0, 100.0, 110.0), cell("hot"), cell("gone"))
    after = side(
        *cells(3, seed=2),
        cell("slow", 90.0, 90.2, 89.9),
        cell("noisy", 95.0, 103.0, 99.0),
        cell("hot", throttled=True),
        name="after",
        stack={**STACK, "driver": "580.95"},
    )
    found = compare(before, after, margins.load())
    assert found.counts == {
        ChangeVerdict.SAME: 3,
        ChangeVerdict.SLOWER: 1,
        ChangeVerdict.INCONCLUSIVE: 1,
        ChangeVerdict.NOT_COMPARABLE: 1,
    }
    return found


def test_text_begins_with_what_changed_and_shows_what_matters_first(mixed: Comparison) -> None:
    """Within 80 columns; remarks below the table, the exit code last."""
    text = to_text([mixed], ExitCode.MISSED)
    lines = text.splitlines()
    assert lines[1] == "driver 570.86 -> 580.95"
    rows = [line.split("|")[-2].strip() for line in lines if line.startswith("| ")]
    assert rows == ["Verdict", "SLOWER", "INCONCLUSIVE", "SAME", "SAME", "SAME"]
    assert "NOT COMPARABLE: the second is throttled: hot inference bf16 b8" in text
    assert "launches a side would be needed" in text
    assert "1 cell of before was not measured in the other run: gone inference bf16 b8" in " ".join(text.split())
    assert "; 1 cell of before missing" in text
    assert "1 SLOWER, 1 INCONCLUSIVE, 3 SAME, 1 NOT COMPARABLE; geometric mean" in " ".join(lines)
    assert lines[-1].startswith("Exit code 1")
    assert max(map(layout.width, lines)) <= layout.WIDTH


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("@last~1", "@last~1 (20260401-213000-1f2e3d, 2026-04-01)"),
        ("before.json", "before.json (20260401-213000-1f2e3d, 2026-04-01)"),
        ("runs/20260401-213000-1f2e3d", "runs/20260401-213000-1f2e3d (2026-04-01)"),
    ],
)
def test_a_comparison_that_is_kept_says_of_which_runs_it_is(name: str, label: str) -> None:
    """Every format, with id and date: tomorrow @last is another run, and a file may be another one's."""
    later = "20260402-090000-aabbcc"
    found = compare(side(name=name), side(name="h", run_id=later, test_date="2026-04-02T09:00:00Z"), margins.load())
    both = f"{label} -> h ({later}, 2026-04-02)"
    assert both in " ".join(to_text([found], ExitCode.PASSED).split())
    assert f"Runs: {escaped(both)}." in to_markdown([found])
    assert (ET.fromstring(to_junit([found], ()))[0].get("name") or "").startswith(f"{both}: ")
    facts = page([found], ExitCode.PASSED).facts
    assert facts[:2] == (("First run", label), ("Second run", f"h ({later}, 2026-04-02)"))
    assert page([found], ExitCode.PASSED).reasons[0].startswith(both)
    assert (found.before, found.runs_before, found.runs_after) == (name, ("20260401-213000-1f2e3d",), (later,))


def test_a_baseline_goes_by_its_name_and_names_its_runs_in_json() -> None:
    """It may be made of many."""
    found = compare(baseline(run_id="20260102-000000-000000, 20260101-000000-000000"), side(), margins.load())
    assert found.label_before == "base (2026-04-01)"
    assert found.runs_before == ("20260101-000000-000000", "20260102-000000-000000")


def test_markdown_is_a_headline_and_what_changed(mixed: Comparison) -> None:
    """Cells that are the same are counted, not listed."""
    text = to_markdown([mixed])
    assert text.startswith("### driver 570.86 -> 580.95: 1 of 6 cells SLOWER\n")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "cell |" not in line]
    assert [row.split("|")[1].strip() for row in rows] == ["slow inference bf16 b8", "noisy inference bf16 b8"]
    assert all(row.count("|") == 7 for row in rows)
    assert "3 SAME" in text


def test_markdown_stays_short() -> None:
    """Of many cells that changed, the first are listed and the rest counted."""
    many = compare(side(*cells(200)), side(*cells(200, speed=0.9, seed=2)), margins.load())
    text = to_markdown([many])
    assert "| and 175 more | | | | | |" in text
    assert len(text.splitlines()) < 40


def test_junit_has_a_case_for_each_cell(mixed: Comparison) -> None:
    """What --fail-on names fails, what has no verdict is skipped."""
    suite = ET.fromstring(to_junit([mixed], {ChangeVerdict.SLOWER}))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "1", "3")
    outcomes = {case.get("name"): next(child.tag for child in case) for case in suite}
    assert outcomes["slow inference bf16 b8"] == "failure"
    assert {outcomes[f"{name} inference bf16 b8"] for name in ("noisy", "hot", "gone")} == {"skipped"}
    assert outcomes["model-0 inference bf16 b8"] == "system-out"
    message = next(case[0].get("message") for case in suite if case.get("name") == "slow inference bf16 b8")
    assert message is not None
    assert message.startswith("SLOWER, speed 0.900, 95 % interval")
    strict = ET.fromstring(to_junit([mixed], {ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE}))[0]
    assert (strict.get("failures"), strict.get("skipped")) == ("3", "0")
    assert strict.find("testcase[@name='gone inference bf16 b8']/failure[@message='not measured in after']") is not None


def test_names_cannot_steer_what_shows_them() -> None:
    """Markup, terminal escapes and marks of direction in a model, a host, a GPU, a file name."""
    before = side(cell(HOSTILE), cell(f"b{HOSTILE}"), name=HOSTILE, stack={"host": HOSTILE})
    after = side(
        cell(HOSTILE, 50.0, 50.1, 50.2),
        cell(f"b{HOSTILE}", throttled=True),
        name="after",
        stack={"host": "b"},
        devices=(device(label=HOSTILE),),
    )
    found = compare(before, after, margins.load())
    assert found.counts == {ChangeVerdict.SLOWER: 1, ChangeVerdict.NOT_COMPARABLE: 1}
    text, markdown, junit = to_text([found], ExitCode.MISSED), to_markdown([found]), to_junit([found], ())
    for shown in (text, markdown, junit.decode()):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "<script" not in markdown
    assert "\n# " not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| ") and "cell |" not in line]
    assert [row.replace("\\|", "").count("|") for row in rows] == [7]
    assert ET.fromstring(junit)[0][0].get("classname") == "<script>alert(1)</script>|`x` # [a](b) @all ]]> &"
    assert max(map(layout.width, text.splitlines())) <= layout.WIDTH


def test_escaped_text_is_the_same_text() -> None:
    """A backslash before what steers, and nothing else."""
    assert escaped("resnet50 b8") == "resnet50 b8"
    assert escaped("a|b <c> @d http://x") == "a\\|b &lt;c> \\@d http\\://x"


def test_text_of_a_large_run_can_be_read() -> None:
    """The gravest cells, and how many more there are; where devices are several, each line names its own."""
    two = (device(0), device(1))
    both = [*cells(400), *(msgspec.structs.replace(one, gpu_uuid="GPU-1") for one in cells(400, seed=3))]
    found = compare(side(*both, devices=two), side(*both, devices=two), margins.load())
    lines = to_text([found], ExitCode.PASSED).splitlines()
    assert "... and 500 more, which --format json has" in lines
    assert sum(line.startswith(("| GPU 0 model-", "| GPU 1 model-")) for line in lines) == 300


def test_modes_and_sizes_are_told_apart_in_every_format() -> None:
    """A triage has each cell solo and loaded: each has a name of its own, wherever it stands."""
    both = [cell("a"), cell("a", mode="solo"), cell("b"), cell("b", input_size=512), cell("c")]
    found = compare(side(*both), side(*both), margins.load())
    names = ["a inference bf16 b8 loaded", "a inference bf16 b8 solo", "b inference bf16 b8 input 224"]
    names += ["b inference bf16 b8 input 512", "c inference bf16 b8"]
    assert [one.cell for one in found.cells] == names
    text = to_text([found], ExitCode.PASSED)
    assert all(f"| {name} " in text for name in names)
    assert [case.get("name") for case in ET.fromstring(to_junit([found], ()))[0]] == names
    of_page = page([found], ExitCode.PASSED).cells.table
    columns = [column.title for column in of_page.columns]
    which = [columns.index(title) for title in ("Model", "Mode", "Input")]
    shown = {tuple(row[column] for column in which) for row in of_page.rows}
    assert {("a", "loaded", "224"), ("a", "solo", "224"), ("b", "loaded", "512")} <= shown


def test_long_names_are_told_apart_in_the_text() -> None:
    """On several GPUs, solo and loaded, and at two sizes: the part that differs comes last, and is not cut off."""
    both = [
        cell("resnet50", gpu_uuid=gpu, mode=mode, input_size=size)
        for gpu in ("GPU-0", "GPU-1")
        for mode in ("solo", "loaded")
        for size in (224, 512)
    ]
    two = (device(0), device(1))
    found = compare(side(*both, devices=two), side(*both, devices=two), margins.load())
    shown = [row[0] for row in rows(to_text([found], ExitCode.PASSED))[1:]]
    assert sorted(shown) == sorted(
        f"GPU {gpu} resnet50 inference bf16 b8 {mode} input {size}"
        for gpu in (0, 1)
        for mode in ("solo", "loaded")
        for size in (224, 512)
    )


def test_nothing_in_common_is_said() -> None:
    """No table, and no mean."""
    found = compare(side(cell("a")), side(cell("b"), name="after"), margins.load())
    text = to_text([found], ExitCode.INCOMPLETE)
    assert "no cell was measured in both" in text
    assert "|" not in text
    assert "nothing compares" in to_markdown([found])
    suite = ET.fromstring(to_junit([found], {ChangeVerdict.NOT_COMPARABLE}))[0]
    assert [(case.get("name"), case[0].tag, case[0].get("message")) for case in suite] == [
        ("a inference bf16 b8", "failure", "not measured in after"),
        ("b inference bf16 b8", "skipped", "not measured in before"),
    ]


def test_cells_of_one_run_alone_are_named_in_every_format() -> None:
    """The first of them, with their device where there are several, and how many more; JSON and JUnit have all."""
    two = (device(0), device(1))
    both = [*cells(40), *(msgspec.structs.replace(one, gpu_uuid="GPU-1") for one in cells(40))]
    other = msgspec.structs.replace(device(0), gpu_name="NVIDIA H100")
    after = side(*cells(40), name="after", devices=(other,))
    found = compare(side(*both, devices=two), after, margins.load())
    sentence = "40 cells of before were not measured in the other run: GPU 1 model-0 inference bf16 b8, "
    for shown, more in (
        (to_text([found], ExitCode.PASSED), "and 30 more"),
        (to_markdown([found]), "and 30 more"),
        (page([found], ExitCode.PASSED).sections[-1].words[0], "and 10 more"),
    ):
        line = " ".join(shown.split())
        assert sentence in line
        assert line.count("GPU 1 model-") == 40 - int(more.split()[1])
        assert more in line
    assert len(msgspec.json.decode(msgspec.json.encode(found))["only_before"]) == 40
    cases = [str(case.get("name")) for case in ET.fromstring(to_junit([found], ()))[0]]
    assert sum(name.startswith("GPU 1 model-") for name in cases) == 40


def test_a_regression_that_nobody_watched_says_so() -> None:
    """In every format, beside the verdict."""
    found = compare(side(cell(throttled=None)), side(cell("resnet50", 90.0, 90.1, 90.2)), margins.load())
    words = "whether the first was throttled is not known"
    assert f"SLOWER: {words}: resnet50 inference bf16 b8" in " ".join(to_text([found], ExitCode.MISSED).split())
    assert f"SLOWER ({words})" in to_markdown([found])
    assert words in to_junit([found], ()).decode()
    assert words in str(page([found], ExitCode.MISSED).cells.table.rows)
