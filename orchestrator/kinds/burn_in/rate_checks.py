"""Judge whether a GPU slowed down or is slower than its siblings, and why. Pure.

Rates count after the heat soak. CPU devices share their cores, so they are not judged. The memory test has no rate: its
patterns differ in speed by a factor of eight, and a launch may end within any pattern.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.analysis.evidence import DeviceEvidence, LaunchEvidence, kind_of_work
from orchestrator.config import margins
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.gpu.telemetry.clock_events import POWER_CAP
from orchestrator.kinds.burn_in import rate_courses
from orchestrator.kinds.burn_in.findings import RateVerdict
from orchestrator.kinds.burn_in.heat_soak import Soaks
from orchestrator.state.attempts import Attempt
from orchestrator.stats import drift, slowdown_reasons, stragglers
from orchestrator.stats.drift import Drift
from orchestrator.stats.slowdown_reasons import Reading, Reason, Why
from orchestrator.stats.stragglers import Bound, Sibling, SiblingCell
from orchestrator.stats.windows import WINDOW_NS, Window
from orchestrator.store.journal_records import Segment
from protocol.cell import Cell, Device, DeviceKind, Workload

OVER_TIME: Final = "speed over time"
_PACES: Final = {
    drift.DriftVerdict.SLOWING: Pace.SLOWER,
    drift.DriftVerdict.STEADY: Pace.STEADY,
    drift.DriftVerdict.TOO_SHORT: Pace.INCONCLUSIVE,
}
BESIDE: Final = {
    workload: f'speed in the check "{workload}"' for workload in (Workload.SOAK, Workload.TRUTH, Workload.REPLAY)
}
"""Check of a single GPU → name of its rate. Each is judged alone: steady load would hide noisier training."""
_WAITED: Final = "the GPU waited for the host, so the rate is that of the host"
_ALL_WAITED: Final = "not judged: the GPU waited for the host in all of its work"
_FEW: Final = "too few siblings have more than one launch that did not wait for the host"
Launched = tuple[Attempt, Cell, LaunchEvidence]
Rates = Sequence[tuple[Window, Reading]]  # Windows of one GPU with its readings


def paces(
    devices: Sequence[Device], good: Sequence[Launched], seen: Mapping[str, DeviceEvidence], soaks: Soaks
) -> dict[str, dict[str, RateVerdict]]:
    """Return UUID → kind of rate → verdict. CPU devices are missing.

    Kinds of rate: OVER_TIME for the change over time, and the values of BESIDE for comparisons with siblings. good:
    (launch, cell, evidence) of the launches with a result. seen: UUID → telemetry. soaks: heat soaks, whose rates do
    not count; one for each device and session in `good`.
    """
    found: dict[str, dict[str, RateVerdict]] = defaultdict(dict)
    kinds: dict[str, list[str]] = defaultdict(list)
    margin = margins.load()
    for device in devices:
        if device.kind is DeviceKind.CUDA:
            kinds[device.name].append(device.uuid)
    for uuids in kinds.values():
        mine = [one for one in good if one[0].start.device in uuids]
        shifts = _shifts(mine)
        rates = {uuid: list(_rates(uuid, mine, seen, soaks, shifts)) for uuid in uuids}
        windows = {uuid: [window for window, _ in own] for uuid, own in rates.items()}
        for one in drift.judge(windows, margin.drift.share, margin.drift_alone.share):
            own = [launch for launch in mine if launch[0].start.device == one.gpu]
            found[one.gpu][OVER_TIME] = _drift(one, rates[one.gpu], _begin(mine, rates[one.gpu]), own)
        warm = [
            one
            for one in mine
            if not soaks[one[0].start.device, one[0].segment].leaves_out(one[0].start.round, one[0].start.at_ns)
        ]
        for workload, title in BESIDE.items():
            for uuid, judged in _beside_siblings([one for one in warm if one[1].workload is workload]).items():
                found[uuid][title] = judged
    return found


def not_tested(verdicts: Mapping[str, RateVerdict]) -> dict[str, str]:
    """Return kind of rate → why it has no verdict, or which work was not judged. verdicts: of one GPU, by kind."""
    reasons = {
        kind: (one.undecided or one.text) if one.pace is Pace.INCONCLUSIVE else one.aside
        for kind, one in verdicts.items()
    }
    return {kind: words for kind, words in reasons.items() if words}


# ── windows that count ────────────────────────────────────────────────────────────────────────────────────────────────


def _shifts(mine: Sequence[Launched]) -> Mapping[str, int]:
    """Return boot id → offset of its window numbers, so that later boots have later windows. mine: in journal order."""
    # The monotonic clock restarts with the host: the calendar places a later boot, behind the earlier windows.
    segments: dict[str, Segment] = {}
    numbers: dict[str, list[int]] = defaultdict(list)
    for attempt, _, evidence in mine:
        segments.setdefault(attempt.segment.boot_id, attempt.segment)
        numbers[attempt.segment.boot_id].extend(window.number for window in evidence.rates)
    shifts: dict[str, int] = {}
    begun_ns: float | None = None
    behind: int | None = None
    for boot, segment in segments.items():
        booted_ns = segment.wall * 1e9 - segment.monotonic_ns
        begun_ns = booted_ns if begun_ns is None else begun_ns
        shifts[boot] = round((booted_ns - begun_ns) / WINDOW_NS)
        if own := numbers[boot]:
            shifts[boot] = max(shifts[boot], shifts[boot] if behind is None else behind - min(own))
            behind = max(own) + shifts[boot] + 1
    return shifts


def _rates(
    uuid: str,
    mine: Sequence[Launched],
    seen: Mapping[str, DeviceEvidence],
    soaks: Soaks,
    shifts: Mapping[str, int],
) -> Iterator[tuple[Window, Reading]]:
    climates = seen[uuid].climates if uuid in seen else {}
    at = {(boot, one.number): one for boot, own in climates.items() for one in own}
    for attempt, _, evidence in mine:
        if attempt.start.device != uuid or evidence.figures.host_bound:
            continue
        soak = soaks[uuid, attempt.segment]
        for window in evidence.rates:
            if soak.leaves_out(attempt.start.round, window.number * WINDOW_NS):
                continue
            climate = at.get((attempt.segment.boot_id, window.number), Climate(window.number))
            reading = Reading(
                rate=window.rate,
                clock_mhz=climate.clock_mhz,
                temperature_c=climate.temperature_c,
                capped=climate.capped,
            )
            yield msgspec.structs.replace(window, number=window.number + shifts[attempt.segment.boot_id]), reading


def _waited(own: Sequence[Launched]) -> bool:
    return sum(bool(evidence.figures.host_bound) for _, _, evidence in own) * 2 > len(own)


def _at_work(own: Sequence[Launched]) -> Sequence[Launched]:
    """Return a GPU's launches that did not wait for the host. If most did, return all: their rates are lower limits."""
    return own if _waited(own) else [one for one in own if not one[2].figures.host_bound]


