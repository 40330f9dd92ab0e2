"""What a person sees, from where the run stands: the snapshot, the time left, the words for an outcome. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.config.naming import sized
from orchestrator.config.workloads import WORKLOADS
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
    *(SlotStatus.FAILED, SlotStatus.DOES_NOT_FIT, SlotStatus.SKIPPED, SlotStatus.DROPPED),
)


class Alike(msgspec.Struct, frozen=True):
    """What a plan has cells at that are alike else, which decides whether a cell is named with its own.

    sizes: input sizes by model and workload. modes: of the whole run, which measures each model in all of them.
    """

    sizes: Mapping[tuple[str, Workload], Collection[int | None]]
    modes: Collection[Mode]

    def words(self, cell: Cell) -> str:
        """A cell as people see it, without its batch size: "resnet50@512 training fp32 solo"."""
        mode = f" {cell.mode}" if len(self.modes) > 1 else ""
        name = sized(cell.model, cell.input_size, self.sizes[cell.model, cell.workload])
        return f"{name} {cell.workload} {cell.precision}{mode}"


def alike(cells: Iterable[Cell]) -> Alike:
    """That of a plan's cells."""
    found: dict[tuple[str, Workload], set[int | None]] = {}
    modes: set[Mode] = set()
    for cell in cells:
        found.setdefault((cell.model, cell.workload), set()).add(cell.input_size)
        modes.add(cell.mode)
    return Alike(found, modes)


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
    stands: Mapping[SlotStatus, int],
    note: str,
) -> Snapshot:
    """The whole run at one moment. named: alike(all cells). launch_s: mean duration of ended launches, by device.

    What waits of a skipped model needs no launch any more: it counts as done and failed before its turn comes.
    expected_s: what a launch of each cell was estimated to take. limited: None without a time limit. stops_s: as in
    eta. rounds: of a burn-in, which has them until its time is up: what is dropped of them at its end was never to be
    done. stands: cells(state), which need not be the newest. note: what launches wait for, before which nobody knows
    how long they take.
    """
    by_device = {one.device.uuid: one for one in live.values()}
    in_vain = sum(state.in_vain.values())
    done = state.settled + in_vain
    total = None if rounds else len(state.slots)
    through_s = through(None if note or rounds else launches_s(state, launch_s, expected_s), total, limited)
    return Snapshot(
        devices=tuple(
            _line(device, state, by_device.get(device.uuid), samples.get(device.uuid), named=named, note=note)
            for device in devices
        ),
        done=done - state.tally[SlotStatus.DROPPED] if rounds else done,
        total=total,
        share=share(done, total, limited, through_s),
        failed=state.tally[SlotStatus.FAILED] + state.tally[SlotStatus.SKIPPED] + in_vain,
        elapsed_s=elapsed_s,
        eta_s=eta(through_s, stops_s),
        cells=stands,
    )


def through(launches_s: float | None, total: int | None, limited: Time | None) -> float | None:
    """Seconds until a run has nothing more to measure, if nobody stops it; None where that cannot be told.

    launches_s: what those that are left take, None where that cannot be told. A limit alone says little of a plan that
    may be through long before it; of a burn-in, which has rounds until its time is up, all. total: None of that.
    """
    left_s = None if limited is None else max(limited.left_s, 0.0)
    if total is None or launches_s is None:
        return left_s if total is None else None
    return launches_s if left_s is None else min(launches_s, left_s)


def eta(through_s: float | None, stops_s: float | None) -> float | None:
    """Seconds until nothing is measured any more. What is told by the run itself and from outside; reports come after.

    stops_s: until a stop that was asked for ends what still runs, maybe less than nothing; None where nobody has asked.
    """
    if stops_s is None:
        return through_s
    return max(stops_s, 0.0) if through_s is None else min(through_s, max(stops_s, 0.0))


