"""What became of the faults that a burn-in was asked to bring about: each one found, or not, and where not. Pure.

    flipped bits ──▶ in each launch of the round, on the device: did a check find wrong bits?
    slowed       ──▶ is the device slower, over the night or beside its siblings?
    hot          ──▶ was its load ended?

A launch without a result that counts brought nothing about that had to be found: it is left out, unless it was found.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from orchestrator.burn_in import injections
from orchestrator.burn_in.injections import Asked
from orchestrator.burn_in.known import Pace, Told, named
from orchestrator.configuration.naming import counted
from orchestrator.disk.evidence import LaunchEvidence
from orchestrator.merge.paces import BESIDE, OVER_TIME, Launched
from orchestrator.merge.wrong_bits import Uncounted
from orchestrator.report.burn_in import Fate, InjectedReport
from protocol.cell import Device, Workload


def injected(
    asked: Sequence[Asked],
    devices: Sequence[Device],
    good: Sequence[Launched],
    uncounted: Sequence[Uncounted],
    *,
    paces: Mapping[str, Mapping[str, Told]],
    too_hot: Collection[str],
) -> Iterator[InjectedReport]:
    """Each fault, in the order in which they were asked for. good: launches with a result.

    uncounted: others, that verified something.
    """
    known = {device.uuid: device for device in devices}
    for one in asked:
        mine = [launch for launch in good if one.device in launch[1].devices]
        if one.hot_c is not None:
            fate, outcome = _hot(ended=one.device in too_hot)
        elif one.slow_percent:
            fate, outcome = _slowed(mine, paces.get(one.device, {}))
        else:
            asked_for = [launch for launch in mine if launch[0].start.round == one.round]
            beside = (other for other in uncounted if one.device in other.cell.devices and other.any_wrong)
            more = sum(1 for other in beside if other.attempt.start.round == one.round)
            fate, outcome = _flipped(asked_for, more)
        fault = injections.told(one, known[one.device])
        found = fate is Fate.FOUND
        yield InjectedReport(gpu_uuid=one.device, fault=fault, found=found, outcome=outcome, fate=fate)


def _flipped(mine: Sequence[Launched], more: int) -> tuple[Fate, str]:
    """more: launches without a result that counts in which it was found."""
    if not mine and not more:
        return Fate.UNDONE, "not brought about: no launch of that round has a result"
    missed = dict.fromkeys(named(cell) for _, cell, evidence in mine if not _is_wrong(evidence))
    number = more + sum(_is_wrong(evidence) for _, _, evidence in mine)
    words = f"brought about in {counted(len(mine) + more, 'launch', 'launches')}, found in {number}"
    if missed:
        return Fate.IN_PART if number else Fate.MISSED, f"{words}, not in {', '.join(missed)}"
    return Fate.FOUND, words


def _is_wrong(evidence: LaunchEvidence) -> bool:
    """Whether anything wrong was found, by any of the launch's devices."""
    seen = [evidence.verification, *evidence.others.values()]
    return any(one is not None and one.mismatches > 0 for one in seen)


def _slowed(mine: Sequence[Launched], paces: Mapping[str, Told]) -> tuple[Fate, str]:
    launches = sum(1 for _, cell, _ in mine if cell.workload is not Workload.LINKS)
    if not launches:
        return Fate.UNDONE, "it never did anything by itself"
    words = f"brought about in {counted(launches, 'launch', 'launches')}"
    slower = [kind for kind, told in paces.items() if told.pace is Pace.SLOWER]
    shown = dict.fromkeys(BESIDE if kind.startswith(BESIDE) else kind for kind in slower)  # in whatever work
    if shown:
        return Fate.FOUND, f"{words}, found {' and '.join(shown)}"
    judged = [f"{kind}: {paces[kind].words}" for kind in (OVER_TIME, BESIDE) if kind in paces]
    why = "; ".join(judged) or "rates of a CPU device are not judged"
    return Fate.MISSED, f"{words}, not found: {why}"


def _hot(*, ended: bool) -> tuple[Fate, str]:
    if ended:
        return Fate.FOUND, "found: its load was ended"
    return Fate.MISSED, "not found: it was never at a limit for ten seconds"
