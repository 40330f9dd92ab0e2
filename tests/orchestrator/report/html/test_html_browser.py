"""The page in a real browser: charts, tables, and no network access."""

import csv
import io
import re
import time
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from orchestrator.figures.comparisons import BaselineComparison
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.report.html import to_html
from orchestrator.report.numbers import number
from orchestrator.run_reports import report_reader, reporting
from orchestrator.stats.stragglers import SiblingVerdict
from protocol.cell import Workload
from tests.fakes.browser import SCROLLED_BY_KEYS, Browser
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.nvml import ROOT
from tests.fakes.pages import SLOW, standing, timeline
from tests.fakes.runs import FakeRun, gpus, shipped

THROUGHPUT = ("throughput-inference", "throughput-training", "throughput-generation")
CHARTS = (
    *THROUGHPUT,
    *("memory", "iterations", "batches", "siblings", "spread", "launches", "readings", "overhead", "score"),
)
SHAPES = (
    "return document.querySelectorAll(`#plot-${arguments[0]} svg :is(path, rect, circle, polygon, polyline)`).length"
)
BEYOND = """return [...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => one.textContent.trim().slice(0, 40))"""
HEADINGS = "return [...document.querySelectorAll('main h2')].map((one) => one.textContent)"
WIDTHS = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
COLUMN = """return [...document.querySelectorAll("#cells-table tbody tr:not([hidden], .remark)")]
    .map((row) => row.cells[arguments[0]].textContent)"""
REMARKS = """return [...document.querySelectorAll("#cells-table tbody tr.remark:not([hidden])")]
    .map((row) => row.textContent.trim())"""
SORT = "document.querySelectorAll('#cells-table th button')[arguments[0]].click()"
PHASE = 2
RESET = """document.getElementById("cells-filters").reset();
    document.getElementById("cells-words").dispatchEvent(new Event("input"))"""
HOSTILE = "</script><script>window.struck=1</script><!--<img src=x onerror=window.struck=1>\u2028${7*7}{{7*7}}"


