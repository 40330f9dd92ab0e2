"""Whether a GPU slowed over the night, or is slower than its siblings: rates of a burn-in, judged by stats/. Pure.

Only GPUs of one product are held against each other, and no CPU device: its cores are shared with everybody. The first
round is the heat soak: whatever warms up in it is no fault.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from orchestrator.burn_in.verdict import Pace
from orchestrator.disk.archive import Attempt
from orchestrator.disk.evidence import LaunchEvidence
from orchestrator.sampling.clock_events import POWER_CAP
from orchestrator.stats import drift, margins, siblings
from orchestrator.stats.margins import Bound
from orchestrator.stats.siblings import SiblingCell
from orchestrator.stats.windows import Window
from protocol.cell import Cell, Device, DeviceKind, Workload

HEAT_SOAK_ROUNDS: Final = 1
Launched = tuple[Attempt, Cell, LaunchEvidence]


def paces(devices: Sequence[Device], good: Sequence[Launched]) -> dict[str, dict[str, tuple[Pace, str]]]:
    """By device: what its rates say over time, and beside its siblings."""
    found: dict[str, dict[str, tuple[Pace, str]]] = defaultdict(dict)
    kinds: dict[str, list[str]] = defaultdict(list)
    for device in devices:
        if device.kind is DeviceKind.CUDA:
            kinds[device.name].append(device.uuid)
    for uuids in kinds.values():
        warm = [one for one in good if one[0].start.device in uuids and one[0].start.round >= HEAT_SOAK_ROUNDS]
        for uuid, said in _over_time(uuids, warm).items():
            found[uuid]["over the night"] = said
        for uuid, said in _beside_siblings(warm).items():
            found[uuid]["beside its siblings"] = said
    return found


def _over_time(uuids: Sequence[str], warm: Sequence[Launched]) -> dict[str, tuple[Pace, str]]:
    rates: dict[str, list[Window]] = {uuid: [] for uuid in uuids}
    for attempt, _, evidence in warm:
        rates[attempt.start.device].extend(evidence.rates)
    return {one.gpu: _drift(one) for one in drift.judge(rates, margins.load().drift.share)}


def _drift(one: drift.Drift) -> tuple[Pace, str]:
    course = one.relative or one.raw
    if one.verdict is drift.Verdict.TOO_SHORT or course.change is None:
        needed = f"; about {course.needed_h:.1f} h would tell" if course.needed_h else ""
        return Pace.UNTOLD, f"too short to tell whether it slows{needed}"
    against = "against its siblings" if one.relative else "by itself"
    change = course.change
    words = f"{change.value:+.1f} % ({change.low:+.1f} to {change.high:+.1f}) over {course.hours:.1f} h, {against}"
    return (Pace.SLOWER if one.verdict is drift.Verdict.SLOWING else Pace.STEADY), words


def _beside_siblings(warm: Sequence[Launched]) -> dict[str, tuple[Pace, str]]:
    groups: dict[tuple[Workload, str, str], list[Launched]] = defaultdict(list)
    for one in warm:
        if one[1].workload in {Workload.SOAK, Workload.MEMORY}:
            groups[one[1].workload, one[1].model, one[1].precision].append(one)
    cells = []
    for (workload, model, precision), launched in groups.items():
        rates: dict[str, list[float]] = defaultdict(list)
        for attempt, _, evidence in launched:
            if mean_ms := evidence.figures.means_ms.get("iteration"):
                rates[attempt.start.device].append(1 / mean_ms)
        cells.append(SiblingCell(name=f"{workload} {model} {precision}", bound=_bound(workload, launched), rates=rates))
    said = {}
    for sibling in siblings.judge(cells, margins.load().shares):
        if sibling.verdict is siblings.Verdict.STRAGGLER:
            said[sibling.gpu] = Pace.SLOWER, sibling.why
        else:
            told = sibling.verdict is not siblings.Verdict.NONE
            said[sibling.gpu] = (Pace.STEADY if told else Pace.UNTOLD), sibling.why
    return said


def _bound(workload: Workload, launched: Sequence[Launched]) -> Bound:
    """What limits a cell: power where the driver said so in most of its launches."""
    if workload is Workload.MEMORY:
        return Bound.BANDWIDTH
    capped = [bool((evidence.readings.reasons or 0) & POWER_CAP) for _, _, evidence in launched]
    return Bound.POWER if sum(capped) * 2 > len(capped) else Bound.CLOCK
