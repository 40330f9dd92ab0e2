"""Build the burn-in's part of the report. Collects the evidence of each GPU for its verdict (verdict.py). Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.config.run_configuration import BurnIn
from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn, PaceReport, ReasonReport
from orchestrator.figures.health import HealthReport
from orchestrator.gpu.health.judges import Action, State
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
from orchestrator.kinds.burn_in.rate_courses import course_reports
from orchestrator.kinds.burn_in.served_time import Span
from orchestrator.kinds.burn_in.verdict import Judged
from orchestrator.kinds.burn_in.wrong_bits import Share, Uncounted
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import scopes
from orchestrator.store.journal_records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Cell, Device
from protocol.verification import Verification

_UNASKED: Final = Attributed(None)


@dataclass(frozen=True)
class _Good:
    attempt: Attempt
    cell: Cell
    evidence: LaunchEvidence
    found: Attributed = _UNASKED  # verification as one device sees it


@dataclass(frozen=True)
class _Facts:
    archive: Archive
    evidence: Evidence
    health: HealthReport
    burn_in: BurnIn
    compared: Comparison
    paces: Mapping[str, Mapping[str, RateVerdict]]  # by device
    soaks: Soaks
    uncounted: tuple[Uncounted, ...]  # launches without a valid result that verified something
    done: frozenset[tuple[str, int]]
    lost: tuple[Lost, ...]  # launches without a result that are a finding
    waits: Mapping[Segment, Sequence[Span]]  # when a device may have waited for another
    stalled: tuple[_Good, ...]  # launches whose worker was suspended
    at_work: Mapping[str, busy_time.Work]  # by device
    ahead: Mapping[str, Ahead]  # by device
    untried: frozenset[str]


def analyse(archive: Archive, evidence: Evidence, judged: HealthReport) -> BurnInReport:
    """Return the burn-in report of a run, with a verdict on each device. judged: verdicts of the health checks."""
    burn_in = requested(archive.stored.configuration)
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    good = [
        _Good(attempt, cells[attempt.start.cell], evidence.launches[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.launches
    ]
    uncounted = wrong_bits.uncounted(archive, evidence)
    soaks = heat_soak.heat_soaks(archive, evidence, burn_in)
    launched = [(launch.attempt, launch.cell, launch.evidence) for launch in good]
    rates = rate_checks.paces(archive.stored.devices, launched, evidence.devices, soaks)
    lost = lost_launches.lost(archive, burn_in, evidence.damaged)
    done = frozenset((launch.cell.id, launch.attempt.start.round) for launch in good)
    at_work = busy_time.at_work(archive, evidence, lost)
    facts = _Facts(
        archive=archive,
        evidence=evidence,
        health=judged,
        burn_in=burn_in,
        compared=bit_comparison.compare(list(_samples(good, uncounted))),
        paces=rates,
        soaks=soaks,
        uncounted=uncounted,
        done=done,
        lost=lost,
        waits=gpu_waits.waits_by_segment(archive, [launch for launch in lost if launch.attempt.failure is not None]),
        stalled=tuple(launch for launch in good if launch.evidence.stalls),
        at_work=at_work,
        ahead=remaining_time.ahead(archive, at_work),
        untried=remaining_time.untried(archive, lost, done),
    )
    gpus = []
    seen = _seen(good, uncounted)
    accused = links.accused(seen, facts.compared.deviations, archive.stored.devices)
    for device in archive.stored.devices:
        mine = [_share(launch, device, accused) for launch in good if device.uuid in launch.cell.devices]
        work = _work(facts, device, mine, tuple(wrong_bits.shares(uncounted, device, accused)))
        gpus.append(_report(device, work, verdict.judge(work), mine, facts))
    return BurnInReport(
        level=burn_in.level,
        duration_seconds=burn_in.duration_s,
        tainted=archive.stored.configuration.tainted,
        verdict=worst((gpu.verdict for gpu in gpus), default=HealthVerdict.UNKNOWN),
        gpus=tuple(gpus),
        links=tuple(links.rates([(launch.cell, launch.evidence) for launch in good])),
        wrong_transfers=links.count_wrong(seen),
        injected=tuple(
            injected(
                burn_in.injections, archive.stored.devices, launched, uncounted, paces=rates, too_hot=archive.too_hot
            )
        ),
    )


def _seen(good: Sequence[_Good], uncounted: Sequence[Uncounted]) -> list[tuple[Cell, Mapping[str, Verification]]]:
    counting = [(launch.cell, links.seen_by(launch.cell, launch.evidence)) for launch in good]
    return [*counting, *((launch.cell, launch.seen) for launch in uncounted)]


def _share(launch: _Good, device: Device, accused: Accused) -> _Good:
    found = links.attributed(links.seen_by(launch.cell, launch.evidence), launch.cell, device.uuid, accused)
    return replace(
        launch,
        evidence=replace(
            launch.evidence, result=structs.replace(launch.evidence.result, verification=found.verification)
        ),
        found=found,
    )


def _samples(good: Sequence[_Good], uncounted: Sequence[Uncounted]) -> Iterator[Sample]:
    """Yield a sample of each launch that verified outputs. good, uncounted: those with and without a valid result."""
    yield from wrong_bits.samples((launch.attempt, launch.cell, launch.evidence.result.verification) for launch in good)
    yield from wrong_bits.samples(
        (launch.attempt, launch.cell, launch.seen[launch.cell.devices[0]]) for launch in uncounted
    )


def _work(facts: _Facts, device: Device, mine: Sequence[_Good], beside: Sequence[Share]) -> Work:
    """Collect what one GPU did. facts: of the run.

    mine: its launches with a valid result, each with only those mismatches that count against this GPU. beside:
    mismatches that count against it in its launches without a valid result.
    """
    archive, evidence, compared = facts.archive, facts.evidence, facts.compared
    health, why, action = _health(device, facts.health)
    verified = [(one, one.evidence.result.verification) for one in mine if one.evidence.result.verification is not None]
    not_tested, work = _not_tested(facts, device, verified), facts.at_work[device.uuid]
    return Work(
        requested_s=facts.burn_in.duration_s,
        served_s=busy_time.served_s(work),
        cell_s=busy_time.longest_s(archive, device),
        ahead=facts.ahead[device.uuid],
        tallies=tallies.tallies([(one.cell, one.evidence) for one in mine], beside, device.kind),
        wrong=(
            *(wrong for one in mine for wrong in wrong_bits.wrong(one.attempt, one.cell, one.found)),
            *(wrong for share in beside for wrong in share.wrong),
        ),
        unclear=sum(one.found.unclear for one in mine) + sum(share.unclear for share in beside),
        unread=tuple(wrong_bits.unread(facts.uncounted, device)),
        deviations=tuple(one for one in compared.deviations if one.sample.device == device.uuid),
        undecided=tuple(bit_comparison.undecided(device.uuid, compared)),
        failures=(*lost_launches.failures(facts.lost, facts.done, device), *_skipped(archive, device)),
        lost_results=tuple(lost_launches.lost_results(facts.lost, facts.done, device)),
        repeated=tuple(lost_launches.repeated(facts.lost, facts.done, device)),
        health=health,
        health_reason=why,
        health_action=action,
        paces=facts.paces.get(device.uuid, {}),
        not_tested=not_tested,
        lost_time=_lost_time(facts, device, work),
        goes_on=evidence.goes_on,
        interrupted=_cut_short(archive),
        quarantined=archive.quarantined.get(device.uuid, ""),
        too_hot=_too_hot(archive, device),
        reboots=len({segment.boot_id for segment in archive.segments}) - 1,
        tainted=archive.stored.configuration.tainted,
        planned=tuple(_planned(facts, device, verified, not_tested)),
        idle=tuple(busy_time.idle(work, _explained(facts, device))),
        beside=tuple(one.evidence.beside for one in mine if one.evidence.beside),
    )


def _explained(facts: _Facts, device: Device) -> Mapping[Segment, Sequence[Span]]:
    """Return session → times (begin and end in monotonic ns) in which idleness of a device has a known reason.

    The reasons: the device waited for others, another device's worker was suspended, or a result file was lost.
    """
    waits = {segment: [*spans] for segment, spans in facts.waits.items()}
    for attempt, cell, _ in facts.lost:
        if attempt.failure is None and device.uuid in cell.devices:
            waits.setdefault(attempt.segment, []).append((attempt.start.at_ns, gpu_waits.over_ns(attempt)))
    for launch in facts.stalled:
        if device.uuid not in launch.cell.devices:
            waits.setdefault(launch.attempt.segment, []).extend(launch.evidence.stalls)
    return waits


def _not_tested(facts: _Facts, device: Device, verified: Sequence[tuple[_Good, Verification]]) -> dict[str, str]:
    archive = facts.archive
    reasons = links.not_tested(device, archive.stored, archive.quarantined) | heat_soak.not_tested(
        device, facts.evidence
    )
    by_cell: dict[str, list[Verification]] = defaultdict(list)
    for launch, seen in verified:
        name = f"{launch.cell.model} {launch.cell.workload} {launch.cell.precision}"
        by_cell[name].append(seen)
        for what, reason in seen.not_tested.items():
            reasons.setdefault(f"{name}: {what}", reason)
    reasons |= memory_test.not_tested([seen for _, seen in verified]) | tallies.not_tested(by_cell)
    reasons |= rate_checks.not_tested(facts.paces.get(device.uuid, {}))
    bits = {cell_name(launch.cell) for launch, seen in verified if seen.digests or seen.losses}
    return reasons | bit_comparison.not_tested(device.uuid, facts.compared, len(bits))


def _planned(
    facts: _Facts, device: Device, verified: Sequence[tuple[_Good, Verification]], not_tested: Mapping[str, str]
) -> Iterator[Planned]:
    by_cell: dict[str, list[Verification]] = defaultdict(list)
    for launch, verification in verified:
        by_cell[launch.cell.id].append(verification)
    for cell in facts.archive.stored.plan.cells:
        if device.uuid in cell.devices:
            mine = by_cell[cell.id]
            checks = sum(verification.checks for verification in mine)
            prefix = f"{cell.model} {cell.workload} {cell.precision}: "
            reasons = (why for what, why in not_tested.items() if what.startswith(prefix))
            why = next(reasons, facts.archive.dropped.get((cell.id, 0), ""))
            impossible = bool(mine) and not checks and all(verification.not_tested for verification in mine)
            yield Planned(cell.workload, cell_name(cell), checks, why, impossible, cell.id in facts.untried)


def _skipped(archive: Archive, device: Device) -> Iterator[str]:
    for cell in archive.stored.plan.cells:
        scope = next((scope for scope in scopes(cell) if scope in archive.skipped), None)
        if device.uuid in cell.devices and scope is not None:
            yield f"{cell_name(cell)}, all later rounds: skipped on every device: {archive.skipped[scope]}"


def _health(device: Device, judged: HealthReport) -> tuple[HealthVerdict, str, Action]:
    for gpu in judged.gpus:
        if gpu.gpu_uuid == device.uuid:
            signals = [signal.text for signal in gpu.signals if signal.state in {State.FAIL, State.WARN}]
            unread = [f"not read: {', '.join(gpu.lacking)}"] if gpu.lacking else []
            why = "; ".join([*signals, *unread, *([gpu.note] if gpu.note else [])]) or str(gpu.verdict)
            return gpu.verdict, why, gpu.action
    return HealthVerdict.NOT_APPLICABLE, "", Action.NOTHING


def _too_hot(archive: Archive, device: Device) -> str:
    if device.uuid not in archive.too_hot:
        return ""
    reason, seconds = archive.too_hot[device.uuid]
    return f"{reason}; first at {iso(seconds)}"


def _lost_time(facts: _Facts, device: Device, work: busy_time.Work) -> str:
    stalled = (
        (launch.attempt, launch.cell, launch.evidence.stalls)
        for launch in facts.stalled
        if device.uuid in launch.cell.devices
    )
    lost = [launch for launch in facts.lost if device.uuid in launch.cell.devices]
    waited = {segment: [*spans] for segment, spans in _explained(facts, device).items()}
    for segment, span in gpu_waits.for_links(facts.archive, device.uuid):
        waited.setdefault(segment, []).append(span)
    return lost_time.describe(facts.archive, work, stalled, lost, waited)


def _cut_short(archive: Archive) -> str:
    finished = archive.finished
    if finished is None:
        return "the orchestrator died"
    when = iso(archive.segments[-1].at(finished.at_ns))
    return f"{finished.reason}, {when}" if finished.interrupted else ""


def _report(device: Device, work: Work, judged: Judged, mine: Sequence[_Good], facts: _Facts) -> GpuBurnIn:
    readings = [one.evidence.readings for one in mine if one.attempt.start.device == device.uuid]
    temperatures = [one.temperature_max_c for one in readings if one.temperature_max_c is not None]
    powers = [one.power_draw_w for one in readings if one.power_draw_w is not None]
    return GpuBurnIn(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        verdict=judged.verdict,
        action=judged.action,
        reasons=tuple(ReasonReport(verdict=one.verdict, text=one.text, action=one.action) for one in judged.reasons),
        requested_seconds=work.requested_s,
        served_seconds=work.served_s,
        under_load_seconds=sum(tally.measured_s for tally in work.tallies.values()),
        rounds=len({one.attempt.start.round for one in mine}),
        checks=tuple(tallies.check(workload, tally) for workload, tally in work.tallies.items()),
        compared_launches=facts.compared.compared.get(device.uuid, 0),
        heat_soak=heat_soak.reported(device, facts.soaks),
        paces=tuple(_pace(kind, judged) for kind, judged in work.paces.items()),
        temperature_max_c=max(temperatures, default=None),
        average_power_draw_w=sum(powers) / len(powers) if powers else None,
        not_tested=dict(work.not_tested),
        not_decided=tuple(kind for kind, judged in work.paces.items() if judged.undecided),
        unfinished=tuple(
            what
            for what, why in work.not_tested.items()
            if why == memory_test.NEVER or what.endswith(links.LATER)  # planned, and not done to its end
        ),
    )


def _pace(kind: str, judged: RateVerdict) -> PaceReport:
    why = judged.why
    return PaceReport(
        kind=kind,
        pace=judged.pace,
        text=judged.text,
        reason=None if why is None else why.reason,
        reason_text="" if why is None else why.words,
        rate_per_clock_percent=None if why is None else why.per_clock_percent,
        courses=tuple(course_reports(judged.courses)),
    )
