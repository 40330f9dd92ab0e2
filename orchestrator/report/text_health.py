"""The hardware's health as text: a line for each verdict, and what led to those that are not PASS."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from orchestrator.figures.health import DeviceHealth, NodeHealth, SignalReport
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report import layout
from orchestrator.report.text_gpus import label_of

SHOWN_XIDS: Final = 5


def health(report: Report) -> Iterator[str]:
    """The chapter; nothing where no device has signals and the machine is well."""
    slices = {device.gpu_uuid for device in report.gpu_info if device.slice_of}
    told = [
        device
        for device in report.health.gpus
        if device.verdict is not HealthVerdict.NOT_APPLICABLE or device.gpu_uuid in slices
    ]
    node = report.health.node
    if not told and node.verdict in {HealthVerdict.PASS, HealthVerdict.NOT_APPLICABLE}:
        return
    yield from layout.chapter("Health of the Hardware")
    for device in told:
        who = label_of(device.gpu_uuid, report)
        yield from layout.wrap(f"{who}: {words(device)}")
        if device.note:
            yield from layout.wrap(device.note, "    ")
        if device.earlier:
            yield from layout.wrap(f"earlier: {device.earlier}", "    ", "  ")
        yield from _wrapped(findings(device.signals))
        yield from _xids(device)
    yield from layout.wrap(f"The machine: {words(node)}")
    yield from _wrapped(findings(node.signals))
    if node.verdict is HealthVerdict.UNKNOWN:
        for why in dict.fromkeys(one.message for one in node.signals if one.state is State.UNREADABLE):
            yield from layout.wrap(f"unread: {why}", "    ", "  ")
    yield ""


def words(judged: DeviceHealth | NodeHealth) -> str:
    """The verdict, with how many of the signals that can be there were read."""
    read = f" ({judged.readable} of {judged.applicable} applicable signals were read)" if judged.applicable else ""
    return f"{judged.verdict}{read}"


def findings(signals: Sequence[SignalReport]) -> Iterator[str]:
    """What led to a verdict, and what else a signal has to say."""
    for signal in signals:
        if signal.state in {State.WARN, State.FAIL}:
            yield f"{signal.state.upper()}: {signal.words}"
        elif signal.state is State.PASS and signal.message:
            yield f"{signal.title}: {signal.message}"
        elif signal.required and signal.state is State.UNREADABLE:
            yield f"unread but required: {signal.title}: {signal.message}"


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from layout.wrap(line, "    ", "  ")


def _xids(device: DeviceHealth) -> Iterator[str]:
    for xid in device.xids[:SHOWN_XIDS]:
        yield from layout.wrap(f"{xid.at}: Xid {xid.xid}, {xid.meaning}", "    ", "  ")
    if len(device.xids) > SHOWN_XIDS:
        yield f"    ... and {len(device.xids) - SHOWN_XIDS} more in the JSON report"
