"""What there is still time for in a run with a time limit. Pure but for what it has learned: time comes as an argument.

    estimate ──▶ expected ──▶ fits into what is left?  yes: launch      no: drop it, and look at the next
                   ▲
       measured, finished: what launches really took, device by device

Launches are looked at in the plan's order (priority.py) when their device is idle, so what is dropped is what matters
least, and what is cheap may still go where something expensive did not. No launch gets more than a quarter of the limit
while others wait that need less: it lets them go first, or is ended, so that one slow model does not cost all others.
Not so where cells have a length, and each has its turn: what takes too long hangs, which is for its deadline to tell.
Near the limit whatever runs is ended, because the reports have to be written too: the limit is kept whatever a device,
or an estimate, does.
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
"""For ending what runs, and for the reports: on two cores those of 204 cells took 0.8 s, of 1,632 cells about 3 s."""
_OF_THE_LIMIT: Final = 0.005
"""Of its duration, for the reports: they read the time of each iteration of the night. Of an hour and a half on two CPU
devices, 462 launches, they took 7.5 s of a core; eight GPUs measure some twenty times as many in eight hours."""
PATIENCE_S: Final = 3.0
"""A process that is not gone so long after its SIGKILL is not waited for."""
SHARE: Final = 0.25
"""Of the limit, for one launch while others wait."""
_LEAST: Final = 0.05
_MOST: Final = 50.0
"""Bounds of what is believed of a first measurement."""


def closing_s(duration_s: float) -> float:
    """What is kept at the end of a run that measures until its time is up."""
    return CLOSING_S + _OF_THE_LIMIT * duration_s


class Time(NamedTuple):
    """Of a run that has a limit: what of it has gone by, and what is left until nothing is measured any more."""

    spent_s: float
    left_s: float


def time_after(configuration: Configuration, limit_s: float, spent_s: float) -> Time:
    """How a run stands in its time after `spent_s` of it, as the run itself and who looks at it from outside tell it.

    The last of the limit is for its reports. What is left may be less than nothing.
    """
    return Time(spent_s, limit_s - _kept_s(configuration) - spent_s)


class Budget:
    """The time of one run. began: monotonic seconds at which its process started.

    ends: from then on nothing is launched and what runs is ended. latest: from then on nothing is waited for.
    starts: since when a burn-in imports that is gone on with for the time that it lacks. There only what comes after
    that counts, which `first_launch_can_begin` tells: else a start would cost what it is to make up for. Until then
    the end is not known (`is_starting`), and nothing is to be ended or dropped for it.
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
        self._starts = starts
        self._share_s = limit_s * SHARE if configuration.cell_s is None else math.inf
        self._configuration = configuration
        self._devices = {device.uuid: device for device in devices}
        self._speeds: dict[tuple[str, ...], list[float]] = defaultdict(list)
        self._costs: dict[str, list[float]] = defaultdict(list)
        self._too_long: set[Slot] = set()

    @property
    def is_starting(self) -> bool:
        """Whether the end will be put off by what is imported now."""
        return self._starts is not None

    def first_launch_can_begin(self, now: float) -> float:
        """Everything is imported. By how many seconds the end is put off for that: at the first time, where it is."""
        by_s = 0.0 if self._starts is None else max(now - self._starts, 0.0)
        self._starts = None
        self._began += by_s
        self.ends += by_s
        self.latest += by_s
        return by_s

    def expected_s(self, cell: Cell) -> float:
        """What a launch of `cell` will take, as far as is known: the estimate, corrected by what was seen."""
        device = self._devices[cell.devices[0]]
        overhead = median([1.0, *self._costs[device.uuid]])
        return overhead * estimate.launch_s(cell, self._configuration, device, self._scale(cell))

    def time(self, now: float) -> Time:
        """Where the run stands in its time, which stands still while the end is put off."""
        counted = now if self._starts is None else min(self._starts, now)
        return time_after(self._configuration, self.limit_s, counted - self._began)

    def measured(self, result: Result) -> None:
        """A launch has a result: how long its iterations take against the estimate."""
        cell, times = result.cell, result.times_ms("iteration")
        if not times:
            return
        model, device = self._configuration.by_name[cell.model], self._devices[cell.devices[0]]
        seen_s = sum(times) / len(times) / 1000
        speed = _believable(seen_s / estimate.iteration_s(cell, model, device))
        for key in _keys(cell):
            self._speeds[key].append(speed)

    def finished(self, cell: Cell, lasted_s: float) -> None:
        """A launch that gave a result has left its device free: what it took against what its iterations explain."""
        device = self._devices[cell.devices[0]]
        explained_s = estimate.launch_s(cell, self._configuration, device, self._scale(cell))
        self._costs[device.uuid].append(_believable(lasted_s / explained_s))

    def decide(self, state: RunState, now: float) -> Iterator[tuple[Slot, str]]:
        """The launches in front of one that may be made, device by device.

        Each with the reason why it is to be dropped, in words; an empty one where it is only to let others go first.
        """
        if state.stopping:
            return
        left_s = self.ends - now
        said: set[Slot] = set()  # a launch on several devices stands in front of each
        for device in state.devices.values():
            if device.quarantined or (left_s > 0 and device.running is not None):
                continue
            for place, slot in enumerate(device.queue):
                if slot in said:
                    continue
                expected_s = self._next_s(state, slot)
                if slot in self._too_long or expected_s > left_s:
                    said.add(slot)
                    yield slot, self._why(slot, expected_s, left_s)
                elif expected_s > self._share_s and self._cheap(state, device.queue[place + 1 :], left_s):
                    said.add(slot)
                    yield slot, ""
                else:
                    break

    def takes_too_long(self, state: RunState, slot: Slot, began: float, now: float) -> bool:
        """Whether a launch that runs has had its share and others wait. It will not be made again."""
        queue = state.devices[state.cells[slot[0]].devices[0]].queue
        running = state.slots[slot].status is SlotStatus.RUNNING
        had_its_share = running and now - began > self._share_s
        if not had_its_share or not self._cheap(state, queue, self.ends - now):
            return False
        self._too_long.add(slot)
        return True

    def ran_out(self, now: float) -> None:
        """What runs is ended now, maybe late: its processes have as long as ever until they are not waited for."""
        self.latest = max(self.latest, now + PATIENCE_S)

    def forecast(self, plan: Plan, device: Device) -> tuple[Slot, ...]:
        """The launches of a device that there is time for, as far as can be told before the first.

        What works alone makes all others wait, which have launches of their own to make like that.
        """
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
        """Seconds of the limit that a device has for its launches: all but the start and what is kept at the end."""
        return self.limit_s - self._closing_s - estimate.shared_start_s(self._configuration, [device])

    def _scale(self, cell: Cell) -> float:
        """How much longer than estimated the iterations of `cell` take, by what its relatives on this device took.

        The same model tells all. Of others the most efficient counts, because the cheap ones that go first keep a
        device busy badly; and the fewer have been seen, the more the estimate is held to.
        """
        own, *others = _keys(cell)
        if own in self._speeds:
            return median(self._speeds[own])
        seen = next((self._speeds[key] for key in others if key in self._speeds), [])
        unseen = estimate.scale(self._configuration, self._devices[cell.devices[0]], tuple(self._devices.values()))
        return float(unseen * (min(seen, default=unseen) / unseen) ** (len(seen) / (len(seen) + 1)))

    def _cheap(self, state: RunState, queue: Sequence[Slot], left_s: float) -> bool:
        """Whether any of these launches fits into its share and into what is left."""
        most_s = min(self._share_s, left_s)
        return any(slot not in self._too_long and self._next_s(state, slot) <= most_s for slot in queue)

    def _next_s(self, state: RunState, slot: Slot) -> float:
        """What the next launch of a slot will take. A scan has many; what it learned before it is dropped is kept."""
        cell = state.cells[slot[0]]
        if cell.batch_size == AUTO:
            size = batch_scan.next_batch(state.slots[slot].tried, state.rooms[cell.devices[0]])
            assert size is not None, "a scan that waits is not over"
            cell = msgspec.structs.replace(cell, batch_size=size)
        return self.expected_s(cell)

    def _why(self, slot: Slot, expected_s: float, left_s: float) -> str:
        limit = f"the limit of {self.limit_s:g} s"
        if slot in self._too_long:
            return f"dropped to keep {limit}: it was ended after {self._share_s:g} s, because others waited"
        if left_s <= 0:
            return f"dropped to keep {limit}: no time was left"
        return f"dropped to keep {limit}: it would have taken {estimate.about(expected_s)}, {left_s:.0f} s were left"


def _kept_s(configuration: Configuration) -> float:
    """What is kept at the end of a run that has a limit."""
    limit_s = configuration.time_limit_s
    return CLOSING_S if configuration.cell_s is None or limit_s is None else closing_s(limit_s)


def _keys(cell: Cell) -> tuple[tuple[str, ...], ...]:
    """What a cell has in common with others, the closest first. Products of matrices say nothing of replayed steps."""
    device = cell.devices[0]
    closest = (device, cell.workload, cell.precision, cell.model), (device, cell.workload, cell.precision)
    return closest if cell.workload is Workload.REPLAY else (*closest, (device,))


def _believable(ratio: float) -> float:
    return min(max(ratio, _LEAST), _MOST)
