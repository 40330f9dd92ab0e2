"""The page of trends in a real browser: every chart drawn with its marks, the figures as tables, and silence."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.keys import Keys

from orchestrator.config import margins
from orchestrator.history import queries, store, trend
from orchestrator.history.as_html import MOST_POINTS, MOST_SERIES, page, to_html
from orchestrator.history.records import RunRecord
from orchestrator.history.trend import Trend
from orchestrator.report.charts.types import OverRuns
from orchestrator.report.sections import MOST_CELLS
from tests.fakes import sides
from tests.fakes.browser import SCROLLED_BY_KEYS, Browser
from tests.fakes.histories import kept, record, run_id

HOSTILE = "</script><script>window.struck=1</script><!--<img src=x onerror=window.struck=1>\u2028${7*7}{{7*7}}"
SHOWN_AS = HOSTILE.replace("\u2028", " ")
MOST_BYTES = 3_000_000
OTHER = "GPU-99999999-1111-2222-3333-444455556666"
ASKED = {"Model": "resnet50"}
CHANGE, STACK, THROTTLED = 7, 10, 5
"""The runs of the day on which the level changed, on which the driver did too, and which was throttled."""
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())"
ROWS = "return [...document.querySelectorAll(arguments[0])].map((row) => [...row.cells].map((one) => one.textContent))"
SHAPES = "return document.querySelectorAll(`#plot-${arguments[0]} svg :is(path, circle, polygon)`).length"
SERIES = """return echarts.getInstanceByDom(document.getElementById(arguments[0])).getOption().series
    .map((one) => [one.name, one.data.filter((at) => at[1] !== null).map((at) => at[0]),
        one.markLine ? one.markLine.data.map((at) => at.xAxis) : []])"""
TIP = """const chart = echarts.getInstanceByDom(document.getElementById("plot-trend-0"));
    const [x, y] = [chart.convertToPixel({ xAxisIndex: 0 }, arguments[0]), 150];
    chart.dispatchAction({ type: "showTip", x, y });
    return [...document.querySelector(".tip").children].map((one) => one.textContent)"""
"""As a pointer does that is above the run."""
CHOOSE = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"


def trends(folder: Path, records: Sequence[RunRecord]) -> tuple[Trend, ...]:
    """Those of a history of these runs."""
    with store.reading(kept(folder, records)) as connection:
        assert connection is not None
        return trend.trends(queries.points(connection, "resnet50"), margins.load())


def two_gpus(number: int) -> RunRecord:
    """A run of two GPUs: the second became 5 % slower on day 7, and got another driver on day 10."""
    stack = {**sides.STACK, "driver": "580.95"} if number >= STACK else sides.STACK
    other = sides.device(gpu_uuid=OTHER, label="GPU 1")
    slow = 95.0 if number >= CHANGE else 100.0
    if number == THROTTLED:
        second = record(number, 60.0, doubt="throttled", device=other, gpu_uuid=OTHER)
    else:
        second = record(number, slow + 0.1 * (number % 3), device=other, gpu_uuid=OTHER)
    first = record(number, 100.0 + 0.1 * (number % 2), stack=stack)
    wide = record(number, 4500.0, key=sides.cell(precision="fp32").key)
    return replace(first, devices=first.devices + second.devices, cells=wide.cells + first.cells + second.cells)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of twelve such runs."""
    folder = tmp_path_factory.mktemp("trend")
    path = folder / "trend.html"
    path.write_bytes(to_html(trends(folder, [two_gpus(number) for number in range(1, 13)]), ASKED))
    return path


@pytest.fixture
def opened(browser: Browser, whole: Path) -> Browser:
    """That page, loaded."""
    browser.open(whole)
    return browser


def test_a_trend_is_silent_and_fetches_nothing(opened: Browser, whole: Path) -> None:
    """Nothing stands in the console; a phone, a dark room and paper have room for it."""
    assert (opened.complaints(), opened.requests()) == ([], [whole.as_uri()])
    opened.emulate(width=375, scheme="dark")
    assert opened.run("return document.documentElement.scrollWidth") == 375
    assert opened.printed()[:5] == b"%PDF-"
    assert opened.complaints() == []


