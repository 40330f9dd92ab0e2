"""Describe the progress of a run for people: snapshot, remaining time, outcome of a launch (measurement). Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.config.naming import sized
from orchestrator.config.workloads import WORKLOADS, Role
from orchestrator.engine.display_events import CellEnded, DeviceLine, Snapshot
from orchestrator.engine.launches.live import Live
from orchestrator.state import fault_placement, turns
from orchestrator.state.failure_policy import POLICY, Reaction
from orchestrator.state.fault_placement import Blame
from orchestrator.state.slots import DeviceState, RunState, SlotStatus, is_skipped, skipped_as
from orchestrator.state.stopping import OUT_OF_TIME, how_it_ended
from orchestrator.state.time_budget import Time
from orchestrator.state.transitions import fitting
from orchestrator.stats import launch
from protocol.cell import Cell, Device, Mode, Workload
from protocol.failure import Category, Failure
from protocol.messages import Sample
from protocol.result import Result

_STANDS: Final = (
    *(SlotStatus.RUNNING, SlotStatus.WAITING, SlotStatus.MEASURED, SlotStatus.REFERRED),
    *(SlotStatus.FAILED, SlotStatus.DOES_NOT_FIT, SlotStatus.UNSUPPORTED, SlotStatus.SKIPPED, SlotStatus.DROPPED),
)


class Alike(msgspec.Struct, frozen=True):
    """Names cells of a plan by the properties in which they differ. sizes: (model, workload) → its input sizes."""

    sizes: Mapping[tuple[str, Workload], Collection[int | None]]
    modes: Collection[Mode]

    def describe(self, cell: Cell) -> str:
        """Describe a cell in words, without its batch size: "resnet50@512 training fp32 solo".

        The input size is named only if the plan has several for this model and workload. The mode is named only if the
        plan has several modes.
        """
        mode = f" {cell.mode}" if len(self.modes) > 1 else ""
        name = sized(cell.model, cell.input_size, self.sizes[cell.model, cell.workload])
        compiled = f" {cell.compile_name}" if cell.compiles else ""
        return f"{name} {cell.workload} {cell.precision}{compiled}{mode}"


def alike(cells: Iterable[Cell]) -> Alike:
    """Collect the input sizes and modes of the cells of a plan."""
    sizes: dict[tuple[str, Workload], set[int | None]] = {}
    modes: set[Mode] = set()
    for cell in cells:
        sizes.setdefault((cell.model, cell.workload), set()).add(cell.input_size)
        modes.add(cell.mode)
    return Alike(sizes, modes)


def snapshot(
    state: RunState,
    devices: tuple[Device, ...],
    live: Mapping[str, Live],
    samples: Mapping[str, Sample],
    named: Alike,
    *,
    elapsed_s: float,
    launch_s: Mapping[str, float],
    expected_s: Mapping[str, float],
    limited: Time | None,
    stops_s: float | None,
    rounds: bool,
    open_ended: bool,
    stands: Mapping[SlotStatus, int],
    note: str,
) -> Snapshot:
    """Describe the whole run at one moment. Waiting launches of a skipped model count as done and failed.

    live: token of a launch → its process. samples: UUID → newest reading. named: describes cells. elapsed_s: since this
    process began to launch. launch_s: device (UUID) → mean seconds of its ended launches. expected_s: cell id →
    estimated seconds of a launch. limited: seconds spent and left, None without a time limit. stops_s: seconds until a
    stop or the time limit has ended all launches, None without either. rounds: launches are added until the time is up,
    so their total is unknown. Launches dropped for lack of time then do not count as done. open_ended: any number of
    launches may be added, perhaps none, so only the time tells the share and the end. stands: status → number of
    planned cells. note: what idle devices wait for. If it is not "", the remaining launches are not used to estimate
    the remaining time.
    """
    by_device = {launch.device.uuid: launch for launch in live.values()}
    in_vain = sum(state.in_vain.values())
    done = state.settled + in_vain
    total = None if rounds else len(state.slots)
    unknown = note or rounds or open_ended
    through_s = through(None if unknown else launches_s(state, launch_s, expected_s), total, limited)
    return Snapshot(
        devices=tuple(
            _line(device, state, by_device.get(device.uuid), samples.get(device.uuid), named=named, note=note)
            for device in devices
        ),
        done=done - state.tally[SlotStatus.DROPPED] if rounds else done,
        total=total,
        share=share(done, None if open_ended else total, limited, through_s),
        failed=state.tally[SlotStatus.FAILED] + state.tally[SlotStatus.SKIPPED] + in_vain,
        elapsed_s=elapsed_s,
        eta_s=eta(through_s, stops_s),
        cells=stands,
    )


def through(launches_s: float | None, total: int | None, limited: Time | None) -> float | None:
    """Return the seconds until the last measurement of a run ends if nobody stops it; None if unknown.

    launches_s: seconds until all devices have finished their launches, None if unknown. total: number of launches, None
    if rounds are added until the time is up. limited: seconds spent and left, None without a time limit.
    """
    left_s = None if limited is None else max(limited.left_s, 0.0)
    if total is None or launches_s is None:
        return left_s if total is None else None
    return launches_s if left_s is None else min(launches_s, left_s)


def eta(through_s: float | None, stops_s: float | None) -> float | None:
    """Return the seconds until the last measurement ends: the smaller argument, or None if both are None.

    through_s: seconds until it ends if nobody stops the run, None if unknown. stops_s: seconds until a stop or the time
    limit has ended all launches, None without either.
    """
    if stops_s is None:
        return through_s
    return max(stops_s, 0.0) if through_s is None else min(through_s, max(stops_s, 0.0))


def share(done: int, total: int | None, limited: Time | None, through_s: float | None) -> float:
    """Return the share of a run that is over, 0 to 1: of its time if that is limited, else of its launches.

    done, total: numbers of launches. total: None if any number may be added; without a limit, the share is then 1.
    limited: seconds spent and left, None without a time limit. through_s: seconds until the last measurement ends if
    nobody stops the run, None if unknown.
    """
    if limited is None or done == total:
        return done / total if total else 1.0
    spent_s, left_s = max(limited.spent_s, 0.0), max(limited.left_s, 0.0)
    whole_s = spent_s + (left_s if through_s is None else min(through_s, left_s))
    return spent_s / whole_s if whole_s else 1.0


def cells(state: RunState) -> dict[SlotStatus, int]:
    """Return status → number of planned cells, for every status. Slow: looks at every slot.

    A waiting launch of a skipped model counts as skipped. If launches of a cell differ, it counts under the first of
    these that any has: running, waiting, measured, referred, failed, does not fit, unsupported, skipped, dropped.
    """
    places: dict[str, int] = {}
    for (cell_id, _), slot in state.slots.items():
        in_vain = slot.status is SlotStatus.WAITING and is_skipped(state, state.cells[cell_id])
        place = _STANDS.index(SlotStatus.SKIPPED if in_vain else slot.status)
        places[cell_id] = min(place, places.get(cell_id, place))
    counts = Counter(places.values())
    return {status: counts[place] for place, status in enumerate(_STANDS)}


def ended(state: RunState, live: Live, device: Device, outcome: Result | Failure, named: Alike) -> CellEnded:
    """Describe a launch that has just ended, for people. The caller sets CellEnded.repeated.

    state: of the run after the end of the launch. live: process of the launch. device: the one whose label is shown.
    named: describes cells.
    """
    event = CellEnded(
        label=device.label,
        cell=named.describe(live.next.cell),
        cell_id=live.next.planned,
        batch_size=live.next.cell.batch_size,
        attempt=live.next.attempt,
        summary="",
    )
    if isinstance(outcome, Failure):
        words = f"{how_it_ended(outcome.category, outcome.message)}: {outcome.message}"
        return msgspec.structs.replace(
            event,
            summary=words,
            failure=outcome,
            again=_again(state, live, outcome),
            next_step=_next_step(state, live, outcome),
        )
    figures = launch.of_launch(outcome)
    mean_ms = figures.means_ms.get("iteration")
    if mean_ms is None:
        return msgspec.structs.replace(event, summary="a result without times")
    per_second = figures.throughput if WORKLOADS[outcome.cell.workload].has_items else None
    time = f"{mean_ms:.3g} ms" if mean_ms < 100 else f"{mean_ms:,.0f} ms"
    counts = per_second is not None and WORKLOADS[outcome.cell.workload].role is not Role.CHECK
    rate = _device_rate(outcome, mean_ms) or (f"{per_second:,.1f} smp/s" if counts else "")
    summary = f"{time}, {rate}" if rate else time
    return msgspec.structs.replace(event, summary=summary, iteration_ms=mean_ms, items_per_second=per_second)


def _device_rate(result: Result, mean_ms: float) -> str:
    if not WORKLOADS[result.cell.workload].device_rate or mean_ms <= 0:
        return ""
    if result.flops_per_iteration:
        return f"{result.flops_per_iteration / mean_ms / 1e9:.3g} TFLOP/s"
    moved = sum(result.bytes_per_iteration.values())
    return f"{moved / mean_ms / 1e6:.3g} GB/s" if moved and result.cell.workload is Workload.PROBE else ""


def _again(state: RunState, live: Live, failure: Failure) -> bool:
    """Whether a failed launch is repeated in this run. False if a batch size scan only goes on with another size."""
    if failure.category is Category.STOPPED or (live.next.scans and not POLICY[failure.category].retries):
        return False
    return state.slots[live.next.slot].status is SlotStatus.WAITING


def _next_step(state: RunState, live: Live, failure: Failure) -> str:
    rule = POLICY[failure.category]
    status = state.slots[live.next.slot].status
    if failure.category is Category.STOPPED and status is SlotStatus.WAITING:
        return "dropped" if failure.message == OUT_OF_TIME else "`resume` measures it again"
    if rule.reaction in {Reaction.QUARANTINE, Reaction.NOT_SUPPORTED}:
        return str(rule.reaction)
    if live.next.scans and status is not SlotStatus.FAILED and not rule.retries:
        return "the batch size scan found its limit"
    fits_not = "the model itself does not fit at any batch size" if state.skips else "the next round tries it again"
    if rule.reaction is Reaction.RETRY_SMALLER and live.next.cell.batch_size == 1 and not live.next.scans:
        return fits_not
    if rule.reaction is Reaction.RETRY_SMALLER and status is SlotStatus.WAITING and not live.next.scans:
        return f"{rule.reaction}, {fitting(state, live.next.slot)}"
    if status is SlotStatus.WAITING:
        return str(Reaction.RETRY if rule.reaction is Reaction.ELSEWHERE else rule.reaction)
    if scope := skipped_as(state, state.cells[live.next.planned]):
        return f"{scope} is skipped on every device"
    if live.next.slot in state.unattributed and fault_placement.judge(state, live.next.slot) is Blame.OPEN:
        return "the same cell runs on another device"
    if status is SlotStatus.DOES_NOT_FIT:
        return fits_not
    return str(Reaction.GIVE_UP)


def _line(
    device: Device, state: RunState, live: Live | None, sample: Sample | None, *, named: Alike, note: str
) -> DeviceLine:
    quarantined = state.devices[device.uuid].quarantined
    line = DeviceLine(
        uuid=device.uuid,
        label=device.label,
        name=device.name,
        sample=sample,
        quarantined=bool(quarantined),
        note=quarantined or note,
    )
    if live is not None:
        line = msgspec.structs.replace(
            line,
            cell=named.describe(live.next.cell),
            cell_id=live.next.planned,
            batch_size=live.next.cell.batch_size,
            attempt=live.next.attempt,
            phase=live.launch.phase,
            fraction=live.launch.fraction,
        )
    if sample is not None:
        line = msgspec.structs.replace(
            line,
            temperature_c=sample.temperature_c,
            power_w=None if sample.power_mw is None else sample.power_mw / 1000,
            sm_clock_mhz=sample.sm_clock_mhz,
        )
    return line


def launches_s(
    state: RunState, launch_s: Mapping[str, float], expected_s: Mapping[str, float] | None = None
) -> float | None:
    """Return the seconds until all devices have finished their launches; 0 if none is left.

    Launches in mode solo run on one device at a time, so their times are added up. None if a device with launches left
    has neither an ended launch (launch_s: device → their mean seconds) nor
    estimates (expected_s: cell → seconds of a launch).
    """
    times: dict[str, float] = {}
    for uuid, device in state.devices.items():
        if not device.quarantined:
            left_s = _left_s(state, uuid, device, launch_s.get(uuid), expected_s)
            if left_s is None:
                return None
            times[uuid] = left_s
    alone_s = {uuid: time_s * _alone(state, uuid) for uuid, time_s in times.items()}
    together_s = [time_s - alone_s[uuid] for uuid, time_s in times.items()]
    return sum(alone_s.values()) + max(max(together_s, default=0.0), sum(together_s) / state.most)


def _alone(state: RunState, uuid: str) -> float:
    """Return the share (0 to 1) of a device's waiting launches that have the mode solo.

    Every other device is idle during such a launch. The share is 0 if the run does not measure both modes.
    """
    queue = state.devices[uuid].queue
    if not turns.are_taken(state) or not queue:
        return 0.0
    return sum(state.cells[cell].mode is Mode.SOLO for cell, _ in queue) / len(queue)


def _left_s(
    state: RunState, uuid: str, device: DeviceState, launch_s: float | None, expected_s: Mapping[str, float] | None
) -> float | None:
    now = None if device.running is None else state.launches[device.running]
    runs = now is not None and state.slots[now].status is SlotStatus.RUNNING
    number = len(device.queue) - state.in_vain.get(uuid, 0) + runs
    if launch_s is not None or not number:
        return (launch_s or 0.0) * number
    if expected_s is None:
        return None
    waiting_s = sum(expected_s[cell] for cell, _ in device.queue if not is_skipped(state, state.cells[cell]))
    return waiting_s + (expected_s[now[0]] if runs and now is not None else 0.0)