def _waited_in(own: Sequence[Launched]) -> list[str]:
    kinds: dict[str, list[Launched]] = defaultdict(list)
    for one in own:
        kinds[kind_of_work(one[1], one[0].start.batch_size)].append(one)
    return [name for name, launches in kinds.items() if _waited(launches)]


def _aside(kinds: Sequence[str], why: str = _WAITED) -> str:
    return f"{', '.join(kinds)} not judged: {why}" if kinds else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


# ── over time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _begin(mine: Sequence[Launched], rates: Rates) -> float:
    if not rates:
        return 0.0
    segment = mine[0][0].segment
    return segment.wall + (min(window.number for window, _ in rates) * WINDOW_NS - segment.monotonic_ns) / 1e9


def _drift(judged: Drift, rates: Rates, begin: float, own: Sequence[Launched]) -> RateVerdict:
    pace, paced = _PACES[judged.verdict], [evidence for _, _, evidence in own if evidence.rates]
    if paced and all(evidence.figures.host_bound for evidence in paced):
        return RateVerdict(pace, _ALL_WAITED, courses=rate_courses.by_reference(judged))
    why = _why_it_slowed(judged, rates) if pace is Pace.SLOWER else None
    aside = _aside(_waited_in(own))
    words = _joined(rate_courses.describe(judged, begin), aside)
    return RateVerdict(pace, words, why, aside=aside, courses=rate_courses.by_reference(judged))