@pytest.fixture(scope="module")
def whole(node: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything a benchmark can have, a baseline included."""
    ratios = {f"{model}_throughput": 4.0 * place - 9 for place, model in enumerate(("resnet50", "gpt2", "vae", "lstm"))}
    held = BaselineComparison(
        baseline="h200",
        baseline_gpu="NVIDIA H200",
        baseline_date="2026-11-01",
        improvement_percent={**ratios, "overall": -3.0},
        overall_score=97.0,
        cells=40,
        not_comparable={"another batch size ran": 2},
        note="",
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    verdicts = (SiblingVerdict.STRAGGLER if place == SLOW else SiblingVerdict.OK for place in range(4))
    judged = tuple(map(standing, node.gpu_info, verdicts))
    report = msgspec.structs.replace(node, baseline_comparison=held, stragglers=judged)
    path.write_bytes(to_html(report, timeline(node)))
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, whole: Path) -> tuple[list[str], list[str]]:
    """That page, loaded once: its complaints and requests."""
    browser.open(whole)
    return browser.complaints(), browser.requests()


@pytest.fixture
def page(browser: Browser, opened: tuple[list[str], list[str]], whole: Path) -> Browser:
    """That page in its initial state."""
    assert opened is not None
    if browser.driver.current_url != whole.as_uri():
        browser.open(whole)
    browser.emulate()
    browser.run(RESET)
    browser.complaints()
    return browser


def shown(page: Browser, column: int) -> list[str]:
    """The texts of a column in the visible rows."""
    found: list[str] = page.run(COLUMN, column)
    return found


def test_the_page_is_silent_and_fetches_nothing(opened: tuple[list[str], list[str]], whole: Path) -> None:
    """Nothing in the console, and no request but for the file itself."""
    assert opened == ([], [whole.as_uri()])


def test_every_chart_is_drawn(page: Browser) -> None:
    """Each has shapes of its own, whatever is chosen."""
    assert {chart: page.run(SHAPES, chart) > 8 for chart in CHARTS} == dict.fromkeys(CHARTS, True)
    assert page.run("return document.querySelectorAll('.plot').length") == len(CHARTS)
    for select in page.run("return [...document.querySelectorAll('select[data-chart]')]"):
        for place in range(min(3, len(select.find_elements("css selector", "option")))):
            chart = select.get_attribute("data-chart")
            page.run(
                "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))", select, place
            )
            assert page.run(SHAPES, chart) > 2, (chart, place)
    assert page.complaints() == []


def test_charts_are_accessible(page: Browser) -> None:
    """It has a name, a description for screen readers, and a table with the same data."""
    for chart in CHARTS:
        box = page.driver.find_element("id", f"plot-{chart}")
        assert box.get_attribute("role") == "img"
        assert len(box.get_attribute("aria-label") or "") > 40, chart
        figure = f"document.getElementById('plot-{chart}').closest('figure')"
        assert page.run(f"return {figure}.querySelectorAll('details table tbody tr').length") > 1, chart
        assert page.run(f"return document.getElementById({figure}.getAttribute('aria-labelledby')).textContent")
    for name in ("header", "nav", "main", "footer", "h1"):
        assert page.run("return document.querySelectorAll(arguments[0]).length", name) == 1, name
    unnamed = "return [...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
    assert (page.run(unnamed), page.run("return document.documentElement.lang")) == (0, "en")


def test_the_slow_gpu_stands_out(page: Browser) -> None:
    """Only its boxes in the heat map are framed."""
    marked = page.run(
        "const one = JSON.parse(document.getElementById('plots').textContent).spread.plots[0];"
        "return [...new Set(one.boxes.filter((box) => box.marked).map((box) => one.columns[box.column]))]"
    )
    assert marked == [f"GPU {SLOW}: STRAGGLER"]
    texts = page.run("return [...document.querySelectorAll('#plot-spread svg text')].map((one) => one.textContent)")
    frames = page.run("return document.querySelectorAll('#plot-spread svg path[stroke-width=\"2.5\"]').length")
    assert sum(text.startswith("▼") for text in texts) == frames > 30


HATCHED = """const one = JSON.parse(document.getElementById('plots').textContent).spread.plots[0];
    const paths = [...document.querySelectorAll('#plot-spread svg path[stroke-width="1.5"]')].length;
    return [one.boxes.filter((box) => box.hatched).length, paths, one.boxes.length]"""


def test_a_stored_report_has_a_roofline_and_hatched_boxes(browser: Browser, tmp_path: Path) -> None:
    """Of schema version 3: each box that cannot judge a GPU is hatched, and none is framed."""
    path = tmp_path / "stored.html"
    stored = report_reader.report(ROOT / "docs" / "measurements" / "h200-x2-main-job.json")
    path.write_bytes(to_html(stored, NOTHING_KEPT))
    browser.open(path)
    browser.until("return document.querySelector('#plot-spread svg path[stroke-width=\"1.5\"]')")
    hatched, paths, boxes = browser.run(HATCHED)
    assert 0 < hatched == paths < boxes
    assert browser.run("return document.querySelectorAll('#plot-spread svg path[stroke-width=\"2.5\"]').length") == 0
    assert browser.run(SHAPES, "roofline") > 12
    assert browser.complaints() == []


PAIRS = """return [...document.querySelectorAll("#cells-table tbody tr.remark:not([hidden])")]
    .map((row) => [row.previousElementSibling.innerText, row.textContent.trim()])"""
BOXES = """const box = document.querySelector("#cells .scroll").getBoundingClientRect();
    return [...document.querySelectorAll("#cells-table .remark:not([hidden]) p")].map((one) => {
        const { left, right } = one.getBoundingClientRect();
        return left >= box.left && right <= box.right;
    })"""


def test_a_remark_goes_with_its_row_and_is_read_without_scrolling(page: Browser) -> None:
    """Below its row, however rows are sorted or scrolled, at any width."""
    page.driver.find_element("id", "cells-words").send_keys("failed")
    before = page.run(PAIRS)
    assert len(before) == 4
    page.run(SORT, 0)
    page.run(SORT, 0)
    after = page.run(PAIRS)
    assert (after != before, sorted(after)) == (True, sorted(before))
    page.driver.find_element("id", "cells-words").send_keys(" nothing such")
    assert page.run(PAIRS) == []
    page.run(RESET)
    assert sorted(page.run(PAIRS)) == sorted(before)
    page.run("document.querySelector('#cells .scroll').scrollLeft = 300")
    for width in (1400, 390):
        page.emulate(width=width)
        assert page.run(BOXES) == [True] * 4, width
    page.emulate()
    page.run("document.querySelector('#cells .scroll').scrollLeft = 0")


def test_the_table_of_cells_fits_a_desktop(browser: Browser, tmp_path: Path) -> None:
    """All columns of a real run, with power, energy and clocks."""
    stored = report_reader.report(ROOT / "docs" / "measurements" / "h200-x1-all-models.json")
    path = tmp_path / "stored.html"
    path.write_bytes(to_html(stored, NOTHING_KEPT))
    browser.open(path)
    browser.emulate(width=1400)
    beyond = "const box = document.querySelector('#cells .scroll'); return box.scrollWidth - box.clientWidth"
    assert browser.run("return document.querySelectorAll('#cells-table thead th').length") > 20
    assert browser.run(beyond) == 0
    browser.emulate()


def test_no_chapter_is_cut_off_above_the_page(page: Browser) -> None:
    """The bar shows all of them on a desktop, and fades on a phone."""
    beyond = """const edge = document.querySelector(".top .wide").getBoundingClientRect().right;
        const ends = [...document.querySelectorAll("nav a")].map((one) => one.getBoundingClientRect().right);
        return ends.filter((end) => end > edge).length"""
    for width in (1400, 800):
        page.emulate(width=width)
        assert page.run(beyond) == 0, width
    page.emulate(width=390)
    assert page.run(beyond) > 0
    assert page.run("return getComputedStyle(document.querySelector('nav')).maskImage").startswith("linear-gradient")
    page.emulate()


def test_one_cell_is_no_plural(browser: Browser, tmp_path: Path) -> None:
    """With scripts and without."""
    run = FakeRun(tmp_path / "run", batch_sizes=(8,))
    run.everything()
    path = tmp_path / "one.html"
    path.write_bytes(to_html(run.report(), NOTHING_KEPT))
    assert 'role="status">1 cell</p>' in path.read_text()
    browser.open(path)
    assert browser.driver.find_element("id", "cells-count").text == "1 cell"
    browser.driver.find_element("id", "cells-words").send_keys("nothing such")
    assert browser.driver.find_element("id", "cells-count").text == "0 of 1 cell"


def natural(name: str) -> list[tuple[int, str]]:
    """Words and numbers apart: resnet50 comes before resnet101."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def test_rows_are_sorted_by_a_heading(page: Browser) -> None:
    """By click or key, missing numbers last; the heading has aria-sort."""
    headings = page.driver.find_elements("css selector", "#cells-table th")
    figure = [one.text for one in headings].index("Figure")
    heading = headings[figure]
    page.run("arguments[0].querySelector('button').click()", heading)
    figures = shown(page, figure)
    values = [float(text) for text in figures if text != "N/A"]
    assert (values, len(values)) == (sorted(values), len(figures) - figures.count("N/A"))
    assert figures[-1] == "N/A" != figures[0]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert heading.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in shown(page, figure)[: len(values)]] == values[::-1]
    assert shown(page, figure)[-1] == "N/A"
    page.run(SORT, 1)
    assert shown(page, 1) == sorted(shown(page, 1), key=natural)
    assert heading.get_attribute("aria-sort") == "none"


