"""Comparisons as JUnit XML, which every CI shows: a suite for each pair of runs, a test case for each cell.

a verdict of --fail-on        failure
no verdict (INCONCLUSIVE, NOT COMPARABLE)   skipped, with the reason
any other                     passed
"""

from collections.abc import Collection, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring  # XML is written here and never read

from orchestrator.compare import wording
from orchestrator.compare.comparison import ComparedCell, Comparison
from orchestrator.report.plain import plain
from orchestrator.stats.two_runs import Verdict


def to_junit(comparisons: Sequence[Comparison], fail_on: Collection[Verdict]) -> bytes:
    """The file."""
    root = Element("testsuites", name="gpubench compare")
    for one in comparisons:
        suite = SubElement(root, "testsuite", name=plain(f"{one.before} -> {one.after}: {one.title}"))
        counts = {"failure": 0, "skipped": 0}
        name = wording.naming(one)
        for cell in one.cells:
            outcome = _outcome(cell, fail_on)
            case = SubElement(suite, "testcase", name=plain(name(cell)), classname=plain(cell.model_name))
            if outcome:
                counts[outcome] += 1
                SubElement(case, outcome, message=plain(_message(cell)))
            SubElement(case, "system-out").text = plain(_message(cell))
        suite.set("tests", str(len(one.cells)))
        suite.set("failures", str(counts["failure"]))
        suite.set("skipped", str(counts["skipped"]))
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _outcome(cell: ComparedCell, fail_on: Collection[Verdict]) -> str:
    if cell.verdict in fail_on:
        return "failure"
    return "skipped" if cell.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE) else ""


def _message(cell: ComparedCell) -> str:
    words = [str(cell.verdict)]
    if cell.ratio is not None:
        words.append(f"speed {wording.ratio(cell)}")
    if cell.low is not None:
        words.append(f"95 % interval {wording.interval(cell)}")
    if told := wording.remark(cell):
        words.append(told)
    return ", ".join(words)
