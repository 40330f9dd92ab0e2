"""Whether a GPU slowed over the night, or is slower than its siblings, and why: rates, judged by stats/. Pure.

    rates of each launch ── those of the heat soak left out ─┬─ over time, by drift.py ──────────▶ slower? ─┐
                                                             └─ beside siblings, by siblings.py ──▶ slower? ─┤
    clock, temperature, power limit of the same windows ─────────────────────────────────── slowdown_reasons.py ◀──┘

Only GPUs of one product are held against each other, and no CPU device: its cores are shared with everybody. The test
of memory has no rate: its patterns differ by a factor of eight in what a step costs, and a launch ends within one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.analysis.evidence import DeviceEvidence, LaunchEvidence, kind_of_work
from orchestrator.config import margins
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.gpu.telemetry.clock_events import POWER_CAP
from orchestrator.kinds.burn_in import rate_courses
from orchestrator.kinds.burn_in.findings import RateVerdict
from orchestrator.kinds.burn_in.heat_soak import Soaks
from orchestrator.state.attempts import Attempt
from orchestrator.stats import drift, siblings, slowdown_reasons
from orchestrator.stats.drift import Drift
from orchestrator.stats.siblings import Bound, Sibling, SiblingCell
from orchestrator.stats.slowdown_reasons import Reading, Reason, Why
from orchestrator.stats.windows import WINDOW_NS, Window
from orchestrator.store.records import Segment
from protocol.cell import Cell, Device, DeviceKind, Workload

OVER_TIME: Final = "over the night"
BESIDE: Final = "beside its siblings"
_PACES: Final = {
    drift.DriftVerdict.SLOWING: Pace.SLOWER,
    drift.DriftVerdict.STEADY: Pace.STEADY,
    drift.DriftVerdict.TOO_SHORT: Pace.UNTOLD,
}
BESIDE_BY_WORKLOAD: Final = {
    Workload.SOAK: BESIDE,
    Workload.TRUTH: f"{BESIDE} in checks of truth",
    Workload.REPLAY: f"{BESIDE} in training",
}
"""Work whose rate is the GPU's own, each by itself: load that is well known would hide training that is less so."""
_WAITED: Final = "it waited for the host, whose doing that is"
_FEW: Final = "too few others did that more than once without waiting for the host"
Launched = tuple[Attempt, Cell, LaunchEvidence]
Rates = Sequence[tuple[Window, Reading]]
"""Of one GPU: each window, and what it was like in it."""


def paces(
    devices: Sequence[Device], good: Sequence[Launched], seen: Mapping[str, DeviceEvidence], soaks: Soaks
) -> dict[str, dict[str, RateVerdict]]:
    """By device: what its rates say over time, and beside its siblings."""
    found: dict[str, dict[str, RateVerdict]] = defaultdict(dict)
    kinds: dict[str, list[str]] = defaultdict(list)
    for device in devices:
        if device.kind is DeviceKind.CUDA:
            kinds[device.name].append(device.uuid)
    for uuids in kinds.values():
        mine = [one for one in good if one[0].start.device in uuids]
        shifts = _shifts(mine)
        rates = {uuid: list(_rates(uuid, mine, seen, soaks, shifts)) for uuid in uuids}
        for one in _over_time(rates):
            own = [launch for launch in mine if launch[0].start.device == one.gpu]
            found[one.gpu][OVER_TIME] = _drift(one, rates[one.gpu], _begin(mine, rates[one.gpu]), own)
        warm = [one for one in mine if _is_warm(one, soaks)]
        for workload, title in BESIDE_BY_WORKLOAD.items():
            for uuid, told in _beside_siblings([one for one in warm if one[1].workload is workload]).items():
                found[uuid][title] = told
    return found


def not_tested(told: Mapping[str, RateVerdict]) -> dict[str, str]:
    """What the rates of one device do not say → why not."""
    said = {kind: one.words if one.pace is Pace.UNTOLD else one.aside for kind, one in told.items()}
    return {f"speed {kind}": words for kind, words in said.items() if words}


# ── what is left out ──────────────────────────────────────────────────────────────────────────────────────────────────


def _is_warm(one: Launched, soaks: Soaks) -> bool:
    """Whether a launch began when its GPU had warmed up."""
    attempt = one[0]
    soak = soaks[attempt.start.device, attempt.segment]
    return not soak.leaves_out(attempt.start.round, attempt.start.at_ns)


def _shifts(mine: Sequence[Launched]) -> Mapping[str, int]:
    """By boot of the host: how many windows its numbers are to be moved by. mine: in the order of the journal.

    The monotonic clock begins anew with the host. A later boot has its place by the calendar, and in any case behind
    what was measured before, wherever the calendar was set back meanwhile.
    """
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
    """The windows of a GPU that are judged, and what it was like in them; numbered by the clock of the first boot.

    None of launches that waited for the host: it may be busier in the evening.
    """
    climates = seen[uuid].climates if uuid in seen else {}
    at = {(boot, one.number): one for boot, own in climates.items() for one in own}
    for attempt, _, evidence in mine:
        if attempt.start.device != uuid or evidence.result.launch_bound:
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
            yield replace(window, number=window.number + shifts[attempt.segment.boot_id]), reading


def _waited(own: Sequence[Launched]) -> bool:
    """Whether a GPU waited for the host in most of its launches of one kind."""
    return sum(bool(evidence.result.launch_bound) for _, _, evidence in own) * 2 > len(own)


