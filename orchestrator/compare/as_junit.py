"""Comparisons as JUnit XML: a suite for each pair of runs, a test case for each cell.

A verdict of --fail-on is a failure; INCONCLUSIVE and NOT COMPARABLE are skipped, any other verdict passed. A cell that
only the first run has is NOT COMPARABLE, as is one of a device without a baseline cell. Other new cells are skipped.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring  # XML is written here and never read

from orchestrator.compare import wording
from orchestrator.compare.comparison import ComparedCell, Comparison
from orchestrator.stats.two_runs import ChangeVerdict
from orchestrator.system.plain_text import plain


class _Case(NamedTuple):
    """outcome: "failure", "skipped", or "" for passed."""

    name: str
    model_name: str
    outcome: str
    message: str


def to_junit(comparisons: Sequence[Comparison], fail_on: Collection[ChangeVerdict]) -> bytes:
    """Render comparisons as JUnit XML."""
    root = Element("testsuites", name="gpubench compare")
    for one in comparisons:
        suite = SubElement(root, "testsuite", name=plain(f"{one.label_before} -> {one.label_after}: {one.title}"))
        cases = list(_cases(one, fail_on))
        for case in cases:
            element = SubElement(suite, "testcase", name=plain(case.name), classname=plain(case.model_name))
            if case.outcome:
                SubElement(element, case.outcome, message=plain(case.message))
            SubElement(element, "system-out").text = plain(case.message)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(case.outcome == "failure" for case in cases)))
        suite.set("skipped", str(sum(case.outcome == "skipped" for case in cases)))
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _cases(one: Comparison, fail_on: Collection[ChangeVerdict]) -> Iterator[_Case]:
    name = wording.naming(one)
    for cell in one.cells:
        yield _Case(name(cell), cell.model_name, _outcome(cell.verdict, fail_on), _message(cell))
    lost = _outcome(ChangeVerdict.NOT_COMPARABLE, fail_on)
    for lone in one.only_before:
        yield _Case(name(lone), lone.model_name, lost, lone.why or f"not measured in {one.after}")
    for lone in one.only_after:
        outcome = lost if lone.gpu in one.unheld else "skipped"
        yield _Case(name(lone), lone.model_name, outcome, lone.why or f"not measured in {one.before}")


def _outcome(verdict: ChangeVerdict, fail_on: Collection[ChangeVerdict]) -> str:
    if verdict in fail_on:
        return "failure"
    return "skipped" if verdict in (ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE) else ""


def _message(cell: ComparedCell) -> str:
    words = [str(cell.verdict)]
    if cell.ratio is not None:
        words.append(f"speed {wording.ratio(cell)}")
    if cell.low is not None:
        words.append(f"95 % interval {wording.interval(cell)}")
    if told := wording.remark(cell):
        words.append(told)
    return ", ".join(words)
