"""The page of a comparison in a real browser, with the scripts of the report."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.compare import wording
from orchestrator.compare.as_html import MOST_DRAWN, MOST_NAMES, page, to_html
from orchestrator.compare.chapters import ended
from orchestrator.compare.comparison import Comparison, compare
from orchestrator.config import margins
from orchestrator.report.sections import MOST_CELLS, MOST_ROWS, shortened
from protocol.exit_codes import ExitCode
from tests.fakes.browser import Browser
from tests.fakes.sides import STACK, cell, cells, device, side

HOSTILE = "</script><script>window.struck=1</script><!--<img src=x onerror=window.struck=1>\u2028${7*7}{{7*7}}"
SHOWN_AS = HOSTILE.replace("\u2028", " ")
MOST_BYTES = 3_000_000
COLUMNS = "return [...document.querySelectorAll('#cells-table th')].map((one) => one.textContent.trim())"
COLUMN = """return [...document.querySelectorAll("#cells-table tbody tr:not([hidden], .remark)")]
    .map((row) => row.cells[arguments[0]].textContent)"""
CHOOSE = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
DRAWN = """const box = document.getElementById("plot-ratios");
    const at = echarts.getInstanceByDom(box).convertToPixel({ xAxisIndex: 0 }, arguments[0]);
    return [...box.querySelectorAll("svg path")].filter((one) => {
        const [{ left, right }, { left: from }] = [one.getBoundingClientRect(), box.getBoundingClientRect()];
        return one.getAttribute("fill") === arguments[1] && Math.abs((left + right) / 2 - from - at) < 1;
    }).length"""
EXTENT = """return echarts.getInstanceByDom(document.getElementById("plot-ratios"))
    .getModel().getComponent("xAxis").axis.scale.getExtent()"""
COLOR = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
TIP = """echarts.getInstanceByDom(document.getElementById("plot-ratios"))
    .dispatchAction({ type: "showTip", seriesIndex: arguments[0], dataIndex: 0 });
    return document.querySelector(".tip").textContent"""


def held(*, slow: float = 0.9, name: str = "after") -> Comparison:
    """Cells of every verdict, one with a single launch and one with an endless interval, after a new driver."""
    before = side(
        *cells(3), cell("slow"), cell("fast"), cell("noisy", 40.0, 100.0, 250.0), cell("hot"), cell("gone"), cell("one")
    )
    after = side(
        *cells(3, seed=2),
        cell("slow", *(slow * value for value in (100.0, 100.2, 99.9))),
        cell("fast", 106.0, 106.2, 105.9),
        cell("noisy", 260.0, 90.0, 41.0),
        cell("hot", throttled=True),
        cell("one", 99.0),
        name=name,
        stack={**STACK, "driver": "580.95"},
    )
    return compare(before, after, margins.load())


@pytest.fixture(scope="module")
def mixed() -> Comparison:
    """That comparison."""
    return held()


@pytest.fixture(scope="module")
def whole(mixed: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    path = tmp_path_factory.mktemp("page") / "comparison.html"
    path.write_bytes(to_html([mixed], ended(ExitCode.MISSED)))
    return path


@pytest.fixture
def opened(browser: Browser, whole: Path) -> Browser:
    """That page, loaded."""
    browser.open(whole)
    return browser


def column(browser: Browser, title: str) -> list[str]:
    """The texts of a column in the visible rows."""
    found: list[str] = browser.run(COLUMN, browser.run(COLUMNS).index(title))
    return found


def test_a_comparison_is_silent_and_fetches_nothing(opened: Browser, whole: Path) -> None:
    """Also on a phone, without overflow."""
    assert (opened.complaints(), opened.requests()) == ([], [whole.as_uri()])
    opened.emulate(width=375, scheme="dark")
    assert opened.run("return document.documentElement.scrollWidth") == 375
    assert opened.complaints() == []


def test_the_chart_has_every_ratio_on_its_margin(opened: Browser, mixed: Comparison) -> None:
    """In the colour of its verdict; an interval beyond the chart has no ends."""
    for one in mixed.cells:
        if one.ratio is None or one.low is None:
            continue
        tone = {
            "SLOWER": "--bad",
            "FASTER": "--good",
            "SAME": "--muted",
            "INCONCLUSIVE": "--warn",
            "NO CHANGE SEEN": "--muted",
        }[one.verdict]
        assert opened.run(DRAWN, one.ratio, opened.run(COLOR, tone)) >= 1, one.cell
    band = opened.run(DRAWN, (0.99 + 1 / 0.99) / 2, opened.run(COLOR, "--line"))
    assert band == sum(one.low is not None for one in mixed.cells)
    ends = "return [...document.querySelectorAll('#plot-ratios svg path[stroke-width=\"1.8\"]')].length"
    (noisy,) = (one for one in mixed.cells if one.model_name == "noisy")
    assert noisy.low is not None
    assert noisy.low < 0.5
    left, right = opened.run(EXTENT)
    assert noisy.low < left
    rows = [(one.low, one.high) for one in (*mixed.cells, *mixed.means)]
    shown = [1 + (low >= left) + (high <= right) for low, high in rows if low is not None and high is not None]
    assert (opened.run(ends), min(shown)) == (sum(shown), 1)
    assert opened.complaints() == []


def test_the_chart_is_accessible(opened: Browser, mixed: Comparison) -> None:
    """By name, description, and a table with the digits of the text."""
    box = opened.driver.find_element("id", "plot-ratios")
    assert box.get_attribute("role") == "img"
    assert len(box.get_attribute("aria-label") or "") > 40
    rows = opened.run(
        "return [...document.querySelectorAll('#speed details tbody tr')]"
        ".map((row) => [...row.cells].map((one) => one.textContent))"
    )
    shown = [one for one in wording.ordered(mixed.cells) if one.low is not None]
    told = [[one.cell, wording.change(one), wording.interval(one), "1.00", one.verdict] for one in shown]
    assert rows[0][0] == "geometric mean, inference"
    assert rows[1:] == told
    for name in ("header", "nav", "main", "footer", "h1"):
        assert opened.run("return document.querySelectorAll(arguments[0]).length", name) == 1, name
    unnamed = "return [...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
    assert opened.run(unnamed) == 0


WORST = (
    "return [document.querySelector('.verdict .badge'), ...document.querySelectorAll('.first .badge, .first strong')]"
)


def test_the_worst_cell_follows_the_verdict(opened: Browser) -> None:
    """Before anything else; then the speed of each cell. The table of cells fits the window."""
    verdict, badge, cell_of = (one.text for one in opened.run(WORST))
    assert (verdict, badge, "slow" in cell_of.split(), "-10.0%" in cell_of) == ("FAILED", "SLOWER", True, True)
    assert opened.run("return document.querySelector('main h2').id") == "speed-heading"
    opened.emulate(width=1400)
    fits = "const one = document.querySelector('#cells .scroll'); return one.scrollWidth - one.clientWidth"
    assert opened.run(fits) == 0


def test_a_comparison_without_a_loss_has_no_worst_cell() -> None:
    """All cells are the same, or faster."""
    same = compare(side(*cells(3)), side(*cells(3, seed=2), name="after"), margins.load())
    assert page([same], ended(ExitCode.PASSED)).findings == ()


def test_several_runs_are_chosen_between(browser: Browser, mixed: Comparison, tmp_path: Path) -> None:
    """Each has a card and a plot; the table has a filter by run; notes appear once."""
    path = tmp_path / "several.html"
    path.write_bytes(to_html([mixed, held(slow=0.8, name="later")], ended(ExitCode.MISSED)))
    browser.open(path)
    assert browser.run("return document.querySelector('h1').textContent") == "2 runs against before"
    bad = browser.run(COLOR, "--bad")
    assert (browser.run(DRAWN, 0.9003, bad), browser.run(DRAWN, 0.8003, bad)) == (1, 0)
    browser.run(CHOOSE, browser.driver.find_element("css selector", 'select[data-chart="ratios"]'), "1")
    assert (browser.run(DRAWN, 0.9003, bad), browser.run(DRAWN, 0.8003, bad)) == (0, 1)
    assert {*column(browser, "Second run")} == {"after", "later"}
    browser.run(CHOOSE, browser.driver.find_element("css selector", 'select[data-column="0"]'), "later")
    assert {*column(browser, "Second run")} == {"later"}
    assert browser.run("return document.querySelectorAll('.notice').length") == len({*mixed.notes})
    assert browser.complaints() == []


def test_foreign_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """Markup in models, hosts, GPUs and files is shown, never run."""
    before = side(cell(HOSTILE), cell(f"b{HOSTILE}"), name=HOSTILE, stack={"host": HOSTILE})
    after = side(
        cell(HOSTILE, 50.0, 50.1, 50.2),
        cell(f"b{HOSTILE}", throttled=True),
        name=f"after{HOSTILE}",
        stack={"host": "b", HOSTILE: HOSTILE},
        devices=(device(label=HOSTILE),),
    )
    path = tmp_path / "hostile.html"
    path.write_bytes(to_html([compare(before, after, margins.load())], ended(ExitCode.MISSED)))
    browser.open(path)
    for place in (".first", ".reasons", "#changes", "#apart", "#speed details", "#cells-table"):
        assert SHOWN_AS in browser.run("return document.querySelector(arguments[0]).textContent", place), place
    assert [SHOWN_AS in browser.run(TIP, series) for series in range(2)] == [False, True]
    assert browser.run("return [window.struck, document.images.length, document.scripts.length]") == [None, 0, 9]
    assert (browser.complaints(), browser.requests()) == ([], [path.as_uri()])


def test_a_huge_comparison_fits(mixed: Comparison) -> None:
    """The most important cells are shown, with the number of missing ones."""
    same = next(one for one in mixed.cells if one.verdict == "SAME")
    copies = tuple(msgspec.structs.replace(same, cell=f"{same.cell} {number}") for number in range(2_000))
    hot = next(one for one in mixed.cells if one.verdict == "NOT COMPARABLE")
    huge = msgspec.structs.replace(mixed, cells=(*copies, *((hot,) * 100), *mixed.cells))
    made = page([huge, huge], ended(ExitCode.MISSED))
    assert len(made.cells.table.rows) == MOST_CELLS
    assert [row[made.cells.filters[-1][0]].text for row in made.cells.table.rows[:2]] == ["SLOWER"] * 2  # type: ignore[union-attr]  # these are badges
    assert re.search(r"\d more cells .*--format json", made.cells.table.note)
    chart = made.sections[0].charts[0]
    table = made.sections[0].table(chart.table)
    assert table is not None
    assert len(chart.plots[0].rows) == MOST_DRAWN + 1  # type: ignore[union-attr]  # rows of ratios
    assert f" first {MOST_DRAWN} cells" in table.note
    assert re.search(r"\d more rows .*--format json\.$", shortened(table, MOST_ROWS).note)
    (facts,) = made.sections[2].tables
    (which,) = {str(row[-1]) for row in facts.rows if str(row[-1]).startswith(hot.cell)}
    assert which.endswith(f"and {101 - MOST_NAMES} more")
    assert len(to_html([huge, huge], ended(ExitCode.MISSED))) < MOST_BYTES