def share(done: int, total: int | None, limited: Time | None, through_s: float | None) -> float:
    """How much of a run is over, from 0 to 1: of its time where that has a limit, else of its launches.

    Under a limit launches say little: a burn-in has rounds until its time is up, and a preset drops what does not fit.
    through_s: such a run may be so before its time is up; None where that cannot be told. total: None of a burn-in.
    """
    if limited is None or done == total:
        return done / total if total else 1.0
    spent_s, left_s = max(limited.spent_s, 0.0), max(limited.left_s, 0.0)
    whole_s = spent_s + (left_s if through_s is None else min(through_s, left_s))
    return spent_s / whole_s if whole_s else 1.0


def cells(state: RunState) -> dict[SlotStatus, int]:
    """How many planned cells stand where. Looks at every launch: for once in a while.

    A cell of several launches stands where the first of them does in the order of _STANDS: it waits until all are over.
    """
    places: dict[str, int] = {}
    for (cell_id, _), slot in state.slots.items():
        in_vain = slot.status is SlotStatus.WAITING and is_skipped(state, state.cells[cell_id])
        place = _STANDS.index(SlotStatus.SKIPPED if in_vain else slot.status)
        places[cell_id] = min(place, places.get(cell_id, place))
    counts = Counter(places.values())
    return {status: counts[place] for place, status in enumerate(_STANDS)}


def ended(state: RunState, live: Live, device: Device, outcome: Result | Failure, named: Alike) -> CellEnded:
    """A launch is over, in words. `state` is the one after its end. named: alike(all cells)."""
    told = CellEnded(
        label=device.label,
        cell=named.words(live.next.cell),
        cell_id=live.next.planned,
        batch_size=live.next.cell.batch_size,
        attempt=live.next.attempt,
        summary="",
    )
    if isinstance(outcome, Failure):
        words = f"{how_it_ended(outcome.category, outcome.message)}: {outcome.message}"
        return msgspec.structs.replace(
            told,
            summary=words,
            failure=outcome,
            again=_again(state, live, outcome),
            next_step=_next_step(state, live, outcome),
        )
    mean_ms, per_second = _figures(outcome)
    words = _figure_words(mean_ms, _rate(outcome, mean_ms) or _items(per_second))
    return msgspec.structs.replace(told, summary=words, iteration_ms=mean_ms, items_per_second=per_second)


def _figures(result: Result) -> tuple[float, float | None]:
    """The mean time of an iteration, and items a second as the report has them; None where there are no items."""
    figures = launch.of_launch(result)
    has_items = WORKLOADS[result.cell.workload].has_items
    return figures.means_ms["iteration"], figures.throughput if has_items else None


def _rate(result: Result, mean_ms: float) -> str:
    """Of what measures the device and no model, whose times say nothing without the size: operations or bytes."""
    if not WORKLOADS[result.cell.workload].device_rate or mean_ms <= 0:
        return ""
    if result.flops_per_iteration:
        return f"{result.flops_per_iteration / mean_ms / 1e9:.3g} TFLOP/s"
    moved = sum(result.bytes_per_iteration.values())
    return f"{moved / mean_ms / 1e6:.3g} GB/s" if moved and result.cell.workload is Workload.PROBE else ""


def _items(per_second: float | None) -> str:
    return "" if per_second is None else f"{per_second:,.1f} smp/s"


def _figure_words(mean_ms: float, rate: str) -> str:
    words = f"{mean_ms:.3g} ms" if mean_ms < 100 else f"{mean_ms:,.0f} ms"
    return f"{words}, {rate}" if rate else words


def _again(state: RunState, live: Live, failure: Failure) -> bool:
    """Whether the failed launch is made once more in this run; a scan goes on with another size."""
    if failure.category is Category.STOPPED or (live.next.scans and not POLICY[failure.category].retries):
        return False
    return state.slots[live.next.slot].status is SlotStatus.WAITING


