"""Build the burn-in's part of the report: collect the evidence of each GPU and judge it (verdict.py). Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.config.run_configuration import BurnIn
from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn, PaceReport, ReasonReport
from orchestrator.figures.health import HealthReport
from orchestrator.gpu.health.verdict import HealthVerdict, worst
from orchestrator.kinds.burn_in import (
    bit_comparison,
    busy_time,
    gpu_waits,
    heat_soak,
    links,
    lost_launches,
    lost_time,
    memory_test,
    rate_checks,
    remaining_time,
    tallies,
    verdict,
    wrong_bits,
)
from orchestrator.kinds.burn_in.bit_comparison import Comparison, Sample
from orchestrator.kinds.burn_in.findings import Ahead, Planned, RateVerdict, Work, cell_name
from orchestrator.kinds.burn_in.heat_soak import Soaks
from orchestrator.kinds.burn_in.injected_faults import injected
from orchestrator.kinds.burn_in.levels import requested
from orchestrator.kinds.burn_in.links import Accused, Attributed
from orchestrator.kinds.burn_in.lost_launches import Lost
from orchestrator.kinds.burn_in.rate_courses import told_courses
from orchestrator.kinds.burn_in.served_time import Span
from orchestrator.kinds.burn_in.verdict import Judged
from orchestrator.kinds.burn_in.wrong_bits import Share, Uncounted
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import scopes
from orchestrator.store.records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Cell, Device
from protocol.verification import Verification

_UNASKED: Final = Attributed(None)


@dataclass(frozen=True)
class _Good:
    """A launch with a result. found: its verification as one device sees it."""

    attempt: Attempt
    cell: Cell
    evidence: LaunchEvidence
    found: Attributed = _UNASKED


@dataclass(frozen=True)
class _Night:
    """Facts of the whole burn-in. By device: paces, at_work, ahead.

    uncounted: launches without a valid result that verified something. lost: without a result, and a finding.
    waits: when a device may have waited for another. stalled: launches whose worker was suspended.
    """

    archive: Archive
    evidence: Evidence
    health: HealthReport
    asked: BurnIn
    compared: Comparison
    paces: Mapping[str, Mapping[str, RateVerdict]]
    soaks: Soaks
    uncounted: tuple[Uncounted, ...]
    done: frozenset[tuple[str, int]]
    lost: tuple[Lost, ...]
    waits: Mapping[Segment, Sequence[Span]]
    stalled: tuple[_Good, ...]
    at_work: Mapping[str, busy_time.Work]
    ahead: Mapping[str, Ahead]
    untried: frozenset[str]


def analyse(archive: Archive, evidence: Evidence, judged: HealthReport) -> BurnInReport:
    """Return the burn-in report of a run."""
    asked = requested(archive.stored.configuration)
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    good = [
        _Good(attempt, cells[attempt.start.cell], evidence.launches[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.launches
    ]
    uncounted = wrong_bits.uncounted(archive, evidence)
    soaks = heat_soak.heat_soaks(archive, evidence, asked)
    launched = [(one.attempt, one.cell, one.evidence) for one in good]
    rates = rate_checks.paces(archive.stored.devices, launched, evidence.devices, soaks)
    lost = lost_launches.lost(archive, asked, evidence.damaged)
    done = frozenset((one.cell.id, one.attempt.start.round) for one in good)
    at_work = busy_time.at_work(archive, evidence, lost)
    night = _Night(
        archive=archive,
        evidence=evidence,
        health=judged,
        asked=asked,
        compared=bit_comparison.compare(list(_samples(good, uncounted))),
        paces=rates,
        soaks=soaks,
        uncounted=uncounted,
        done=done,
        lost=lost,
        waits=gpu_waits.waits_by_segment(archive, [one for one in lost if one.attempt.failure is not None]),
        stalled=tuple(one for one in good if one.evidence.stalls),
        at_work=at_work,
        ahead=remaining_time.ahead(archive, at_work),
        untried=remaining_time.untried(archive, lost, done),
    )
    gpus = []
    seen = _seen(good, uncounted)
    accused = links.accused(seen, night.compared.deviations, archive.stored.devices)
    for device in archive.stored.devices:
        mine = [_share(one, device, accused) for one in good if device.uuid in one.cell.devices]
        work = _work(night, device, mine, tuple(wrong_bits.shares(uncounted, device, accused)))
        gpus.append(_report(device, work, verdict.judge(work), mine, night))
    return BurnInReport(
        level=asked.level,
        duration_seconds=asked.duration_s,
        tainted=archive.stored.configuration.tainted,
        verdict=worst((gpu.verdict for gpu in gpus), default=HealthVerdict.UNKNOWN),
        gpus=tuple(gpus),
        links=tuple(links.rates([(one.cell, one.evidence) for one in good])),
        wrong_transfers=links.found_wrong(seen),
        injected=tuple(
            injected(
                asked.injections, archive.stored.devices, launched, uncounted, paces=rates, too_hot=archive.too_hot
            )
        ),
    )


def _seen(good: Sequence[_Good], uncounted: Sequence[Uncounted]) -> list[tuple[Cell, Mapping[str, Verification]]]:
    counting = [(one.cell, links.seen_by(one.cell, one.evidence)) for one in good]
    return [*counting, *((one.cell, one.seen) for one in uncounted)]


def _share(one: _Good, device: Device, accused: Accused) -> _Good:
    found = links.attributed(links.seen_by(one.cell, one.evidence), one.cell, device.uuid, accused)
    return replace(
        one,
        evidence=replace(one.evidence, result=structs.replace(one.evidence.result, verification=found.verification)),
        found=found,
    )


def _samples(good: Sequence[_Good], uncounted: Sequence[Uncounted]) -> Iterator[Sample]:
    """Return the bits of all launches. Other processes slow a GPU down but never change its bits."""
    yield from wrong_bits.samples((one.attempt, one.cell, one.evidence.result.verification) for one in good)
    yield from wrong_bits.samples((one.attempt, one.cell, one.seen[one.cell.devices[0]]) for one in uncounted)


def _work(night: _Night, device: Device, mine: Sequence[_Good], beside: Sequence[Share]) -> Work:
    """Collect the facts of one GPU. beside: its share of launches without a valid result."""
    archive, evidence, compared = night.archive, night.evidence, night.compared
    health, why = _health(device, night.health)
    verified = [(one, one.evidence.result.verification) for one in mine if one.evidence.result.verification is not None]
    not_tested, work = _not_tested(night, device, verified), night.at_work[device.uuid]
    return Work(
        asked_s=night.asked.duration_s,
        served_s=busy_time.served_s(work),
        cell_s=busy_time.longest_s(archive, device),
        ahead=night.ahead[device.uuid],
        tallies=tallies.tallies([(one.cell, one.evidence) for one in mine], beside, device.kind),
        wrong=(
            *(wrong for one in mine for wrong in wrong_bits.wrong(one.attempt, one.cell, one.found)),
            *(wrong for share in beside for wrong in share.wrong),
        ),
        unclear=sum(one.found.unclear for one in mine) + sum(share.unclear for share in beside),
        unread=tuple(wrong_bits.unread(night.uncounted, device)),
        deviations=tuple(one for one in compared.deviations if one.sample.device == device.uuid),
        undecided=tuple(bit_comparison.undecided(device.uuid, compared)),
        failures=(*lost_launches.failures(night.lost, night.done, device), *_skipped(archive, device)),
        without_file=tuple(lost_launches.without_file(night.lost, night.done, device)),
        made_up=tuple(lost_launches.made_up(night.lost, night.done, device)),
        health=health,
        health_reason=why,
        paces=night.paces.get(device.uuid, {}),
        not_tested=not_tested,
        lost_time=_lost_time(night, device, work),
        goes_on=evidence.goes_on,
        interrupted=_cut_short(archive),
        taken_out=archive.taken_out.get(device.uuid, ""),
        too_hot=_too_hot(archive, device),
        reboots=len({segment.boot_id for segment in archive.segments}) - 1,
        tainted=archive.stored.configuration.tainted,
        planned=tuple(_planned(night, device, verified, not_tested)),
        idle=tuple(busy_time.idle(work, _explained(night, device))),
        beside=tuple(one.evidence.beside for one in mine if one.evidence.beside),
    )


def _explained(night: _Night, device: Device) -> Mapping[Segment, Sequence[Span]]:
    """Return when this device may have waited for another. Its own stalls and lost results explain nothing."""
    found = {segment: [*spans] for segment, spans in night.waits.items()}
    for attempt, cell, _ in night.lost:
        if attempt.failure is None and device.uuid in cell.devices:
            found.setdefault(attempt.segment, []).append((attempt.start.at_ns, gpu_waits.over_ns(attempt)))
    for one in night.stalled:
        if device.uuid not in one.cell.devices:
            found.setdefault(one.attempt.segment, []).extend(one.evidence.stalls)
    return found


def _not_tested(night: _Night, device: Device, verified: Sequence[tuple[_Good, Verification]]) -> dict[str, str]:
    archive = night.archive
    found = links.not_tested(device, archive.stored, archive.taken_out) | heat_soak.not_tested(device, night.evidence)
    by_cell: dict[str, list[Verification]] = defaultdict(list)
    for one, seen in verified:
        name = f"{one.cell.workload} {one.cell.model} {one.cell.precision}"
        by_cell[name].append(seen)
        for what, reason in seen.not_tested.items():
            found.setdefault(f"{name}: {what}", reason)
    found |= memory_test.not_tested([seen for _, seen in verified]) | tallies.not_tested(by_cell)
    found |= rate_checks.not_tested(night.paces.get(device.uuid, {}))
    bits = {cell_name(one.cell) for one, seen in verified if seen.digests or seen.losses}
    return found | bit_comparison.not_tested(device.uuid, night.compared, len(bits))


def _planned(
    night: _Night, device: Device, verified: Sequence[tuple[_Good, Verification]], not_tested: Mapping[str, str]
) -> Iterator[Planned]:
    seen: dict[str, list[Verification]] = defaultdict(list)
    for one, found in verified:
        seen[one.cell.id].append(found)
    for cell in night.archive.stored.plan.cells:
        if device.uuid in cell.devices:
            mine = seen[cell.id]
            checks = sum(found.checks for found in mine)
            prefix = f"{cell.workload} {cell.model} {cell.precision}: "
            said = (why for what, why in not_tested.items() if what.startswith(prefix))
            why = next(said, night.archive.dropped.get((cell.id, 0), ""))
            impossible = bool(mine) and not checks and all(found.not_tested for found in mine)
            yield Planned(cell.workload, cell_name(cell), checks, why, impossible, cell.id in night.untried)


def _skipped(archive: Archive, device: Device) -> Iterator[str]:
    for cell in archive.stored.plan.cells:
        scope = next((scope for scope in scopes(cell) if scope in archive.skipped), None)
        if device.uuid in cell.devices and scope is not None:
            yield f"{cell_name(cell)}, all later rounds: it was skipped on every device: {archive.skipped[scope]}"


def _health(device: Device, judged: HealthReport) -> tuple[HealthVerdict, str]:
    for one in judged.gpus:
        if one.gpu_uuid == device.uuid:
            told = [signal.words for signal in one.signals if signal.state in {"FAIL", "WARN"}]
            unread = [f"not read: {', '.join(one.lacking)}"] if one.lacking else []
            return one.verdict, "; ".join([*told, *unread, *([one.note] if one.note else [])]) or str(one.verdict)
    return HealthVerdict.NOT_APPLICABLE, ""


def _too_hot(archive: Archive, device: Device) -> str:
    if device.uuid not in archive.too_hot:
        return ""
    reason, seconds = archive.too_hot[device.uuid]
    return f"{reason}; first at {iso(seconds)}"


def _lost_time(night: _Night, device: Device, work: busy_time.Work) -> str:
    stalled = ((one.attempt, one.cell, one.evidence.stalls) for one in night.stalled if device.uuid in one.cell.devices)
    lost = [one for one in night.lost if device.uuid in one.cell.devices]
    waited = {segment: [*spans] for segment, spans in _explained(night, device).items()}
    for segment, span in gpu_waits.for_links(night.archive, device.uuid):
        waited.setdefault(segment, []).append(span)
    return lost_time.words(night.archive, work, stalled, lost, waited)


def _cut_short(archive: Archive) -> str:
    finished = archive.finished
    if finished is None:
        return "the orchestrator died"
    when = iso(archive.segments[-1].at(finished.at_ns))
    return f"{finished.reason}, {when}" if finished.interrupted else ""


def _report(device: Device, work: Work, judged: Judged, mine: Sequence[_Good], night: _Night) -> GpuBurnIn:
    readings = [one.evidence.readings for one in mine if one.attempt.start.device == device.uuid]
    temperatures = [one.temperature_max_c for one in readings if one.temperature_max_c is not None]
    powers = [one.power_draw_w for one in readings if one.power_draw_w is not None]
    return GpuBurnIn(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        verdict=judged.verdict,
        action=judged.action,
        reasons=tuple(ReasonReport(verdict=one.verdict, text=one.text, action=one.action) for one in judged.reasons),
        asked_seconds=work.asked_s,
        served_seconds=work.served_s,
        under_load_seconds=sum(tally.measured_s for tally in work.tallies.values()),
        rounds=len({one.attempt.start.round for one in mine}),
        checks=tuple(tallies.check(workload, tally) for workload, tally in work.tallies.items()),
        compared_launches=night.compared.compared.get(device.uuid, 0),
        heat_soak=heat_soak.reported(device, night.soaks),
        paces=tuple(_pace(kind, told) for kind, told in work.paces.items()),
        temperature_max_c=max(temperatures, default=None),
        average_power_draw_w=sum(powers) / len(powers) if powers else None,
        not_tested=dict(work.not_tested),
        unfinished=tuple(
            what
            for what, why in work.not_tested.items()
            if why == memory_test.NEVER or what.endswith(links.LATER)  # planned, and not done to its end
        ),
    )


def _pace(kind: str, told: RateVerdict) -> PaceReport:
    why = told.why
    return PaceReport(
        kind=kind,
        pace=told.pace,
        text=told.words,
        reason=None if why is None else why.reason,
        reason_text="" if why is None else why.words,
        rate_per_clock_percent=None if why is None else why.per_clock_percent,
        courses=tuple(told_courses(told.courses)),
    )