def _at_work(own: Sequence[Launched]) -> Sequence[Launched]:
    """The launches of a kind that say how fast a GPU is; of one that waited in most all: it is that fast at least."""
    return own if _waited(own) else [one for one in own if not one[2].result.launch_bound]


def _waited_in(own: Sequence[Launched]) -> list[str]:
    """The kinds of work in which one GPU did."""
    kinds: dict[str, list[Launched]] = defaultdict(list)
    for one in own:
        kinds[kind_of_work(one[1], one[0].start.batch_size)].append(one)
    return [name for name, launches in kinds.items() if _waited(launches)]


def _aside(kinds: Sequence[str], why: str = _WAITED) -> str:
    """What is not said of a GPU's rates, and why."""
    return f"nothing is said of {', '.join(kinds)}: {why}" if kinds else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


# ── over time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _over_time(rates: Mapping[str, Rates]) -> tuple[Drift, ...]:
    windows = {uuid: [window for window, _ in own] for uuid, own in rates.items()}
    margin = margins.load()
    return drift.judge(windows, margin.drift.share, margin.drift_alone.share)


def _begin(mine: Sequence[Launched], rates: Rates) -> float:
    """Seconds since the epoch when the first window that is judged began; 0 without one."""
    if not rates:
        return 0.0
    segment = mine[0][0].segment
    return segment.wall + (min(window.number for window, _ in rates) * WINDOW_NS - segment.monotonic_ns) / 1e9


def _drift(one: Drift, rates: Rates, begin: float, own: Sequence[Launched]) -> RateVerdict:
    pace, paced = _PACES[one.verdict], [evidence for _, _, evidence in own if evidence.rates]
    if paced and all(evidence.result.launch_bound for evidence in paced):
        return RateVerdict(pace, "it waited for the host in all of its work", courses=rate_courses.by_reference(one))
    why = _why_it_slowed(one, rates) if pace is Pace.SLOWER else None
    aside = _aside(_waited_in(own))
    words = _joined(rate_courses.in_words(one, begin), aside)
    return RateVerdict(pace, words, why, aside=aside, courses=rate_courses.by_reference(one))


def _why_it_slowed(one: Drift, rates: Rates) -> Why | None:
    """By the kind of work that lost most, or ran most; None where its siblings became faster, and it no slower."""
    kinds = one.kinds if one.slows_against_siblings else one.raw_kinds
    slowing = {key: course for key, course in kinds.items() if course.verdict is drift.DriftVerdict.SLOWING}
    lost = {key: course.change.value for key, course in (slowing or kinds).items() if course.change is not None}
    ran = Counter(window.key for window, _ in rates)
    worst = min(lost, key=lost.__getitem__) if lost else max(ran, key=ran.__getitem__, default=None)
    ordered = sorted((pair for pair in rates if pair[0].key == worst), key=lambda pair: pair[0].number)
    return _told(slowdown_reasons.over([reading for _, reading in ordered])) if ordered else None


def _told(why: Why) -> Why | None:
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
    told = siblings.judge(cells, margins.load().shares, asked=len(BESIDE_BY_WORKLOAD))
    return {one.gpu: _sibling(one, groups, [cell for cell in cells if one.gpu in cell.rates]) for one in told}


def _sibling(
    one: Sibling, groups: Mapping[str, Mapping[str, Sequence[Launched]]], cells: Sequence[SiblingCell]
) -> RateVerdict:
    """cells: of this GPU. Those that are no part of its verdict are named."""
    waited = [cell.name for cell in cells if one.gpu in cell.waited]
    few = [cell.name for cell in cells if cell.name not in one.alone and one.gpu not in cell.waited]
    own = {name: by_gpu for name, by_gpu in groups.items() if name not in waited}
    aside = _joined(_aside(waited), _aside(few, _FEW)) if one.alone else ""
    words = one.why
    if one.verdict is not siblings.SiblingVerdict.STRAGGLER:
        if not one.slow_cells:
            pace = Pace.STEADY if one.verdict is siblings.SiblingVerdict.OK else Pace.UNTOLD
            return RateVerdict(pace, _joined(words, aside), aside=aside)
        slow = (f"{name} at {effect.ratio:.1%} of theirs" for name, effect in one.slow_cells.items())
        words = f"slower by more than the margin in {', '.join(slow)}"
    return RateVerdict(Pace.SLOWER, _joined(words, aside), _why_it_is_slow(one, own), aside)


def _why_it_is_slow(one: Sibling, groups: Mapping[str, Mapping[str, Sequence[Launched]]]) -> Why | None:
    """By the cell in which it is slowest against the others, each GPU with its medians."""
    found = []
    for by_gpu in groups.values():
        if one.gpu in by_gpu and len(by_gpu) >= siblings.LEAST_GPUS:
            others = slowdown_reasons.typical([_reading(own) for uuid, own in by_gpu.items() if uuid != one.gpu])
            own = _reading(by_gpu[one.gpu])
            found.append((own.rate / others.rate, others, own))
    if not found:
        return None
    _, others, own = min(found, key=lambda compared: compared[0])
    return _told(slowdown_reasons.between(others, own))


def _reading(launched: Sequence[Launched]) -> Reading:
    """What a GPU was like in launches of one cell."""
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
    """What limits a cell: power where the driver said so in most of its launches."""
    capped = [bool((evidence.readings.reasons or 0) & POWER_CAP) for _, _, evidence in launched]
    return Bound.POWER if sum(capped) * 2 > len(capped) else Bound.CLOCK