def _next_step(state: RunState, live: Live, failure: Failure) -> str:
    """What is done about a failure."""
    rule = POLICY[failure.category]
    status = state.slots[live.next.slot].status
    if failure.category is Category.STOPPED and status is SlotStatus.WAITING:
        return "dropped" if failure.message == OUT_OF_TIME else "`resume` measures it again"
    if live.next.scans and status is not SlotStatus.FAILED and not rule.retries:
        return "the scan for the batch size knows its limit"
    fits_not = "the model itself does not fit: no batch size would" if state.skips else "the next round has it again"
    if rule.reaction is Reaction.RETRY_SMALLER and live.next.cell.batch_size == 1 and not live.next.scans:
        return fits_not
    if rule.reaction is Reaction.RETRY_SMALLER and status is SlotStatus.WAITING and not live.next.scans:
        return f"{rule.reaction}, {fitting(state, live.next.slot)}"
    if status is SlotStatus.WAITING:
        return str(Reaction.RETRY if rule.reaction is Reaction.ELSEWHERE else rule.reaction)
    if rule.reaction is Reaction.QUARANTINE:
        return str(rule.reaction)
    if scope := skipped_as(state, state.cells[live.next.planned]):
        return f"{scope} is skipped on every device"
    if live.next.slot in state.asked and fault_placement.judge(state, live.next.slot) is Blame.OPEN:
        return "the same cell is run on another device"
    if status is SlotStatus.DOES_NOT_FIT:
        return fits_not
    return str(Reaction.GIVE_UP)


def _line(
    device: Device, state: RunState, live: Live | None, sample: Sample | None, *, named: Alike, note: str
) -> DeviceLine:
    power = None if sample is None or sample.power_mw is None else sample.power_mw / 1000
    return DeviceLine(
        uuid=device.uuid,
        label=device.label,
        name=device.name,
        cell=None if live is None else named.words(live.next.cell),
        cell_id=None if live is None else live.next.planned,
        batch_size=None if live is None else live.next.cell.batch_size,
        attempt=1 if live is None else live.next.attempt,
        phase=None if live is None else live.launch.phase,
        fraction=0.0 if live is None else live.launch.fraction,
        temperature_c=None if sample is None else sample.temperature_c,
        power_w=power,
        sm_clock_mhz=None if sample is None else sample.sm_clock_mhz,
        sample=sample,
        taken_out=bool(state.devices[device.uuid].quarantined),
        note=state.devices[device.uuid].quarantined or note,
    )


def launches_s(
    state: RunState, launch_s: Mapping[str, float], expected_s: Mapping[str, float] | None = None
) -> float | None:
    """Seconds until the slowest device is through; None where that cannot be estimated.

    launch_s: mean duration of the launches that have ended, by device. expected_s: how long a launch of each cell is
    estimated to take, which counts before a device has ended one. Where fewer may work at once than there are devices,
    those take turns, and the work of all is shared among so many.
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
    """The share of what waits on a device for which all others stop, in a run that has both kinds."""
    queue = state.devices[uuid].queue
    if not turns.are_taken(state) or not queue:
        return 0.0
    return sum(state.cells[cell].mode is Mode.SOLO for cell, _ in queue) / len(queue)


def _left_s(
    state: RunState, uuid: str, device: DeviceState, launch_s: float | None, expected_s: Mapping[str, float] | None
) -> float | None:
    """Seconds that the launches of a device will take which wait or run; None where that cannot be estimated.

    launch_s: mean duration of those that have ended: each launch is looked at only before any has.
    """
    now = None if device.running is None else state.launches[device.running]
    runs = now is not None and state.slots[now].status is SlotStatus.RUNNING
    number = len(device.queue) - state.in_vain.get(uuid, 0) + runs
    if launch_s is not None or not number:
        return (launch_s or 0.0) * number
    if expected_s is None:
        return None
    waiting_s = sum(expected_s[cell] for cell, _ in device.queue if not is_skipped(state, state.cells[cell]))
    return waiting_s + (expected_s[now[0]] if runs and now is not None else 0.0)