def _why_it_slowed(judged: Drift, rates: Rates) -> Why | None:
    """Return why a GPU slowed down, by its readings during the kind of work that slowed most.

    judged: the GPU's drift, which is a slow-down. rates: its windows with their readings. None if these readings are no
    slower at the end than at the start, or if there are none.
    """
    kinds = judged.kinds if judged.slows_against_siblings else judged.raw_kinds
    slowing = {key: course for key, course in kinds.items() if course.verdict is drift.DriftVerdict.SLOWING}
    lost = {key: course.change.value for key, course in (slowing or kinds).items() if course.change is not None}
    ran = Counter(window.key for window, _ in rates)
    worst = min(lost, key=lost.__getitem__) if lost else max(ran, key=ran.__getitem__, default=None)
    ordered = sorted((pair for pair in rates if pair[0].key == worst), key=lambda pair: pair[0].number)
    return _reported_cause(slowdown_reasons.over_time([reading for _, reading in ordered])) if ordered else None


def _reported_cause(why: Why) -> Why | None:
    return None if why.reason is Reason.NOT_SLOWER else why


# ── beside siblings ───────────────────────────────────────────────────────────────────────────────────────────────────


def _beside_siblings(warm: Sequence[Launched]) -> dict[str, RateVerdict]:
    groups: dict[str, dict[str, list[Launched]]] = defaultdict(lambda: defaultdict(list))
    for one in warm:
        attempt, cell, evidence = one
        counts = evidence.figures.means_ms.get("iteration") and not evidence.stalls  # a pause would be in the mean
        if counts:
            groups[kind_of_work(cell, attempt.start.batch_size)][attempt.start.device].append(one)
    cells = [
        SiblingCell(
            name=name,
            bound=_bound([one for own in by_gpu.values() for one in own]),
            rates={uuid: [_rate(one) for one in _at_work(own)] for uuid, own in by_gpu.items()},
            waited=frozenset(uuid for uuid, own in by_gpu.items() if _waited(own)),
        )
        for name, by_gpu in groups.items()
    ]
    verdicts = stragglers.judge(cells, margins.load().shares, judgements=len(BESIDE))
    return {one.gpu: _sibling(one, groups, [cell for cell in cells if one.gpu in cell.rates]) for one in verdicts}


def _sibling(
    sibling: Sibling, groups: Mapping[str, Mapping[str, Sequence[Launched]]], cells: Sequence[SiblingCell]
) -> RateVerdict:
    waited = [cell.name for cell in cells if sibling.gpu in cell.waited]
    few = [cell.name for cell in cells if cell.name not in sibling.alone and sibling.gpu not in cell.waited]
    own = {name: by_gpu for name, by_gpu in groups.items() if name not in waited}
    aside = _joined(_aside(waited), _aside(few, _FEW)) if sibling.alone else ""
    if (sibling.verdict.is_finding or sibling.slow_cells) and sibling.gpu not in sibling.faster:
        return RateVerdict(Pace.SLOWER, _joined(sibling.why, aside), _why_it_is_slow(sibling, own), aside)
    pace = Pace.STEADY if sibling.verdict is stragglers.SiblingVerdict.OK else Pace.INCONCLUSIVE
    suspect = sibling.verdict is stragglers.SiblingVerdict.SUSPECT
    undecided = _joined(stragglers.not_ruled_out(sibling.effects), aside) if suspect else ""
    return RateVerdict(pace, _joined(sibling.why, aside), aside=aside, undecided=undecided)


def _why_it_is_slow(sibling: Sibling, groups: Mapping[str, Mapping[str, Sequence[Launched]]]) -> Why | None:
    found = []
    for by_gpu in groups.values():
        if sibling.gpu in by_gpu and len(by_gpu) >= stragglers.LEAST_GPUS:
            others = slowdown_reasons.typical([_reading(own) for uuid, own in by_gpu.items() if uuid != sibling.gpu])
            own = _reading(by_gpu[sibling.gpu])
            found.append((own.rate / others.rate, others, own))
    if not found:
        return None
    _, others, own = min(found, key=lambda compared: compared[0])
    return _reported_cause(slowdown_reasons.between(others, own))


def _reading(launched: Sequence[Launched]) -> Reading:
    return slowdown_reasons.typical(
        [
            Reading(
                rate=_rate(one),
                clock_mhz=one[2].readings.sm_clock_mhz,
                temperature_c=one[2].readings.temperature_c,
                capped=None if one[2].readings.reasons is None else float(bool(one[2].readings.reasons & POWER_CAP)),
            )
            for one in launched
        ]
    )


def _rate(one: Launched) -> float:
    return 1 / one[2].figures.means_ms["iteration"]


def _bound(launched: Sequence[Launched]) -> Bound:
    capped = [bool((evidence.readings.reasons or 0) & POWER_CAP) for _, _, evidence in launched]
    return Bound.POWER if sum(capped) * 2 > len(capped) else Bound.CLOCK
