"""text.py, markdown.py, html/: one small tree of sections in each format."""

import re

from orchestrator.report import markdown, text
from orchestrator.report.charts.types import Bars, Kind, Series
from orchestrator.report.html.render import Page, bound
from orchestrator.report.sections import (
    Badge,
    Card,
    Cells,
    Chart,
    Column,
    Finding,
    Log,
    Rank,
    Section,
    Table,
    Tone,
    numbers,
    table,
    texts,
)
from orchestrator.report.text import _MORE

FIGURES = table(
    "Rates <each> model",
    (*texts("Model"), *numbers("Rate"), Column("Why", priority=1, listed=True)),
    [("a|b", Badge("1.5 GB/s", Tone.GOOD), "x" * 70), ("c", "2.5 GB/s", "")],
    "Medians.",
    name="rates",
)
UNFRAMED = Table("", (*texts("Cell"), *numbers("GPU 0", "GPU 1")), (("first cell", ".", "80.0"),), framed=False)
CHART = Chart("rates", "Rates", Kind.BARS, "Says.", (Bars("x", "GB/s", ("a",), (Series("s", (1.5,)),)),), "rates")
TREE = Section(
    "tree",
    "A chapter",
    ("Know this first.",),
    (CHART,),
    (FIGURES, UNFRAMED),
    (
        Finding(Badge("failed", Tone.BAD), "GPU 0", ("one",), ("two",), (Log("stderr", ("l1", "l2")),), opened=True),
        Finding(None, "Folded", ("first", "second", "3rd"), ("hidden",), listed=True, most=2),
        Finding(None, "Not in text", ("line",), label="checked"),
    ),
    (Section("part", "A part", ("of it",)),),
    ("Last.",),
)
TEXT = f"""\
--------------------------------------------------------------------------------
                                   A chapter
--------------------------------------------------------------------------------

Know this first.
Rates <each> model:
+-------+----------+
| Model | Rate     |
+-------+----------+
| a|b   | 1.5 GB/s |
| c     | 2.5 GB/s |
+-------+----------+
  - a|b: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
Medians.

Cell       GPU 0 GPU 1
first cell     .  80.0

A part
  of it

Failed: GPU 0
  one
  two
  stderr:
    l1
    l2
Folded
  - first
  - second
  - {_MORE.format(1)}
checked: line
Last.
"""
MARKDOWN = f"""\
## A chapter

Know this first.

Rates &lt;each> model:

| Model | Rate | Why |
|---|---|---|
| a\\|b | 1.5 GB/s | {"x" * 70} |
| c | 2.5 GB/s |  |

Medians.

| Cell | GPU 0 | GPU 1 |
|---|---|---|
| first cell | . | 80.0 |

A part

of it

- failed: GPU 0. one; two
- Folded. first; second; 3rd
- checked: line

Last.
"""


def test_text_drops_columns_and_details() -> None:
    """Columns by priority, details of unopened findings, titles of labelled ones, charts."""
    assert "\n".join(text.lines(TREE)) == TEXT


def test_markdown_has_every_column() -> None:
    """And the details of opened findings."""
    assert "\n".join(markdown.lines(TREE, "##")) == MARKDOWN


def test_html_has_a_chart_with_its_table() -> None:
    """A table stands once, below its chart or by itself."""
    cells = Cells(Table("All", texts("A"), (("1",),)), (0,), (1,))
    page = Page(
        title="t",
        heading="h",
        verdict=Badge("PASS", Tone.GOOD),
        meaning="m",
        reasons=(),
        notices=(),
        elsewhere="report.json",
        facts_title="f",
        facts=(),
        cards=(Card("c", "1"),),
        sections=(TREE,),
        cells=cells,
        file_name="x.csv",
        footer="",
    )
    made = bound(page).decode()
    [caption] = re.findall("<caption[^>]*>[^<]*&lt;each&gt;", made)
    assert made.index('id="plot-rates"') < made.index(caption)
    assert made.count("<p>two</p>") == made.count("<p>hidden</p>") == 1
    assert '"kind":"bars"' in made


def test_an_empty_section_is_not_rendered() -> None:
    """An empty chapter has no heading."""
    assert [*text.lines(Section("x", "X")), *text.lines(None), *markdown.lines(None)] == []


def test_ranks_reach_the_page() -> None:
    """Those of a finding's lines."""
    finding = Finding(None, "t", ("a", "b", "c"), ranks=(Rank.GRAVEST, Rank.MORE))
    ranks = [one.rank for one in text.paragraphs(Section("s", "", findings=(finding,)))]
    assert ranks == [Rank.MUST, Rank.GRAVEST, Rank.MORE, Rank.MORE, Rank.MUST]
