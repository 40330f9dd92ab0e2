"""orchestrator/state/time_budget.py: what there is still time for, whatever a device and the estimate do."""

import random

import msgspec
import pytest

from orchestrator.config import catalogue
from orchestrator.config.run_configuration import BurnIn, Plan, Slot
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.kinds.burn_in import settings as burn_in
from orchestrator.kinds.gate import planning as gate_planning
from orchestrator.plan import estimate, planner
from orchestrator.plan.batch_scan import Figures
from orchestrator.state import transitions
from orchestrator.state.slots import (
    Dropped,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    SlotStatus,
    StopRequested,
    with_device,
)
from orchestrator.state.time_budget import CLOSING_S, PATIENCE_S, SHARE, Budget
from protocol import floats
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode, Workload
from protocol.failure import Category
from protocol.result import Result
from protocol.verification import LEAST_REPLAYS, REPLAY_STEPS
from tests.fakes import gates
from tests.fakes.configurations import configuration, cpu, gpu, shipped_catalogue
from tests.fakes.results import result
from tests.fakes.runs import shipped
from tests.fakes.steps import begun, ended, failure

QUICK = catalogue.load().profiles["quick"].measurement()
ASKED = configuration(
    measurement=QUICK, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(1, 32), time_limit_s=60.0
)


class Clocked:
    """A run on made-up devices whose launches take `slowness` times what was estimated, each a little different."""

    def __init__(self, devices: tuple[Device, ...], limit_s: float, slowness: float) -> None:
        asked = self.asked = ASKED
        self.devices = devices
        self.planned: Plan = planner.make(asked, devices)
        self.budget = Budget(asked, devices, limit_s, began=0.0)
        self.state: RunState = transitions.begin(self.planned)
        self.dropped: dict[Slot, str] = {}
        self.over: list[tuple[float, float, Slot]] = []
        self._chance = random.Random(7)
        self._slowness = slowness
        self._running: dict[str, tuple[float, float, NextLaunch]] = {}
        self.now = estimate.shared_start_s(asked, devices)

    def work(self) -> None:
        """Until nothing is left."""
        while True:
            for slot, why in self.budget.decide(self.state, self.now):
                if why:
                    self.dropped[slot] = why
                self.state = transitions.step(self.state, Dropped(slot) if why else Postponed(slot))
            self.state, following = transitions.next_launches(self.state)
            for one in following:
                self.state = begun(self.state, one)
                device = next(device for device in self.devices if device.uuid == one.device)
                takes = estimate.launch_s(one.cell, self.asked, device, self._slowness) * self._chance.uniform(0.8, 1.2)
                self._running[one.device] = (self.now + takes, self.now, one)
            if not self._running:
                return
            uuid = min(self._running, key=lambda uuid: self._running[uuid][0])
            self.now, began, one = self._running.pop(uuid)
            cell = self.state.cells[one.planned]
            self.over.append((began, self.now, one.slot))
            self.budget.measured(made_up(cell, self._iteration_ms(cell)))
            self.state = ended(self.state, one)
            self.budget.finished(cell, self.now - began)

    def _iteration_ms(self, cell: Cell) -> float:
        device = next(device for device in self.devices if device.uuid in cell.devices)
        model = self.asked.by_name[cell.model]
        return 1000 * self._slowness * estimate.iteration_s(cell, model, device)


def made_up(cell: Cell, iteration_ms: float) -> Result:
    """A result with such iterations."""
    made = result(cell, blocks=1, iterations=2)
    return msgspec.structs.replace(made, series={"iteration": floats.pack([iteration_ms, iteration_ms])})


