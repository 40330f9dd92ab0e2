"""What a person sees, from where the run stands: the snapshot, the time left, the words for an outcome. Pure."""

from collections.abc import Mapping

import msgspec

from orchestrator.fleet import Live
from orchestrator.policy import POLICY, Reaction
from orchestrator.slots import SETTLED, RunState, SlotStatus
from orchestrator.view import CellEnded, DeviceLine, Snapshot
from protocol.cell import Device, Workload
from protocol.failure import Category, Failure
from protocol.messages import Sample
from protocol.result import Result


def snapshot(
    state: RunState,
    devices: tuple[Device, ...],
    live: Mapping[int, Live],
    samples: Mapping[str, Sample],
    *,
    elapsed_s: float,
    launch_s: Mapping[str, float],
    note: str,
) -> Snapshot:
    """The whole run at one moment. launch_s: mean duration of the launches that have ended, by device."""
    by_device = {one.next.device: one for one in live.values()}
    return Snapshot(
        devices=tuple(_line(device, state, by_device.get(device.uuid), samples, note) for device in devices),
        done=state.settled,
        total=len(state.slots),
        failed=sum(slot.status == "failed" for slot in state.slots.values()),
        elapsed_s=elapsed_s,
        eta_s=_eta_s(state, launch_s),
    )


def ended(state: RunState, live: Live, device: Device, outcome: Result | Failure) -> CellEnded:
    """A launch is over, in words. `state` is the one after its end."""
    told = CellEnded(
        label=device.label,
        cell=_cell_words(live),
        batch_size=live.next.cell.batch_size,
        attempt=live.next.attempt,
        summary="",
    )
    if isinstance(outcome, Failure):
        words = f"{outcome.category}: {outcome.message}"
        return msgspec.structs.replace(told, summary=words, failure=outcome, next_step=_next_step(state, live, outcome))
    mean_ms, per_second = _figures(outcome)
    words = _figure_words(mean_ms, per_second)
    return msgspec.structs.replace(told, summary=words, iteration_ms=mean_ms, items_per_second=per_second)


def _figures(result: Result) -> tuple[float, float | None]:
    """The mean time of an iteration, and items a second; None for loads and probes, which have no items."""
    times = result.times_ms("iteration")
    mean_ms = sum(times) / len(times)
    without_items = result.cell.workload in (Workload.LOAD, Workload.PROBE)
    per_second = None if without_items else result.items_per_iteration / mean_ms * 1000
    return mean_ms, per_second


def _figure_words(mean_ms: float, per_second: float | None) -> str:
    words = f"{mean_ms:.3g} ms" if mean_ms < 100 else f"{mean_ms:,.0f} ms"
    return words if per_second is None else f"{words}, {per_second:,.1f} items/s"


def _next_step(state: RunState, live: Live, failure: Failure) -> str:
    """What is done about a failure."""
    rule = POLICY[failure.category]
    status = state.slots[live.next.slot].status
    if failure.category is Category.STOPPED and status is SlotStatus.WAITING:
        return "`resume` measures it again"
    if live.next.scans and status is not SlotStatus.FAILED and rule.reaction is not Reaction.RETRY:
        return "the scan for the batch size knows its limit"
    if status is SlotStatus.WAITING or rule.reaction is Reaction.QUARANTINE:
        return str(rule.reaction)
    if status is SlotStatus.DOES_NOT_FIT:
        return "the model itself does not fit: no batch size would"
    return str(Reaction.GIVE_UP)


def _line(device: Device, state: RunState, live: Live | None, samples: Mapping[str, Sample], note: str) -> DeviceLine:
    sample = samples.get(device.uuid)
    power = None if sample is None or sample.power_mw is None else sample.power_mw / 1000
    return DeviceLine(
        uuid=device.uuid,
        label=device.label,
        name=device.name,
        cell=None if live is None else _cell_words(live),
        batch_size=None if live is None else live.next.cell.batch_size,
        attempt=1 if live is None else live.next.attempt,
        phase=None if live is None else live.launch.phase,
        fraction=0.0 if live is None else live.launch.fraction,
        temperature_c=None if sample is None else sample.temperature_c,
        power_w=power,
        sm_clock_mhz=None if sample is None else sample.sm_clock_mhz,
        note=state.devices[device.uuid].quarantined or note,
    )


def _cell_words(live: Live) -> str:
    cell = live.next.cell
    return f"{cell.model} {cell.workload} {cell.precision}"


def _eta_s(state: RunState, launch_s: Mapping[str, float]) -> float | None:
    """Seconds until the slowest device is through, None before every device has ended a launch."""
    left: dict[str, int] = dict.fromkeys(state.devices, 0)
    for (cell_id, _), slot in state.slots.items():
        if slot.status not in SETTLED:
            left[state.cells[cell_id].devices[0]] += 1
    waiting = {device: number for device, number in left.items() if not state.devices[device].quarantined and number}
    if any(device not in launch_s for device in waiting):
        return None
    times = [number * launch_s[device] for device, number in waiting.items()]
    return sum(times) if state.solo else max(times, default=0.0)