def test_what_changed_comes_first(opened: Browser) -> None:
    """How often, then each change with its run; changed cells are drawn before the others."""
    assert opened.run(TEXTS, "main :is(.word .badge, h1)") == ["1 CHANGE", "resnet50 over 12 runs"]
    [told] = opened.run(TEXTS, ".reasons li")
    assert re.match(rf"-5\.0 % .*2026-04-07 \(run {run_id(CHANGE)}\) .*throughput_samples_per_sec .*resnet50", told)
    assert told.endswith(OTHER)
    assert [title.split(" (")[0] for title in opened.run(TEXTS, ".chart h3")] == [
        "resnet50 inference bf16 b8",
        "resnet50 inference fp32 b8",
    ]


def test_every_chart_is_drawn_with_its_marks(opened: Browser) -> None:
    """Runs that count, those that do not, changes of the level and of the stack; each GPU when it is chosen."""
    for place in range(2):
        opened.until(f"{SHAPES} > 12", f"trend-{place}")
    box = "plot-trend-0"
    days, stack = list(range(12)), ["the stack changed", [STACK - 1], [STACK - 1]]
    counted = [day for day in days if day != THROTTLED - 1]
    assert opened.run(SERIES, box) == [
        ["a run", counted, []],
        ["not counted", [THROTTLED - 1], []],
        stack,
        ["the level changed", [CHANGE - 1], [CHANGE - 1]],
    ]
    assert {"-5.0 %", "2026-04-01"} < {*opened.run(TEXTS, f"#{box} svg text")}
    name, value, *said = opened.run(TIP, CHANGE - 1)
    assert (name, value) == (f"{run_id(CHANGE)}, 2026-04-07T21:30:00Z", "95.1, of 3 launches")
    assert ["-5.0 %" in words for words in said] == [True]
    assert opened.run(TIP, STACK - 1)[2:] == ["driver 570.86 -> 580.95"]
    assert opened.run(TIP, THROTTLED - 1)[1:] == ["60, of 3 launches", "not counted: throttled"]
    select = opened.driver.find_element("css selector", 'select[data-chart="trend-0"]')
    opened.run(CHOOSE, select, "1")
    assert opened.run(SERIES, box) == [["a run", days, []], stack]
    assert opened.complaints() == []


def test_a_trend_can_be_read_without_seeing_it(opened: Browser) -> None:
    """Below each chart a table of the same figures; names and labels; what scrolls is reached by keyboard."""
    for place, runs in ((0, 24), (1, 12)):
        box = opened.driver.find_element("id", f"plot-trend-{place}")
        assert box.get_attribute("role") == "img"
        assert "NVIDIA H200" in (box.get_attribute("aria-label") or "")
        rows = opened.run(ROWS, f"figure:has(#plot-trend-{place}) details tbody tr")
        assert len(rows) == runs
    rows = opened.run(ROWS, "figure:has(#plot-trend-0) details tbody tr")
    changed = [row for row in rows if row[5]]
    assert [(row[0], row[3], row[5]) for row in changed] == [(run_id(CHANGE), "95.1", "-5.0 %")]
    assert {row[6] for row in rows} == {"", "driver 570.86 -> 580.95", "not counted: throttled"}
    unnamed = "return [...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
    assert opened.run(unnamed) == 0
    assert opened.run(SCROLLED_BY_KEYS) is True
    opened.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    assert opened.driver.switch_to.active_element.text.startswith("Skip")


def test_foreign_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """GPUs, hosts, drivers and what was asked for may look like markup; nothing of it runs."""
    device = sides.device(gpu_uuid="GPU-1", gpu_name=HOSTILE)
    runs = [
        record(number, device=device, gpu_uuid="GPU-1", stack={"driver": HOSTILE if number > 2 else "1"}, doubt=HOSTILE)
        for number in range(1, 5)
    ]
    path = tmp_path / "hostile.html"
    path.write_bytes(to_html(trends(tmp_path, runs), {"Model": HOSTILE, "GPU": HOSTILE}))
    browser.open(path)
    for place in ("h1", ".facts", "#trends details", "#cells-table"):
        assert SHOWN_AS in browser.run("return document.querySelector(arguments[0]).textContent", place), place
    assert SHOWN_AS in "".join(browser.run(TIP, 2))
    assert browser.run("return [window.struck, document.images.length, document.scripts.length]") == [None, 0, 9]
    assert (browser.complaints(), browser.requests()) == ([], [path.as_uri()])