@pytest.mark.parametrize("slowness", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("devices", [(cpu(0),), (cpu(0), cpu(1)), tuple(map(gpu, range(8)))], ids=["1", "2", "8"])
def test_every_launch_is_measured_or_dropped_and_hardly_one_is_over_late(
    devices: tuple[Device, ...], slowness: float
) -> None:
    """A device that is faster or slower than thought is understood after its first launches."""
    run = Clocked(devices, 60.0, slowness)
    run.work()
    assert {slot.status for slot in run.state.slots.values()} <= {SlotStatus.MEASURED, SlotStatus.DROPPED}
    assert len(run.over) + len(run.dropped) == len(run.state.slots)
    late = [slot for _, end, slot in run.over if end > run.budget.ends]
    assert len(late) <= len(devices), "at most the last launch of a device, which the limit then ends"
    assert len(run.over) >= len(devices)


def test_a_faster_device_measures_more() -> None:
    """The scheduler goes by measured times, not by estimates."""
    fast, slow = Clocked((cpu(0),), 60.0, 0.2), Clocked((cpu(0),), 60.0, 5.0)
    fast.work()
    slow.work()
    assert len(fast.over) > len(slow.over)


def test_what_matters_least_is_dropped_first() -> None:
    """Dropped cells come after the measured ones in the plan, unless they are too long for the remaining time."""
    run = Clocked((cpu(0),), 60.0, 1.0)
    run.work()
    places = {slot: place for place, slot in enumerate(run.planned.order["cpu:0"])}
    assert min(places[slot] for slot in run.dropped) > min(places[slot] for _, _, slot in run.over)
    assert all("60 s" in why for why in run.dropped.values())


def test_a_launch_that_fits_goes_behind_one_that_does_not() -> None:
    """Ten seconds are too few for a large model on a slow device, and enough for a small one."""
    asked = configuration(measurement=QUICK, workloads=(Workload.INFERENCE,), batch_sizes=(1,), time_limit_s=60.0)
    planned = planner.make(asked, (cpu(0),))
    cells = {cell.id: cell for cell in planned.cells}
    expensive = sorted(planned.order["cpu:0"], key=lambda slot: -estimate.launch_s(cells[slot[0]], asked, cpu(0)))
    begun = transitions.begin(msgspec.structs.replace(planned, order={"cpu:0": tuple(expensive)}))
    budget = Budget(asked, (cpu(0),), 60.0, began=0.0)
    costs = [budget.expected_s(cells[slot[0]]) for slot in expensive]
    left_s = costs[-1] + 0.1
    dropped = [slot for slot, _ in budget.decide(begun, budget.ends - left_s)]
    assert dropped == [slot for slot, cost in zip(expensive, costs, strict=True) if cost > left_s]
    assert 0 < len(dropped) < len(expensive)


def test_no_estimate_drops_the_first_launch_of_either_side_of_a_gate() -> None:
    """Nor ends it for the others that wait. The time limit does, and later launches have to fit."""
    gate = gates.of_two(configuration(measurement=QUICK, models=shipped("resnet50"), batch_sizes=(1,)))
    planned = gate_planning.make(gate, (cpu(0),))
    budget = Budget(gate, (cpu(0),), 60.0, began=0.0)
    state, queue = transitions.begin(planned), planned.order["cpu:0"]
    late = budget.ends - 0.01
    for slot in queue[:2]:
        assert list(budget.decide(state, late)) == []
        state, (launch,) = transitions.next_launches(state)
        state = begun(state, launch)
        assert launch.slot == slot
        assert not budget.takes_too_long(state, slot, began=0.0, now=late)
        state = ended(state, launch)
    assert [slot for slot, _ in budget.decide(state, late)] == list(queue[2:])
    assert len(list(budget.decide(transitions.begin(planned), budget.ends))) == len(queue)


def test_nothing_is_dropped_while_there_is_time() -> None:
    """With an hour to go every cell may wait for its turn."""
    planned = planner.make(ASKED, (gpu(0),))
    budget = Budget(ASKED, (gpu(0),), 3600.0, began=0.0)
    assert list(budget.decide(transitions.begin(planned), 0.0)) == []


def test_when_time_is_up_everything_that_waits_is_dropped() -> None:
    """Whatever it would cost, on every device, busy or not; a device that was taken out is no matter of time."""
    devices = (gpu(0), gpu(1), gpu(2))
    planned = planner.make(ASKED, devices)
    now, (first, *_) = transitions.next_launches(transitions.begin(planned))
    now = begun(now, first)
    now = transitions.step(now, Quarantined(gpu(2).uuid, "gone"))
    budget = Budget(ASKED, devices, 60.0, began=100.0)
    assert budget.ends == 160.0 - CLOSING_S
    dropped = {slot for slot, _ in budget.decide(now, budget.ends)}
    expected = {slot for device in devices[:2] for slot in planned.order[device.uuid]} - {first.slot}
    assert dropped == expected
    assert list(budget.decide(transitions.step(now, StopRequested()), budget.ends)) == [], (
        "a person's wish: `resume` goes on"
    )


def test_a_scan_goes_on_while_there_is_time_for_its_next_launch() -> None:
    """It is not weighed as a whole, which no short limit has time for: what it found until then stays."""
    asked = configuration(
        models=shipped("resnet50"), probes=(), measurement=QUICK, workloads=(Workload.INFERENCE,), batch_sizes=(AUTO,)
    )
    now = transitions.begin(planner.make(asked, (gpu(0),)))
    (slot,) = now.slots
    budget = Budget(asked, (gpu(0),), 60.0, began=0.0)
    steps = [msgspec.structs.replace(now.cells[slot[0]], batch_size=size) for size in (1, 8)]
    assert budget.expected_s(now.cells[slot[0]]) > 30.0
    first_s, second_s = (budget.expected_s(step) for step in steps)
    assert list(budget.decide(now, budget.ends - first_s - 0.01)) == []
    assert [dropped for dropped, _ in budget.decide(now, budget.ends - first_s + 0.01)] == [slot]
    now, (launch,) = transitions.next_launches(now)
    now = ended(begun(now, launch), launch, None, Figures(peak_bytes=10**9, items_per_second=100.0))
    assert list(budget.decide(now, budget.ends - second_s - 0.01)) == []
    ((dropped, why),) = budget.decide(now, budget.ends - second_s + 0.01)
    assert (dropped, "it takes" in why) == (slot, True)
    assert len(transitions.step(now, Dropped(slot)).slots[slot].tried) == 1


def test_the_forecast_is_what_would_be_measured() -> None:
    """As many launches as a run whose launches take what was estimated."""
    run = Clocked((gpu(0),), 60.0, 1.0)
    foreseen = len(run.budget.forecast(run.planned, gpu(0)))
    run.work()
    assert abs(foreseen - len(run.over)) <= 0.2 * len(run.over) + 1
    assert 0 < foreseen < len(run.planned.cells)


def test_the_forecast_counts_that_all_others_wait_for_what_works_alone() -> None:
    """On four GPUs that take turns there is time for about a quarter of what each does beside the others."""
    machine = tuple(map(gpu, range(4)))
    foreseen = {}
    for mode in Mode:
        asked = msgspec.structs.replace(ASKED, modes=(mode,))
        budget = Budget(asked, machine, 60.0, began=0.0)
        foreseen[mode] = len(budget.forecast(planner.make(asked, machine), gpu(0)))
    assert foreseen[Mode.SOLO] == pytest.approx(foreseen[Mode.LOADED] / 4, abs=1.5)


def working(planned: Plan) -> tuple[RunState, NextLaunch]:
    """A run on one device, its first launch under way."""
    now, (first,) = transitions.next_launches(transitions.begin(planned))
    return begun(now, first), first


def test_one_slow_launch_does_not_cost_all_the_others() -> None:
    """After a quarter of the limit it is ended if cheaper ones wait, and dropped."""
    now, first = working(planner.make(ASKED, (gpu(0),)))
    budget = Budget(ASKED, (gpu(0),), 60.0, began=0.0)
    assert not budget.takes_too_long(now, first.slot, began=12.0, now=26.9)
    assert budget.takes_too_long(now, first.slot, began=12.0, now=27.1)
    now = with_device(ended(now, first, failure(Category.STOPPED)), first.device, queue=(first.slot,))
    ((slot, why),) = budget.decide(now, 27.2)
    assert slot == first.slot
    assert "after 15 s" in why


def test_processes_that_are_ended_late_are_waited_for_all_the_same() -> None:
    """Until 3 s after the limit; where the orchestrator stood still beyond that, until 3 s after it could end them."""
    budget = Budget(ASKED, (gpu(0),), 60.0, began=0.0)
    assert not budget.awaits_nothing(80.0)  # suspended past `latest` before it could end anything
    budget.ran_out(budget.ends)
    assert budget.latest == 60.0 - CLOSING_S + PATIENCE_S
    budget.ran_out(80.0)
    assert budget.latest == 80.0 + PATIENCE_S
    assert [budget.awaits_nothing(80.0 + PATIENCE_S + more) for more in (-0.1, 0.1)] == [False, True]


def test_no_launch_of_a_burn_in_is_ended_for_others() -> None:
    """All its cells are of one length: what takes longer hangs, for which there are deadlines, or the host is busy."""
    burn_in_run = BurnIn(duration_s=60.0, level="quick", cell_s=dict.fromkeys(DeviceKind, 1.0))
    asked = msgspec.structs.replace(ASKED, burn_in=burn_in_run)
    planned = planner.make(ASKED, (gpu(0),))
    now, first = working(planned)
    budget = Budget(asked, (gpu(0),), 60.0, began=0.0)
    assert not budget.takes_too_long(now, first.slot, began=1.0, now=30.0)
    for _ in range(8):  # its launches turn out to take a third of the time
        budget.finished(first.cell, 20.0)
    assert budget.expected_s(first.cell) > 60.0 * SHARE
    assert list(budget.decide(transitions.begin(planned), 1.0)) == []


@pytest.mark.parametrize(("core_of_other", "times"), [(1, 1), (0, 2)])
def test_a_replay_takes_as_long_as_its_steps_do_on_cores_that_are_shared(core_of_other: int, times: int) -> None:
    """Until one was seen. Products of matrices, which keep a CPU device busy far better, say nothing of them."""
    devices, shipped, table = (cpu(0), cpu(1, (core_of_other,))), shipped_catalogue(), levels.load()
    burn_in_run = burn_in.configured(configuration(probes=shipped.probes), "60s", None, shipped, table)
    cells = {
        cell.workload: cell for cell in burn_in_plan.make(burn_in_run, devices, table).cells if len(cell.devices) == 1
    }
    replay, soak = (msgspec.structs.replace(cells[one], devices=("cpu:0",)) for one in (Workload.REPLAY, Workload.SOAK))
    budget, steps = Budget(burn_in_run, devices, 60.0, began=0.0), LEAST_REPLAYS * REPLAY_STEPS
    expected_s = budget.expected_s(replay)
    assert times * steps * 0.2 < expected_s < times * steps * 0.5
    budget.measured(made_up(soak, 1.0))
    assert budget.expected_s(replay) == expected_s
    budget.measured(made_up(replay, 1000.0))
    assert steps < budget.expected_s(replay) < steps + 5


def test_the_last_launch_may_take_all_the_time_that_is_left() -> None:
    """Nobody waits, so nobody is kept waiting."""
    planned = planner.make(ASKED, (gpu(0),))
    last = planned.order[gpu(0).uuid][0]
    now, _ = working(msgspec.structs.replace(planned, order={gpu(0).uuid: (last,)}))
    assert not Budget(ASKED, (gpu(0),), 60.0, began=0.0).takes_too_long(now, last, began=12.0, now=50.0)


def test_an_expensive_launch_lets_cheaper_ones_go_first() -> None:
    """It needs more than a quarter of the limit: it is not dropped, it waits until nobody cheaper does."""
    asked = configuration(measurement=QUICK, workloads=(Workload.INFERENCE,), batch_sizes=(1, 32), time_limit_s=60.0)
    planned = planner.make(asked, (cpu(0),))
    cells = {cell.id: cell for cell in planned.cells}
    budget = Budget(asked, (cpu(0),), 1000.0, began=0.0)
    share_s = 1000.0 * SHARE
    queue = planned.order["cpu:0"]
    expensive = max(queue, key=lambda slot: budget.expected_s(cells[slot[0]]))
    cheap = min(queue, key=lambda slot: budget.expected_s(cells[slot[0]]))
    for _ in range(8):  # it turns out to be slower than thought
        budget.measured(made_up(cells[expensive[0]], 1000.0 * share_s))
    two = transitions.begin(msgspec.structs.replace(planned, order={"cpu:0": (expensive, cheap)}))
    now = budget.ends - 1.5 * budget.expected_s(cells[expensive[0]])
    assert list(budget.decide(two, now)) == [(expensive, "")]
    alone = transitions.begin(msgspec.structs.replace(planned, order={"cpu:0": (expensive,)}))
    assert list(budget.decide(alone, now)) == []
