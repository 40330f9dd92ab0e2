"""Turn health signals of GPUs and machine (errors, temperature, links) into verdicts and reasons for the exit code."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from orchestrator.analysis.attribution import Fault
from orchestrator.analysis.evidence import Evidence
from orchestrator.config.health_signals import Board, board_class
from orchestrator.figures.health import DeviceHealth, HealthReport, NodeHealth, SignalReport, XidReport
from orchestrator.gpu.health import limits, verdict, xids
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import Course, Heard
from orchestrator.gpu.health.judges import Action, Case, State
from orchestrator.gpu.health.verdict import Finding, HealthVerdict, Opinion, Work
from orchestrator.state.archive import Archive
from orchestrator.state.failure_policy import HARDWARE
from orchestrator.state.fault_placement import Blame
from orchestrator.store.journal_records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Device, DeviceKind

Span = tuple[int, int]  # Start and end in monotonic ns

_ALIKE: Final = {
    "vbios_version": "VBIOS",
    "power_limit_w": "power limit in W",
    "ecc_enabled": "ECC",
    "mig_enabled": "MIG",
    "persistence_mode": "persistence mode",
    "pcie_generation": "PCIe generation",
    "pcie_width": "PCIe lanes",
    "memory_total_bytes": "bytes of memory",
}
"""Property → its name in messages. In a healthy machine, identical GPUs agree in each."""


def health(archive: Archive, evidence: Evidence, faults: Mapping[int, Fault], level: str) -> HealthReport:
    """Return the verdicts on GPUs and machine. faults: number of a failed launch → cause of its failure.

    level: name of a level in configs/health.yaml, which lists the signals required for PASS. The configuration of the
    run may require more.
    """
    rules, devices = limits.load(), archive.stored.devices
    accusing = {launch for launch, fault in faults.items() if fault.blame is Blame.DEVICE}
    worked = _worked(archive)
    gpus = tuple(
        _device(
            device, _opinion(device, archive, evidence, rules, accusing, level=level, worked=worked), archive, evidence
        )
        for device in devices
    )
    node = _node(
        verdict.of_node(
            evidence.courses.node,
            reboots=sum(before.boot_id != after.boot_id for before, after in pairwise(archive.segments)),
            differences=tuple(_differences(devices)),
            gpus=any(device.kind is DeviceKind.CUDA for device in devices),
            gap=verdict.broke_off(evidence.courses.looks.get("", ()), _work(archive, worked)),
        )
    )
    return HealthReport(
        level=level,
        verdict=verdict.worst([*(device.verdict for device in gpus), node.verdict]),
        gpus=gpus,
        node=node,
    )


def faults(report: HealthReport) -> tuple[str, ...]:
    """Return a sentence for each health signal of a GPU or the machine in state FAIL: "GPU 0: …"."""
    return tuple(_describe_signals(report, State.FAIL))


def warnings(report: HealthReport) -> tuple[str, ...]:
    """Return a sentence for each health signal of a GPU or the machine in state WARN."""
    return tuple(_describe_signals(report, State.WARN))


def gaps(report: HealthReport) -> tuple[str, ...]:
    """Return a sentence for each GPU with verdict UNKNOWN: "GPU 0: its health is unknown: ..."."""
    return tuple(
        f"GPU {device.gpu_id}: its health is unknown: {device.note or _unread(device)}"
        for device in report.gpus
        if device.verdict is HealthVerdict.UNKNOWN
    )


def _unread(device: DeviceHealth) -> str:
    return f"required signals not read: {', '.join(device.lacking)}" if device.lacking else "no signal was read"


def _describe_signals(report: HealthReport, state: State) -> Iterator[str]:
    for device in report.gpus:
        for signal in device.signals:
            if signal.state is state:
                # One step for the GPU: what a graver signal asks for takes the place of this one's step.
                step = device.action if signal.action is not Action.NOTHING else Action.NOTHING
                yield f"GPU {device.gpu_id}: {replace(signal, action=step).text}"
    for signal in report.node.signals:
        if signal.state is state:
            yield f"the machine: {signal.text}"


def _opinion(
    device: Device,
    archive: Archive,
    evidence: Evidence,
    rules: limits.HealthRules,
    accusing: Collection[int],
    *,
    level: str,
    worked: Mapping[str, Mapping[Segment, Span]],
) -> Opinion:
    if device.kind is not DeviceKind.CUDA:
        return verdict.not_applicable("no GPU")
    courses = evidence.courses
    course = courses.gpus.get(device.uuid, Course())
    alike = [other for other in archive.stored.devices if _kind(other) == _kind(device) and other is not device]
    siblings = tuple(courses.gpus[other.uuid] for other in alike if other.uuid in courses.gpus)
    failed = [
        (attempt.start.launch, attempt.failure)
        for attempt in archive.attempts
        if attempt.failure is not None and attempt.device == device.uuid
    ]
    bridged = any(one.highest.get("nvlinks_up", 0) > 0 for one in (course, *siblings))
    alone = course.highest.get("peers") == 0 and not bridged
    case = Case(
        board=Board(
            name=device.name,
            architecture=device.architecture,
            kind=board_class(device.name, device.uuid),
            nvlinks=0 if alone else rules.nvlinks.get(device.name, 0),
            bridged=bridged,
        ),
        course=course,
        limits=rules.limits,
        use=evidence.clocks.get(device.uuid, ClockUse()),
        siblings=siblings,
        xids=tuple(heard.xid for heard in courses.xids.get(device.uuid, ())),
        failures=tuple(failure for _, failure in failed if failure.category in HARDWARE),
        accused=tuple(failure for launch, failure in failed if launch in accusing),
    )
    required = {*rules.levels[level].required, *archive.stored.configuration.required_signals}
    gap = verdict.broke_off(courses.looks.get(device.uuid, ()), _work(archive, worked, device.uuid))
    return verdict.of_gpu(case, required, gap=gap)


def _kind(device: Device) -> tuple[str, int | None]:
    memory = device.memory_total_bytes
    return device.name, None if memory is None else round(memory / 2**30)


def _worked(archive: Archive) -> dict[str, dict[Segment, Span]]:
    """Return device UUID → session → (first start, last end) of the device's finished launches, in monotonic ns."""
    by_device: dict[str, dict[Segment, Span]] = {}
    for attempt in archive.attempts:
        for uuid in archive.cells[attempt.start.cell].devices:
            spans = by_device.setdefault(uuid, {})
            if attempt.end is not None and attempt.lasted_ms is not None:
                begin_ns, end_ns = spans.get(attempt.segment, (attempt.start.at_ns, attempt.end.at_ns))
                spans[attempt.segment] = min(begin_ns, attempt.start.at_ns), max(end_ns, attempt.end.at_ns)
    return by_device


