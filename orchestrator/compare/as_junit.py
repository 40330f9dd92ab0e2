"""Comparisons as JUnit XML: a suite for each pair of runs, a test case for each cell (a model in one configuration).

A cell with a verdict of --fail-on is a failure if the first run has a result of it. Cells that could not be judged come
first, and are skipped unless --fail-on names them. Cells of only one run come last. They are skipped, too, but if
--fail-on names NOT COMPARABLE, those of the first run, and of devices that the baseline lacks, are failures. Every
other cell has passed. A verdict on all cells of a workload together is a test case, too.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring  # XML is written here and never read

from orchestrator.compare import wording
from orchestrator.compare.comparison import UNJUDGED, ComparedCell, Comparison
from orchestrator.figures.exit_code import CODES, Cause
from orchestrator.stats.two_runs import ChangeVerdict
from orchestrator.system.plain_text import plain
from protocol.exit_codes import ExitCode


class _Case(NamedTuple):
    """A test case. outcome: "failure", "skipped", or "" for passed."""

    name: str
    model_name: str
    outcome: str
    message: str


def to_junit(
    comparisons: Sequence[Comparison], fail_on: Collection[ChangeVerdict], of_run: Sequence[Cause] = ()
) -> bytes:
    """Render comparisons as JUnit XML. fail_on: verdicts that are failures.

    of_run: causes of a run's exit code. Each is a test case in each suite: skipped if its exit code is INCOMPLETE, else
    a failure.
    """
    root = Element("testsuites", name="gpubench compare")
    for comparison in comparisons:
        suite = SubElement(
            root, "testsuite", name=plain(f"{comparison.label_before} -> {comparison.label_after}: {comparison.title}")
        )
        cases = [*map(_of_run, of_run), *_cases(comparison, fail_on)]
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


def _cases(comparison: Comparison, fail_on: Collection[ChangeVerdict]) -> Iterator[_Case]:
    name = wording.naming(comparison)
    for cell in sorted(comparison.cells, key=lambda cell: cell.verdict not in UNJUDGED):
        outcome = _outcome(cell.verdict, fail_on if cell.must_be_judged else ())
        yield _Case(name(cell), cell.model_name, outcome, _message(cell))
    for mean in comparison.means:
        if mean.verdict:
            yield _Case(f"{mean.phase}, all cells together", "", _outcome(mean.verdict, fail_on), wording.mean(mean))
    lost = _outcome(ChangeVerdict.NOT_COMPARABLE, fail_on)
    for lone in comparison.only_before:
        yield _Case(name(lone), lone.model_name, lost, lone.why or f"not measured in {comparison.after}")
    for lone in comparison.only_after:
        outcome = lost if lone.gpu in comparison.unheld else "skipped"
        yield _Case(name(lone), lone.model_name, outcome, lone.why or f"not measured in {comparison.before}")


def _of_run(cause: Cause) -> _Case:
    return _Case(cause.kind, "", "skipped" if CODES[cause.kind] is ExitCode.INCOMPLETE else "failure", cause.text)


def _outcome(verdict: ChangeVerdict, fail_on: Collection[ChangeVerdict]) -> str:
    if verdict in fail_on:
        return "failure"
    return "skipped" if verdict in UNJUDGED else ""


def _message(cell: ComparedCell) -> str:
    return ", ".join(filter(None, (str(cell.verdict), wording.judged(cell), wording.remark(cell))))