def test_rows_are_narrowed_down(page: Browser) -> None:
    """By words and choices; the number of visible rows is shown."""
    count = len(shown(page, 0))
    page.driver.find_element("id", "cells-words").send_keys("resnet50 Train")
    assert {*shown(page, 1)} == {"resnet50"}
    assert {*shown(page, PHASE)} == {"training"}
    left = len(shown(page, 0))
    assert page.driver.find_element("id", "cells-count").text == f"{left} of {count} cells"
    page.driver.find_element("css selector", '#cells-filters select[data-column="0"]').send_keys("GPU 3")
    assert {*shown(page, 0)} == {"GPU 3"}
    assert len(shown(page, 0)) * 4 == left


def exported(page: Browser) -> list[list[str]]:
    """The rows of the file that the button saves."""
    page.run("document.getElementById('cells-export').click()")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for path in page.downloads.glob("*.csv"):
            text = path.read_text(encoding="utf-8")
            path.unlink()
            return list(csv.reader(io.StringIO(text)))
        time.sleep(0.05)
    raise AssertionError("nothing was saved")


def test_what_is_shown_is_exported(page: Browser) -> None:
    """Headings and visible rows, in their order."""
    page.driver.find_element("id", "cells-words").send_keys("failed")
    page.run(SORT, 1)
    header, *rows = exported(page)
    assert header[:3] == ["GPU", "Model", "Phase"]
    assert len(rows) == 4
    columns = [shown(page, column) for column in range(len(header) - 1)]
    assert [list(row[:-1]) for row in rows] == [list(row) for row in zip(*columns, strict=True)]
    assert [row[-1] for row in rows] == page.run(REMARKS)
    assert (header[-1], all(row[-1] for row in rows)) == ("Remarks", True)


