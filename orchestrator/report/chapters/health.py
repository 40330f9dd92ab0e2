"""The chapter of hardware health: a verdict for each device and for the machine, with the reasons.

signal: one reading that is judged, such as a counter of memory errors. Xid: an error that NVIDIA's driver reports.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.figures.health import DeviceHealth, NodeHealth, SignalReport
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.device_labels import by_uuid, label
from orchestrator.report.sections import Badge, Entry, Finding, Section, Table, Tone, table, texts

SHOWN_XIDS: Final = 5
_NO_COUNTER: Final = "no error counter applies"
TONES: Final = {
    HealthVerdict.PASS: Tone.GOOD,
    HealthVerdict.WARN: Tone.WARN,
    HealthVerdict.FAIL: Tone.BAD,
    HealthVerdict.UNKNOWN: Tone.WARN,
    HealthVerdict.NOT_APPLICABLE: Tone.QUIET,
}


def health(report: Report) -> Section | None:
    """Return a finding on the machine, and one on each device that has a health verdict or is a MIG slice.

    None if there is no such device and the machine is PASS or NOT APPLICABLE.
    """
    slices = {device.gpu_uuid for device in report.gpu_info if device.slice_of}
    signalled = [
        device
        for device in report.health.gpus
        if device.verdict is not HealthVerdict.NOT_APPLICABLE or device.gpu_uuid in slices
    ]
    node = report.health.node
    if not signalled and node.verdict in {HealthVerdict.PASS, HealthVerdict.NOT_APPLICABLE}:
        return None
    names = by_uuid(report)
    found = [Finding(None, f"{names[one.gpu_uuid]}: {verdict_text(one)}", tuple(_lines(one))) for one in signalled]
    unread = [
        signal.message
        for signal in node.signals
        if signal.state is State.UNREADABLE and node.verdict is HealthVerdict.UNKNOWN
    ]
    absent = [one.title for one in node.signals if one.state is State.NOT_APPLICABLE]
    of_node = [*findings(node.signals), *(f"unread: {why}" for why in dict.fromkeys(unread))]
    of_node += [f"not counted by the kernel of this machine: {'; '.join(absent)}"] if absent else []
    found.append(Finding(None, f"The machine: {verdict_text(node)}", tuple(of_node)))
    return Section("health", "Health of the hardware", findings=tuple(found))


def verdict_text(judged: DeviceHealth | NodeHealth) -> str:
    """Return a verdict as text: "PASS (14 of 14 applicable signals were read)"."""
    if not judged.applicable:
        return str(judged.verdict)
    if judged.verdict is HealthVerdict.NOT_APPLICABLE:
        return f"{judged.verdict} ({_NO_COUNTER})"
    proven = judged.verdict in {HealthVerdict.PASS, HealthVerdict.WARN}  # so every required signal was read
    rest = "; the others are not required" if proven and judged.readable < judged.applicable else ""
    return f"{judged.verdict} ({judged.readable} of {judged.applicable} applicable signals were read{rest})"


def findings(signals: Sequence[SignalReport]) -> Iterator[str]:
    """Yield a line for each signal that failed, warned, passed with a message, or was required but has no value."""
    for signal in signals:
        if signal.state in {State.WARN, State.FAIL}:
            yield f"{signal.state.upper()}: {signal.text}"
        elif signal.state is State.PASS and signal.message:
            yield f"{signal.title}: {signal.message}"
        elif signal.required and signal.state is State.UNREADABLE:
            yield f"unread but required: {signal.title}: {signal.message}"
        elif signal.required and signal.state is State.NOT_APPLICABLE and signal.message:
            yield f"not applicable here: {signal.title}: {signal.message}"


def _lines(device: DeviceHealth) -> Iterator[str]:
    yield from filter(None, (device.note, f"earlier: {device.earlier}" if device.earlier else ""))
    yield from findings(device.signals)
    if len({signal.action for signal in device.signals} - {Action.NOTHING}) > 1:
        yield f"to do: {device.action} (this replaces the other steps above)"
    xids = list(_xids(device))
    yield from xids[:SHOWN_XIDS]
    if len(xids) > SHOWN_XIDS:
        yield f"... and {len(xids) - SHOWN_XIDS} more in the JSON report"


def _xids(device: DeviceHealth) -> Iterator[str]:
    return (f"{xid.at}: Xid {xid.xid}, {xid.meaning}" for xid in device.xids)


def verdicts(report: Report) -> Table:
    """Return a table of health verdicts, with a row for each device and one for the machine."""
    judged = {gpu.gpu_uuid: gpu for gpu in report.health.gpus}
    rows = [(label(device), *_judged(judged.get(device.gpu_uuid), device)) for device in report.gpu_info]
    node = report.health.node
    rows.append(("The machine", badge(node.verdict), _signals(node), "; ".join(findings(node.signals)) or "nothing"))
    return table("Health of the hardware", texts("Device", "Verdict", "Signals read", "What to know"), rows)


def _judged(judged: DeviceHealth | None, device: GpuInfo) -> tuple[Entry, ...]:
    quarantined = f"quarantined: {device.quarantined}" if device.quarantined else ""
    busy = f"busy when the run began: {device.busy_with}" if device.busy_with else ""
    if judged is None:
        return (badge(HealthVerdict.NOT_APPLICABLE), "", "; ".join(filter(None, (quarantined, busy))))
    earlier = f"earlier: {judged.earlier}" if judged.earlier else ""
    notes = (quarantined, busy, judged.note, earlier, *findings(judged.signals), *_xids(judged))
    return (badge(judged.verdict), _signals(judged), "; ".join(filter(None, notes)) or "nothing")


def _signals(judged: DeviceHealth | NodeHealth) -> str:
    if not judged.applicable:
        return "none apply"
    if judged.verdict is HealthVerdict.NOT_APPLICABLE:
        return _NO_COUNTER
    return f"{judged.readable} of {judged.applicable}"


def badge(verdict: HealthVerdict) -> Badge:
    """Return a health verdict as a badge in its colour."""
    return Badge(verdict, TONES[verdict])
