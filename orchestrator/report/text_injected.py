"""What became of the faults that a burn-in was asked to bring about, in words: the same in every format for people.

A fault that was not brought about says nothing of the checks: it is told apart from one that they did not find.
"""

from collections.abc import Iterator

from orchestrator.figures.burn_in import BurnInReport, Fate, InjectedReport


def injected(night: BurnInReport) -> Iterator[str]:
    """The faults that were asked for, those that were not found first; what became of each comes first.

    A line that is cut off has lost how often, never whether.
    """
    told = [(_fate(one), one) for one in night.injected]
    for fate, one in sorted(told, key=lambda pair: list(Fate).index(pair[0])):
        yield f"{fate.upper()}: {one.fault}: {one.outcome.removeprefix(f'{fate}: ')}"


def proven(night: BurnInReport) -> str:
    """Behind "injected on purpose": how many were brought about, if not all, and how many of these were found."""
    asked = len(night.injected)
    done = sum(_fate(one) is not Fate.UNDONE for one in night.injected)
    found = sum(one.found for one in night.injected)
    brought = f", {done} of {asked} BROUGHT ABOUT" if done < asked else ""
    if not done:
        return brought
    return f"{brought}, {found} of {done} found" if found == done else f"{brought}, NOT ALL FOUND: {found} of {done}"


def _fate(one: InjectedReport) -> Fate:
    return one.fate or (Fate.FOUND if one.found else Fate.MISSED)
