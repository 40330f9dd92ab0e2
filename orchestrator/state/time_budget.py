"""Decide which launches (measurements) still fit into a run's time limit.

    estimate ──▶ expected ──▶ fits into the remaining time?  yes: launch      no: drop it, look at the next
                   ▲
       measured, finished: how long launches really took, device by device

While shorter launches wait, no launch gets more than a quarter of the limit: it is postponed, or ended. Cells of fixed
length and the first launches of a gate (comparison until a verdict) are exempt.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

import msgspec

from orchestrator.config.run_configuration import Configuration, Plan, Slot
from orchestrator.plan import batch_scan, estimate
from orchestrator.state.slots import RunState, SlotStatus
from protocol.cell import AUTO, Cell, Device, Mode, Workload
from protocol.result import Result

CLOSING_S: Final = 6.0
"""Seconds to end launches and write reports: reports took 0.8 s for 204 cells on two cores, about 3 s for 1,632."""
_OF_THE_LIMIT: Final = 0.005
"""Share of a burn-in's duration for its reports. For 1.5 h on two CPU devices, 462 launches, they took 7.5 s of a core.
Eight GPUs measure some twenty times as many in 8 h.
"""
PATIENCE_S: Final = 3.0
"""Longest wait for a process after its SIGKILL, in seconds."""
SHARE: Final = 0.25
"""Largest share of the time limit for one launch while other launches wait."""
_LEAST: Final = 0.05
_MOST: Final = 50.0


def closing_s(duration_s: float) -> float:
    """Return how many of a burn-in's `duration_s` seconds are kept to end launches and write reports."""
    return CLOSING_S + _OF_THE_LIMIT * duration_s


class Time(NamedTuple):
    """The time of a run with a limit. spent_s: seconds since the limit began to count.

    left_s: seconds left for launches, without those kept for reports; may be negative.
    """

    spent_s: float
    left_s: float


def time_after(configuration: Configuration, limit_s: float, spent_s: float) -> Time:
    """Return the run's time after `spent_s` of its `limit_s` seconds.

    The time left does not include the seconds kept to end launches and write reports: those of `closing_s` in a
    burn-in, CLOSING_S in other runs.
    """
    return Time(spent_s, limit_s - _kept_s(configuration) - spent_s)


