"""report/text_injected.py: what became of faults that were asked for, in every format for people."""

import pytest
from msgspec.structs import replace

from orchestrator.figures.burn_in import Fate, InjectedReport
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.html.page import page
from orchestrator.report.text_injected import injected, proven
from tests.fakes.nights import Night
from tests.fakes.runs import cpus

pytestmark = pytest.mark.usefixtures("unsynced")


def fault(fate: Fate, outcome: str = "") -> InjectedReport:
    """One of which this became."""
    return InjectedReport(gpu_uuid="cpu:0", fault="it flips", found=fate is Fate.FOUND, outcome=outcome, fate=fate)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a night of one device, without faults."""
    night = Night(tmp_path_factory.mktemp("night"), cpus(1), "10m")
    night.work(last=3)
    night.finish()
    return night.report()


@pytest.mark.parametrize(
    ("fates", "words"),
    [
        ((), ""),
        ((Fate.FOUND, Fate.FOUND), ", 2 of 2 found"),
        ((Fate.MISSED, Fate.IN_PART, Fate.FOUND), ", NOT ALL FOUND: 1 of 3"),
        ((Fate.UNDONE,), ", 0 of 1 BROUGHT ABOUT"),
        ((Fate.UNDONE, Fate.FOUND), ", 1 of 2 BROUGHT ABOUT, 1 of 1 found"),
        ((Fate.UNDONE, Fate.FOUND, Fate.MISSED), ", 2 of 3 BROUGHT ABOUT, NOT ALL FOUND: 1 of 2"),
    ],
)
def test_what_was_missed_is_told_apart_from_what_was_not_brought_about(
    quick: Report, fates: tuple[Fate, ...], words: str
) -> None:
    """A round that never came accuses no check."""
    assert quick.burn_in is not None
    assert proven(replace(quick.burn_in, injected=tuple(map(fault, fates)))) == words


def test_what_became_of_a_fault_is_told_once(quick: Report) -> None:
    """Its outcome may begin with the same words."""
    assert quick.burn_in is not None
    faults = (fault(Fate.UNDONE, "not brought about: no launch"), fault(Fate.FOUND, "found: its load was ended"))
    told = [*injected(replace(quick.burn_in, injected=faults))]
    assert told == ["NOT BROUGHT ABOUT: it flips: no launch", "FOUND: it flips: its load was ended"]


def test_each_format_tells_of_faults(quick: Report) -> None:
    """That they were not brought about stands at the head and beside the verdict at the end; then each by itself."""
    assert quick.burn_in is not None
    undone = fault(Fate.UNDONE, "not brought about: no launch")
    report = replace(quick, burn_in=replace(quick.burn_in, injected=(undone,), tainted=True))
    head = "Faults were injected on purpose, 0 of 1 BROUGHT ABOUT: this says nothing about the GPUs."
    answer = f"{quick.burn_in.verdict}: 1 of 1 device, with faults injected, 0 of 1 BROUGHT ABOUT"
    each = "NOT BROUGHT ABOUT: it flips: no launch"
    text, markdown = (" ".join(made.split()) for made in (to_text(report), to_markdown(report)))
    for words in (head, f"Burn-in: {answer}", f"Verdict: {answer}", f"injected: {each}"):
        assert words in text
    for words in (head, f"burn-in: {answer}; ", f"- injected: {each}"):
        assert words in markdown
    made = page(report, NOTHING_KEPT)
    assert made.verdict.text == answer
    (section,) = (one for one in made.sections if one.id == "burn-in")
    assert head in section.words
    assert (each,) in [finding.lines for finding in section.findings]