def _work(archive: Archive, worked: Mapping[str, Mapping[Segment, Span]], uuid: str = "") -> Iterator[Work]:
    """Yield, for each session, the time from the first start to the last end of launches on GPU `uuid`.

    If `uuid` is "" or had no launch, the launches on all GPUs count. Sessions without launches are omitted. worked:
    from `_worked`.
    """
    gpus = [other.uuid for other in archive.stored.devices if other.kind is DeviceKind.CUDA]
    of = [worked[gpu] for gpu in ([uuid] if uuid in worked else gpus) if gpu in worked]
    for segment in dict.fromkeys(archive.segments):
        if spans := [its[segment] for its in of if segment in its]:
            begin_ns, end_ns = min(begin for begin, _ in spans), max(end for _, end in spans)
            yield Work(segment.boot_id, begin_ns, end_ns, archive.telemetry_ended.get(segment))


def _differences(devices: Sequence[Device]) -> Iterator[str]:
    """Yield a sentence for each property in which a GPU differs from the most frequent value of its model.

    In a tie, the first of these values counts.
    """
    kinds: dict[str, list[Device]] = {}
    for device in devices:
        if device.kind is DeviceKind.CUDA:
            kinds.setdefault(device.name, []).append(device)
    for alike in kinds.values():
        for field, words in _ALIKE.items():
            values = Counter(getattr(device, field) for device in alike)
            usual = values.most_common(1)[0][0]
            for device in alike:
                if getattr(device, field) != usual:
                    yield f"{device.label}: {words} {getattr(device, field)}, others {usual}"


def _device(device: Device, opinion: Opinion, archive: Archive, evidence: Evidence) -> DeviceHealth:
    course = evidence.courses.gpus.get(device.uuid, Course())
    return DeviceHealth(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        verdict=opinion.verdict,
        action=opinion.action,
        note=opinion.note,
        applicable=len(opinion.applicable),
        readable=len(opinion.readable),
        lacking=opinion.lacking,
        looks=course.looks,
        watched_seconds=course.watched_s,
        xids=tuple(_xid(heard, archive) for heard in evidence.courses.xids.get(device.uuid, ())),
        signals=tuple(map(_signal, opinion.findings)),
        earlier=archive.stored.earlier.get(device.uuid, ""),
    )


def _node(opinion: Opinion) -> NodeHealth:
    return NodeHealth(
        verdict=opinion.verdict,
        action=opinion.action,
        applicable=len(opinion.applicable),
        readable=len(opinion.readable),
        signals=tuple(map(_signal, opinion.findings)),
    )


def _signal(finding: Finding) -> SignalReport:
    return SignalReport(
        name=finding.name,
        title=finding.title,
        state=finding.judgement.state,
        required=finding.required,
        start=finding.start,
        end=finding.end,
        rise=finding.rise,
        message=finding.judgement.message,
        action=finding.judgement.action,
    )


def _xid(heard: Heard, archive: Archive) -> XidReport:
    segment = next((session for session in archive.segments if session.boot_id == heard.boot_id), archive.segments[0])
    at = segment.wall + (heard.at_ns - segment.monotonic_ns) / 1e9
    return XidReport(at=iso(at), xid=heard.xid, meaning=xids.kind(heard.xid))