def test_numbers_are_written_as_in_the_text_report(page: Browser) -> None:
    """Labels of charts have the same digits."""
    values = [0.0004, 0.1234, 0.994, 0.996, 1.005, 4.5678, 9.994, 9.996, 9.999, 10.04, 99.95, 4500.84, 1e9]
    values = [0.0, *values, *(-value for value in values)]
    assert page.run("return arguments[0].map(Charts.number)", values) == [number(value) for value in values]


def test_the_page_fits_phones_and_paper(page: Browser) -> None:
    """No overflow, nor of any table on a desktop; dark colours include charts; paper has no controls."""
    bodies = {}
    for name, look in {
        "light": {"width": 1400},
        "dark phone": {"width": 390, "scheme": "dark"},
        "print": {"media": "print"},
    }.items():
        page.emulate(**look)  # type: ignore[arg-type]  # its own keywords
        wide, room = page.run(WIDTHS)
        assert wide <= room, name
        if look.get("width") == 1400:
            assert page.run(BEYOND) == [], name
        bodies[name] = page.run("return getComputedStyle(document.body).backgroundColor")
        label = "return document.querySelector('#plot-throughput-inference svg text').getAttribute('fill')"
        bodies[f"{name} label"] = page.run(label)
    assert bodies["light"] != bodies["dark phone"] != bodies["print"]
    assert bodies["light label"] != bodies["dark phone label"]
    assert page.driver.find_element("css selector", "nav").is_displayed() is False
    page.emulate()
    assert page.complaints() == []


FIRST_SCREEN = """return ["#overview .badge", ".first", ".glance table", "#plot-siblings"]
    .map((one) => document.querySelector(one).getBoundingClientRect().bottom)"""


def test_the_answer_is_on_the_first_screen(page: Browser) -> None:
    """Verdict, worst finding, best configurations of all models, and the GPUs against each other."""
    page.emulate(width=1400)
    page.run("scrollTo(0, 0)")
    assert max(page.run(FIRST_SCREEN)) <= 900
    page.emulate()


PAPER = 688
"""Pixels between the margins of A4, the narrower of the usual papers."""
DRAWN = """return [...document.querySelectorAll(".plot svg")].map((one) => {
    const parts = [...one.querySelectorAll("text, path")].filter((part) => !part.closest("[clip-path]"));
    const edges = parts.map((part) => part.getBoundingClientRect().right);
    const { left, width, height } = one.getBoundingClientRect();
    return [Math.round(width), Math.round(left + width), Math.round(Math.max(...edges)), Math.round(height)];
})"""


def test_paper_has_every_chart_whole(page: Browser, whole: Path) -> None:
    """No chart exceeds A4; afterwards the screen is as before."""
    page.open(whole)
    before = WebDriverWait(page.driver, 60).until(lambda _: len(drawn := page.run(DRAWN)) == len(CHARTS) and drawn)
    page.run("addEventListener('beforeprint', () => { window.told = document.documentElement.dataset.print; })")
    assert page.printed()[:5] == b"%PDF-"
    assert page.run("return window.told") == ""
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.emulate(media="print", width=PAPER)
    drawn = page.run(DRAWN)
    wide, room = page.run(WIDTHS)
    page.emulate()
    page.run("dispatchEvent(new Event('afterprint'))")
    assert (len(drawn), wide) == (len(CHARTS), room)
    assert [one for one in drawn if not (600 < one[0] < room and max(one[1:3]) <= room and one[3] <= 810)] == []
    spread = drawn[page.run("return [...document.querySelectorAll('.plot')].map((one) => one.id)").index("plot-spread")]
    assert spread[2] > spread[1] - 10  # as wide as the paper, though it is high
    assert page.run(DRAWN) == before
    assert page.complaints() == []


def test_rows_of_a_chart_are_told_apart_on_a_phone(page: Browser) -> None:
    """Full names of cells beside the heat map, and of every GPU above it."""
    page.emulate(width=375)
    texts = page.run("return [...document.querySelectorAll('#plot-spread svg text')].map((one) => one.textContent)")
    plot = page.run("return JSON.parse(document.getElementById('plots').textContent).spread.plots[0]")
    names = plot["rows"]
    page.emulate()
    written = "".join("".join(texts).split())
    assert max(map(len, names)) > 23
    assert [name for name in (*names, *plot["columns"]) if name.replace(" ", "") not in written] == []