def test_one_run_is_drawn_too(browser: Browser, tmp_path: Path) -> None:
    """A single point, none that counts, zeros; and that nothing could be told is said."""
    runs = [record(1, 0.0, launches=()), record(2, 5.0, key=sides.cell(precision="fp32").key, doubt="throttled")]
    path = tmp_path / "one.html"
    path.write_bytes(to_html(trends(tmp_path, runs), ASKED))
    browser.open(path)
    assert browser.run(TEXTS, "main .word .badge") == ["NOT JUDGED"]
    [meaning], said = browser.run(TEXTS, ".meaning"), browser.run(TEXTS, "figcaption p")
    numbers = r"at least (\d+) "
    assert re.findall(numbers, meaning) == ["6"]  # for both series
    assert [re.findall(numbers, words) for words in said] == [["6"], ["6"]]
    for place in range(2):
        browser.until(f"{SHAPES} > 2", f"trend-{place}")
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("runs", "changed", "word"), [(12, True, "1 CHANGE"), (12, False, "NO CHANGE FOUND"), (5, False, "NOT JUDGED")]
)
def test_nothing_is_called_unchanged_that_nobody_could_tell(
    tmp_path: Path, runs: int, changed: bool, word: str
) -> None:
    """Twelve runs tell, five do not."""
    values = [95.0 if changed and number > 6 else 100.0 for number in range(1, runs + 1)]
    made = page(trends(tmp_path, [record(number, value) for number, value in enumerate(values, 1)]), ASKED)
    assert (made.verdict.text, made.title) == (word, f"{word}: resnet50 over {runs} runs")


def test_runs_of_one_day_have_their_times(tmp_path: Path) -> None:
    """A day stands for a run only where it had no other."""
    early = record(2, run_id="20260401-080000-1f2e3d", test_date="2026-04-01T08:00:00Z")
    for runs, began in (
        ([record(1), record(2)], ["2026-04-01", "2026-04-02"]),
        ([record(1), early], ["2026-04-01 08:00", "2026-04-01 21:30"]),
    ):
        [plot] = page(trends(tmp_path / began[1][-2:], runs), ASKED).sections[0].charts[0].plots
        assert isinstance(plot, OverRuns)
        assert [run.began for run in plot.runs] == began


def test_a_long_history_fits(tmp_path: Path) -> None:
    """Its page has what changed and as much else as it holds, and says what is missing, and where that is."""
    [one] = trends(tmp_path, [record(number, 95.0 if number > 6 else 100.0) for number in range(1, 13)])
    last = replace(one, points=one.points * 20)
    others = [replace(last, cell=f"resnet50 {number}", points=one.points[:6] * 40) for number in range(85)]
    made = page([*others, last], ASKED)
    [section] = made.sections
    assert len(section.charts) == MOST_SERIES
    assert section.charts[0].title.startswith("resnet50 inference")
    assert re.search("6 more series .*--format json", section.summary[-1])
    for chart in section.charts:
        [plot] = chart.plots
        assert isinstance(plot, OverRuns)
        table = section.table(chart.table)
        assert table is not None
        assert len(plot.runs) == len(table.rows) == MOST_POINTS // MOST_SERIES
        assert re.search(r"240 runs, .* 25; .*--format json\.", chart.says)
    assert table.rows[-1][0] == run_id(6)
    assert len(made.cells.table.rows) == MOST_CELLS
    assert made.cells.table.rows[0][6] == "-5.0"
    assert re.search(r"\d+ more .*--format json", made.cells.table.note)
    assert len(to_html([*others, last], ASKED)) < MOST_BYTES


def test_what_has_no_figure_in_the_runs_that_are_shown_is_not_drawn(tmp_path: Path) -> None:
    """An empty frame says nothing, neither of a device nor of a cell."""
    figures = [record(number, 100.0) for number in range(1, 4)]
    (one,) = trends(tmp_path, figures)
    gone = replace(one, points=tuple(replace(point, value=None) for point in one.points))
    for found, plots in (((gone,), []), ((one, replace(gone, gpu_uuid=OTHER)), [1])):
        (section,) = page(found, ASKED).sections
        assert [len(chart.plots) for chart in section.charts] == plots
