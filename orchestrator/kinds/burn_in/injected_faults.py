"""Decide whether each injected fault was found. A slowed GPU is found only if it is slower than its siblings. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import InjectedFault
from orchestrator.figures.burn_in import Fate, InjectedReport, Pace
from orchestrator.kinds.burn_in import injections, links
from orchestrator.kinds.burn_in.findings import RateVerdict, cell_name
from orchestrator.kinds.burn_in.rate_checks import BESIDE, Launched
from orchestrator.kinds.burn_in.wrong_bits import Uncounted
from protocol.cell import Device, Workload
from protocol.verification import Verification


def injected(
    faults: Sequence[InjectedFault],
    devices: Sequence[Device],
    good: Sequence[Launched],
    uncounted: Sequence[Uncounted],
    *,
    paces: Mapping[str, Mapping[str, RateVerdict]],
    too_hot: Collection[str],
) -> Iterator[InjectedReport]:
    """Yield, for each injected fault, whether it was found and how, in the order of `faults`.

    good: (launch, cell, evidence) of the launches with a result. uncounted: launches without a valid result; they count
    only if they found the fault. paces: UUID → kind of rate → verdict on it. too_hot: UUIDs of GPUs that became too
    hot to continue.
    """
    by_uuid = {device.uuid: device for device in devices}
    for request in faults:
        mine = [launch for launch in good if request.device in launch[1].devices]
        if request.hot_c is not None:
            fate, outcome = Fate.MISSED, "not found: the GPU was never at a limit for ten seconds"
            if request.device in too_hot:
                fate, outcome = Fate.FOUND, "found: the load of the GPU was ended"
        elif request.slow_percent:
            fate, outcome = _slowed(mine, paces.get(request.device, {}))
        else:
            of_round = [launch for launch in mine if launch[0].start.round == request.round]
            beside = (other for other in uncounted if other.attempt.start.round == request.round)
            fate, outcome = _flipped(
                of_round, sum(_shows(other.seen, request.device) for other in beside), request.device
            )
        fault = injections.describe(request, by_uuid[request.device])
        found = fate is Fate.FOUND
        yield InjectedReport(gpu_uuid=request.device, fault=fault, found=found, outcome=outcome, fate=fate)


def _flipped(mine: Sequence[Launched], more: int, device: str) -> tuple[Fate, str]:
    if not mine and not more:
        return Fate.UNDONE, "not brought about: no launch of that round has a result"
    found = [(cell, _shows(links.seen_by(cell, evidence), device)) for _, cell, evidence in mine]
    missed = dict.fromkeys(cell_name(cell) for cell, shows in found if not shows)
    number = more + sum(shows for _, shows in found)
    outcome = f"injected into {plural(len(mine) + more, 'launch', 'launches')}, found in {number}"
    if missed:
        return Fate.IN_PART if number else Fate.MISSED, f"{outcome}, not in {', '.join(missed)}"
    return Fate.FOUND, outcome


def _shows(seen: Mapping[str, Verification], device: str) -> bool:
    """Whether a launch shows wrong results of `device` other than sums, or wrong copies that `device` sent.

    seen: UUID of each device of the launch → what it verified. Mismatches of `device` without details count, too.
    """
    if device in seen and seen[device].mismatches > len(seen[device].kept):
        return True  # mismatches without details
    return any(
        one.sender == device or (found_by == device and one.sender is None and not one.of_all)
        for found_by, found in seen.items()
        for one in found.kept
    )


def _slowed(mine: Sequence[Launched], paces: Mapping[str, RateVerdict]) -> tuple[Fate, str]:
    launches = sum(1 for _, cell, _ in mine if cell.workload is not Workload.LINKS)
    if not launches:
        return Fate.UNDONE, "the GPU has no result of work on its own"
    outcome = f"injected into {plural(launches, 'launch', 'launches')}"
    if any(kind in paces and paces[kind].pace is Pace.SLOWER for kind in BESIDE.values()):
        return Fate.FOUND, f"{outcome}, found by its speed compared with siblings"
    soak = BESIDE[Workload.SOAK]
    why = f"{soak}: {paces[soak].text}" if soak in paces else "the rates of the GPU were not judged"
    return Fate.MISSED, f"{outcome}, not found: {why}"