def test_no_table_is_longer_than_the_window(page: Browser) -> None:
    """Long tables scroll in place; paper has all rows."""
    heights = "return [...document.querySelectorAll('.scroll')].map((one) => [one.clientHeight, one.scrollHeight])"
    tall = page.run("return innerHeight")
    assert max(shown for shown, _ in page.run(heights)) <= 0.75 * tall
    assert max(whole for _, whole in page.run(heights)) > tall
    page.emulate(media="print")
    assert all(shown == whole for shown, whole in page.run(heights))
    page.emulate()


def test_the_keyboard_reaches_the_report_first(page: Browser, whole: Path) -> None:
    """The first key focuses a skip link; scroll areas can be focused."""
    page.open(whole)
    page.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    link = page.driver.switch_to.active_element
    link.send_keys(Keys.ENTER)
    assert page.driver.switch_to.active_element.get_attribute("id") == "main"
    assert page.run(SCROLLED_BY_KEYS) is True


def test_foreign_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """Markup in hosts, models and messages is shown, never run."""
    run = FakeRun(tmp_path / "run", devices=gpus(2), models=shipped("resnet50", "lstm"), hostname=HOSTILE)
    run.everything()
    run.finish()
    report = run.report()
    results, cells = (
        tuple(msgspec.structs.replace(one, model_name=f"{one.model_name}{HOSTILE}") for one in several)
        for several in (report.results, report.cells)
    )
    hostile = msgspec.structs.replace(
        report,
        results=results,
        cells=cells,
        gpu_info=tuple(msgspec.structs.replace(one, gpu_name=HOSTILE) for one in report.gpu_info),
        verdict=msgspec.structs.replace(report.verdict, reasons=(HOSTILE,)),
    )
    path = tmp_path / "hostile.html"
    path.write_bytes(to_html(hostile, reporting.make_all(run.paths).timeline))
    browser.open(path)
    shown_as = HOSTILE.replace("\u2028", " ")
    assert shown_as in browser.run("return document.querySelector('.reasons').textContent")
    assert shown_as in browser.run("return document.querySelector('h1').textContent")
    assert any(shown_as in text for text in shown(browser, 1))
    assert browser.run("return [window.struck, document.images.length, document.scripts.length]") == [None, 0, 9]
    assert browser.run(SHAPES, "throughput-inference") > 4
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]


def test_injected_scripts_do_not_run(page: Browser) -> None:
    """The page's policy blocks injected scripts and requests."""
    page.run(
        "const script = document.createElement('script'); script.textContent = 'window.struck = 1';"
        "document.body.append(script); const image = new Image(); image.src = 'https://example.invalid/x.png';"
        "document.body.append(image)"
    )
    assert page.run("return window.struck") is None
    refused = page.complaints()
    deadline = time.monotonic() + 20
    while len(refused) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        refused += page.complaints()
    assert ["Content Security Policy" in line for line in refused] == [True, True]


def test_a_burn_in_has_a_page_of_its_own(browser: Browser, tmp_path: Path) -> None:
    """Verdicts first, then launches and readings."""
    burn_in_run = FakeBurnIn(tmp_path / "burn-in", gpus(2), "10m")
    burn_in_run.work()
    burn_in_run.climate(0)
    burn_in_run.climate(1)
    burn_in_run.well()
    burn_in_run.finish()
    path = tmp_path / "burn-in.html"
    path.write_bytes(to_html(*reporting.make_all(burn_in_run.paths)[:2], BURN_IN.layout))
    browser.open(path)
    assert browser.run(HEADINGS)[0] == "Burn-in"
    assert browser.printed()[:5] == b"%PDF-"
    assert (browser.run(SHAPES, "launches") > 20, browser.run(SHAPES, "readings") > 8) == (True, True)
    assert browser.complaints() == []


def test_a_run_without_results_has_no_charts(browser: Browser, tmp_path: Path) -> None:
    """Nor chapters that would have them; what the run lacks is its worst finding."""
    run = FakeRun(tmp_path / "run", workloads=(Workload.INFERENCE,), batch_sizes=(1,))
    run.finish(interrupted=True)
    path = tmp_path / "empty.html"
    report = run.report()
    path.write_bytes(to_html(report, NOTHING_KEPT))
    browser.open(path)
    assert browser.run("return document.querySelectorAll('.plot, figure').length") == 0
    assert (
        browser.run("return document.querySelector('.first strong').textContent") == report.verdict.reasons[0].strip()
    )
    assert browser.complaints() == []