class Budget:
    """The time limit of one run. Times are monotonic seconds.

    limit_s: the limit in seconds. began: when it began to count. ends: from then on no launch starts, and running ones
    are ended. latest: from then on the run does not wait for processes that it has ended. starts: when the import of
    modules began, if the limit does not count the import. None if it does.
    """

    def __init__(
        self,
        configuration: Configuration,
        devices: Sequence[Device],
        limit_s: float,
        began: float,
        *,
        starts: float | None = None,
    ) -> None:
        self.limit_s = limit_s
        self._began = began
        self._closing_s = _kept_s(configuration)
        self.ends = began + limit_s - self._closing_s
        self.latest = self.ends + PATIENCE_S
        self._ran_out = False
        self._starts = starts
        self._share_s = limit_s * SHARE if configuration.cell_s is None else math.inf
        self._configuration = configuration
        self._devices = {device.uuid: device for device in devices}
        self._speeds: dict[tuple[str, ...], list[float]] = defaultdict(list)
        self._costs: dict[str, list[float]] = defaultdict(list)
        self._too_long: set[Slot] = set()

    @property
    def is_starting(self) -> bool:
        """Whether modules are still imported, in a run whose time limit does not count the import."""
        return self._starts is not None

    def first_launch_can_begin(self, now: float) -> float:
        """Record that the modules are imported. Return the seconds by which the end of the limit was moved for that.

        0 after the first call, and in a run whose limit counts the import. now: monotonic seconds.
        """
        by_s = 0.0 if self._starts is None else max(now - self._starts, 0.0)
        self._starts = None
        self._began += by_s
        self.ends += by_s
        self.latest += by_s
        return by_s

    def expected_s(self, cell: Cell) -> float:
        """Return the expected seconds of a launch of `cell`: the estimate, corrected by launches so far."""
        device = self._devices[cell.devices[0]]
        overhead = median([1.0, *self._costs[device.uuid]])
        return overhead * estimate.launch_s(cell, self._configuration, device, self._scale(cell))

    def time(self, now: float) -> Time:
        """Return the spent and the remaining time at `now` (monotonic seconds)."""
        counted = now if self._starts is None else min(self._starts, now)
        return time_after(self._configuration, self.limit_s, counted - self._began)

    def measured(self, result: Result) -> None:
        """Correct later estimates by the iteration times of a result. A result without them is ignored."""
        cell, times = result.cell, result.times_ms("iteration")
        if not times:
            return
        model, device = self._configuration.by_name[cell.model], self._devices[cell.devices[0]]
        seen_s = sum(times) / len(times) / 1000
        speed = _believable(seen_s / estimate.iteration_s(cell, model, device))
        for key in _keys(cell):
            self._speeds[key].append(speed)

    def finished(self, cell: Cell, lasted_s: float) -> None:
        """Correct later estimates by a launch with a result. lasted_s: from its request until its devices were free."""
        device = self._devices[cell.devices[0]]
        explained_s = estimate.launch_s(cell, self._configuration, device, self._scale(cell))
        self._costs[device.uuid].append(_believable(lasted_s / explained_s))

    def decide(self, state: RunState, now: float) -> Iterator[tuple[Slot, str]]:
        """Yield (launch, reason to drop it) for launches of idle devices that do not fit.

        Each queue is searched from its head to the first launch that fits. The reason is "" if the launch is only to be
        postponed. Once no time is left, all waiting launches are yielded; while the run is stopping, none. Queues of
        quarantined devices are ignored; while time is left, also those of devices with fewer than
        Configuration.least_launches launches so far. now: monotonic seconds.
        """
        if state.stopping:
            return
        left_s = self.ends - now
        decided: set[Slot] = set()  # a gang is in the queue of each of its devices
        least = self._configuration.least_launches
        for uuid, device in state.devices.items():
            if device.quarantined or (left_s > 0 and device.running is not None):
                continue
            if left_s > 0 and len(self._tried(state, uuid)) < least:
                continue
            for place, slot in enumerate(device.queue):
                if slot in decided:
                    continue
                expected_s = self._next_s(state, slot)
                if slot in self._too_long or expected_s > left_s:
                    decided.add(slot)
                    yield slot, self._why(slot, expected_s, left_s)
                elif expected_s > self._share_s and self._cheap(state, device.queue[place + 1 :], left_s):
                    decided.add(slot)
                    yield slot, ""
                else:
                    break

    def takes_too_long(self, state: RunState, slot: Slot, began: float, now: float) -> bool:
        """Whether to end a running launch in favour of shorter ones that wait. If True, `decide` will drop its slot.

        True if it has run for more than a quarter of the limit, is not exempt (see the module), and a shorter launch
        waits on its device. began: when it started. began, now: monotonic seconds.
        """
        uuid = state.cells[slot[0]].devices[0]
        queue = state.devices[uuid].queue
        running = state.slots[slot].status is SlotStatus.RUNNING
        had_its_share = running and now - began > self._share_s
        if not had_its_share or slot in self._tried(state, uuid) or not self._cheap(state, queue, self.ends - now):
            return False
        self._too_long.add(slot)
        return True

    def ran_out(self, now: float) -> None:
        """Record that running launches are ended at `now`. The run then waits PATIENCE_S for their processes."""
        self.latest = max(self.latest, now + PATIENCE_S)
        self._ran_out = True

    def awaits_nothing(self, now: float) -> bool:
        """Whether the run no longer waits for the processes of launches that the time limit ended."""
        return self._ran_out and now >= self.latest

    def forecast(self, plan: Plan, device: Device) -> tuple[Slot, ...]:
        """Return a device's planned launches that are expected to fit into the limit, in order, as (cell id, round)."""
        cells = {cell.id: cell for cell in plan.cells}
        left_s = self.for_launches_s(device)
        fitting: list[Slot] = []
        for cell_id, number in plan.order[device.uuid]:
            expected_s = self.expected_s(cells[cell_id])
            if expected_s <= left_s:
                left_s -= expected_s * (len(plan.order) if cells[cell_id].mode is Mode.SOLO else 1)
                fitting.append((cell_id, number))
        return tuple(fitting)

    def for_launches_s(self, device: Device) -> float:
        """Return the seconds of the whole limit that are for launches on `device`, whatever was spent so far.

        They are the limit without the expected start-up and the time kept for reports.
        """
        return self.limit_s - self._closing_s - estimate.shared_start_s(self._configuration, [device])

    def _scale(self, cell: Cell) -> float:
        """Return the expected ratio of the real to the estimated time of an iteration of `cell`.

        It is the median of the ratios measured with the same model, workload and precision on the same device. Without
        any, it is between the initial ratio (estimate.scale) and the smallest ratio of similar cells. The more similar
        cells were measured, the closer it is to their smallest ratio. Similar cells have the same device, workload and
        precision. If none of them was measured, all cells of the device count as similar. Cells of the workload REPLAY
        are then similar to no others.
        """
        own, *others = _keys(cell)
        if own in self._speeds:
            return median(self._speeds[own])
        seen = next((self._speeds[key] for key in others if key in self._speeds), [])
        unseen = estimate.scale(self._configuration, self._devices[cell.devices[0]], tuple(self._devices.values()))
        return float(unseen * (min(seen, default=unseen) / unseen) ** (len(seen) / (len(seen) + 1)))

    def _tried(self, state: RunState, uuid: str) -> list[Slot]:
        least = self._configuration.least_launches
        begun = dict.fromkeys(state.launches.values()) if least else ()
        return [slot for slot in begun if uuid in state.cells[slot[0]].devices][:least]

    def _cheap(self, state: RunState, queue: Sequence[Slot], left_s: float) -> bool:
        most_s = min(self._share_s, left_s)
        return any(slot not in self._too_long and self._next_s(state, slot) <= most_s for slot in queue)

    def _next_s(self, state: RunState, slot: Slot) -> float:
        cell = state.cells[slot[0]]
        if cell.batch_size == AUTO:
            size = batch_scan.next_batch(state.slots[slot].tried, state.rooms[cell.devices[0]])
            assert size is not None, "a scan that waits is not over"
            cell = msgspec.structs.replace(cell, batch_size=size)
        return self.expected_s(cell)

    def _why(self, slot: Slot, expected_s: float, left_s: float) -> str:
        limit = f"the limit of {self.limit_s:g} s"
        if slot in self._too_long:
            return f"dropped to keep {limit}: ended after {self._share_s:g} s, because other cells waited"
        if left_s <= 0:
            return f"dropped to keep {limit}: no time was left"
        return f"dropped to keep {limit}: it takes {estimate.about(expected_s)}, and {left_s:.0f} s were left"


def _kept_s(configuration: Configuration) -> float:
    limit_s = configuration.time_limit_s
    return CLOSING_S if configuration.cell_s is None or limit_s is None else closing_s(limit_s)


def _keys(cell: Cell) -> tuple[tuple[str, ...], ...]:
    device = cell.devices[0]
    closest = (device, cell.workload, cell.precision, cell.model), (device, cell.workload, cell.precision)
    return closest if cell.workload is Workload.REPLAY else (*closest, (device,))


def _believable(ratio: float) -> float:
    return min(max(ratio, _LEAST), _MOST)
