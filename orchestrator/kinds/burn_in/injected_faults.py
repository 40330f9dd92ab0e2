"""Whether each injected fault was found. Pure.

A slowed GPU is slow from the start, so only its siblings show it. A launch without a valid result counts only if the
fault was found in it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Asked
from orchestrator.figures.burn_in import Fate, InjectedReport, Pace
from orchestrator.kinds.burn_in import injections, links
from orchestrator.kinds.burn_in.findings import RateVerdict, cell_name
from orchestrator.kinds.burn_in.rate_checks import BESIDE, Launched
from orchestrator.kinds.burn_in.wrong_bits import Uncounted
from protocol.cell import Device, Workload
from protocol.verification import Verification


def injected(
    asked: Sequence[Asked],
    devices: Sequence[Device],
    good: Sequence[Launched],
    uncounted: Sequence[Uncounted],
    *,
    paces: Mapping[str, Mapping[str, RateVerdict]],
    too_hot: Collection[str],
) -> Iterator[InjectedReport]:
    """Return the outcome of each fault, in order. uncounted: verified launches without a valid result."""
    known = {device.uuid: device for device in devices}
    for one in asked:
        mine = [launch for launch in good if one.device in launch[1].devices]
        if one.hot_c is not None:
            fate, outcome = Fate.MISSED, "not found: it was never at a limit for ten seconds"
            if one.device in too_hot:
                fate, outcome = Fate.FOUND, "found: its load was ended"
        elif one.slow_percent:
            fate, outcome = _slowed(mine, paces.get(one.device, {}))
        else:
            asked_for = [launch for launch in mine if launch[0].start.round == one.round]
            beside = (other for other in uncounted if other.attempt.start.round == one.round)
            fate, outcome = _flipped(asked_for, sum(_shows(other.seen, one.device) for other in beside), one.device)
        fault = injections.description(one, known[one.device])
        found = fate is Fate.FOUND
        yield InjectedReport(gpu_uuid=one.device, fault=fault, found=found, outcome=outcome, fate=fate)


def _flipped(mine: Sequence[Launched], more: int, device: str) -> tuple[Fate, str]:
    if not mine and not more:
        return Fate.UNDONE, "not brought about: no launch of that round has a result"
    found = [(cell, _shows(links.seen_by(cell, evidence), device)) for _, cell, evidence in mine]
    missed = dict.fromkeys(cell_name(cell) for cell, shows in found if not shows)
    number = more + sum(shows for _, shows in found)
    words = f"brought about in {plural(len(mine) + more, 'launch', 'launches')}, found in {number}"
    if missed:
        return Fate.IN_PART if number else Fate.MISSED, f"{words}, not in {', '.join(missed)}"
    return Fate.FOUND, words


def _shows(seen: Mapping[str, Verification], device: str) -> bool:
    """Whether a device found own mismatches, or others found some in what it sent. Received data proves nothing."""
    if device in seen and seen[device].mismatches > len(seen[device].kept):
        return True  # what no details are kept of
    return any(
        one.sender == device or (found_by == device and one.sender is None and not one.of_all)
        for found_by, found in seen.items()
        for one in found.kept
    )


def _slowed(mine: Sequence[Launched], paces: Mapping[str, RateVerdict]) -> tuple[Fate, str]:
    launches = sum(1 for _, cell, _ in mine if cell.workload is not Workload.LINKS)
    if not launches:
        return Fate.UNDONE, "it never did anything by itself"
    words = f"brought about in {plural(launches, 'launch', 'launches')}"
    if any(told.pace is Pace.SLOWER and kind.startswith(BESIDE) for kind, told in paces.items()):
        return Fate.FOUND, f"{words}, found {BESIDE}"
    why = f"{BESIDE}: {paces[BESIDE].words}" if BESIDE in paces else "no rate of it was judged"
    return Fate.MISSED, f"{words}, not found: {why}"
