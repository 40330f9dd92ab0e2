"""orchestrator/state/gangs.py: launches on several devices begin together, and no order of events blocks the run."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.state import transitions
from orchestrator.state.failure_policy import POLICY
from orchestrator.state.replay import BENCHMARK_RULES, replay
from orchestrator.state.slots import (
    SETTLED,
    Dropped,
    Ended,
    Freed,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    SlotStatus,
)
from orchestrator.store.journal_records import End, Start
from protocol.cell import Cell, Mode, Precision, Workload
from protocol.failure import Category, Failure
from tests.fakes import steps
from tests.fakes.gangs import gang
from tests.fakes.steps import SEGMENT, begun, failure, freed


def single(device: str, model: str = "m", mode: Mode = Mode.LOADED) -> Cell:
    """A cell on one device."""
    return Cell(
        devices=(device,), model=model, workload=Workload.SOAK, precision=Precision.FP32, batch_size=1, mode=mode
    )


def plan(*rounds: tuple[Cell, ...]) -> Plan:
    """Each device has its cells of a round in the order given, then those of the next."""
    order: dict[str, tuple[Slot, ...]] = {}
    for number, cells in enumerate(rounds):
        for cell in cells:
            for device in cell.devices:
                order[device] = (*order.get(device, ()), (cell.id, number))
    return Plan(cells=tuple({cell.id: cell for cells in rounds for cell in cells}.values()), order=order)


BOTH = gang("d0", "d1")
PLAN = plan((single("d0"), single("d1"), BOTH, single("d0", "last"), single("d1", "last")))


def test_a_device_that_has_come_to_a_gang_waits_for_the_others() -> None:
    """Nothing begins on the first that is done; when the second is done, one launch takes both."""
    now = transitions.begin(PLAN)
    now, (first, second) = transitions.next_launches(now)
    now = begun(begun(now, first), second)
    now = freed(transitions.step(now, Ended(first.launch, None)), "d0")
    now, none = transitions.next_launches(now)
    assert none == ()
    now = freed(transitions.step(now, Ended(second.launch, None)), "d1")
    now, (together,) = transitions.next_launches(now)
    assert together.cell.devices == ("d0", "d1")
    now = begun(now, together)
    assert [device.running for device in now.devices.values()] == [together.launch] * 2
    assert now.busy == 1
    assert transitions.next_launches(now)[1] == ()


def test_a_gang_does_not_go_before_what_a_device_has_first() -> None:
    """d1 is idle too, and has another launch to make before."""
    now = transitions.begin(plan((single("d1"), BOTH)))
    now, (first,) = transitions.next_launches(now)
    assert first.cell.devices == ("d1",)
    assert list(now.devices) == ["d1", "d0"]
    turned = msgspec.structs.replace(now, devices={uuid: now.devices[uuid] for uuid in ("d0", "d1")})
    assert [one.cell.devices for one in transitions.next_launches(turned)[1]] == [("d1",)]


def test_a_device_of_a_gang_is_free_by_itself() -> None:
    """Once the launch has ended: one process may be gone long before another, which cannot be killed yet."""
    now = transitions.begin(plan((BOTH,), (single("d0"), single("d1"))))
    now, (together,) = transitions.next_launches(now)
    now = freed(transitions.step(begun(now, together), Ended(together.launch, None)), "d0")
    now, (following,) = transitions.next_launches(now)
    assert following.cell.devices == ("d0",)


@pytest.mark.parametrize("hurt", [Category.CRASHED, Category.COMMUNICATION, Category.DEADLINE])
@pytest.mark.parametrize("gone", [("d0",), ("d1",), ("d0", "d1")])
def test_a_device_of_a_gang_takes_nothing_before_the_gangs_end(gone: tuple[str, ...], hurt: Category) -> None:
    """However early its process died. What comes then, the gang again or the next cell, all devices begin together."""
    now = transitions.begin(plan((BOTH,), (single("d0"), single("d1"))), skips=False)
    now, (together,) = transitions.next_launches(now)
    now = freed(begun(now, together), *gone)
    assert transitions.next_launches(now)[1] == ()
    now = transitions.step(now, Ended(together.launch, failure(hurt)))
    now, following = transitions.next_launches(freed(now, *{"d0", "d1"} - {*gone}))
    assert {device for one in following for device in one.cell.devices} == {"d0", "d1"}
    assert any(one.slot == together.slot for one in following) == (hurt is not Category.DEADLINE)


def test_solo_means_one_launch_at_a_time() -> None:
    """A gang is one launch: it works alone, and so does each of the others."""
    cells = (single("d0", mode=Mode.SOLO), single("d1", mode=Mode.SOLO), BOTH)
    end, made = steps.run(transitions.begin(plan(cells)), lambda _: None)
    assert len(made) == 3
    assert {slot.status for slot in end.slots.values()} == {SlotStatus.MEASURED}


def test_a_gang_whose_device_is_out_is_passed_over() -> None:
    """The other device goes on with what comes after it, and the gang waits for `resume`."""
    now = transitions.step(transitions.begin(PLAN), Quarantined("d1", "broken"))
    end, made = steps.run(now, lambda _: None)
    assert [launch.cell.devices for launch in made] == [("d0",), ("d0",)]
    assert end.slots[BOTH.id, 0].status is SlotStatus.WAITING


def test_a_verdict_of_the_hardware_takes_out_the_device_that_is_named() -> None:
    """Not the one that leads."""
    now, (together,) = transitions.next_launches(transitions.begin(plan((BOTH,))))
    lost = msgspec.structs.replace(failure(Category.DEVICE_LOST), device="d1")
    now = transitions.step(begun(now, together), Ended(together.launch, lost))
    assert [device.quarantined for device in now.devices.values()] == ["", "m"]


def test_a_crash_of_a_gang_accuses_no_device() -> None:
    """However often: nothing tells the fault of one from that of another, or of what they do together."""
    now = transitions.begin(plan((BOTH,), (BOTH,), (BOTH,)), gpus=("d0", "d1"))
    end, _ = steps.run(now, lambda _: failure(Category.CRASHED))
    assert {slot.status for slot in end.slots.values()} == {SlotStatus.FAILED}
    assert not any(one.quarantined or one.doubts or one.strikes for one in end.devices.values())


def test_the_journal_leads_to_the_same_state_when_devices_leave_one_by_one() -> None:
    """d0 began its next launch before d1 was out of the gang, and that launch was interrupted."""
    two = plan((BOTH,), (single("d0"), single("d1")))

    def start(launch: int, cell: Cell, number: int) -> Start:
        return Start(
            launch=launch, cell=cell.id, round=number, attempt=1, batch_size=1, device=cell.devices[0], at_ns=launch
        )

    records = [SEGMENT, start(0, BOTH, 0), start(1, single("d0"), 1), End(launch=0, at_ns=9, result_sha256="x")]
    restored = replay(two, BENCHMARK_RULES, records).state
    assert restored.slots[BOTH.id, 0].status is SlotStatus.MEASURED
    assert all(device.running is None for device in restored.devices.values())
    assert restored.slots[single("d0").id, 1].failures == (Category.INTERRUPTED,)


# ── any order of events ───────────────────────────────────────────────────────────────────────────────────────────────

DEVICES = ("d0", "d1", "d2", "d3")
HURTS = [one for one in Category if POLICY[one].retries <= 5]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Rounds of single cells and of gangs of any devices, in one order for all of them."""
    gangs = draw(st.lists(st.sets(st.sampled_from(DEVICES), min_size=2).map(sorted), max_size=3, unique_by=tuple))
    cells = [single(device, model) for device in DEVICES for model in ("a", "b")]
    cells += [gang(*devices, seed=number) for number, devices in enumerate(gangs)]
    rounds = draw(st.integers(1, 3))
    orders = draw(st.lists(st.permutations(cells), min_size=rounds, max_size=rounds))
    return plan(*(tuple(order) for order in orders))


def gangs_of(now: RunState, device: str, other: str) -> list[Slot]:
    """What both devices wait for together, in the order of the first."""
    return [slot for slot in now.devices[device].queue if {device, other} <= set(now.cells[slot[0]].devices)]


@settings(max_examples=40)
@given(plans(), st.data())
def test_every_plan_ends_whatever_happens(made: Plan, data: st.DataObject) -> None:
    """No device has two launches, gangs have all of theirs, and at the end nothing waits but for devices that are out.

    Launches end in any order, their devices are freed one by one, some fail, slots are dropped and put back.
    """
    now, running = transitions.begin(made), dict[int, NextLaunch]()
    held: dict[int, set[str]] = {}
    for _ in range(2_000):
        now, following = transitions.next_launches(now)
        for one in following:
            assert all(now.devices[device].running is None for device in one.cell.devices)
            now = begun(now, one)
            running[one.launch], held[one.launch] = one, set(one.cell.devices)
        taken = [
            (device, launch)
            for launch, devices in held.items()
            for device in (running[launch].cell.devices if launch in running else devices)
        ]
        assert sorted(taken) == sorted(
            (uuid, one.running) for uuid, one in now.devices.items() if one.running is not None
        )
        for device in DEVICES:
            for other in DEVICES:
                assert gangs_of(now, device, other) == gangs_of(now, other, device)
        if not held:
            break
        now = _something(now, running, held, data)
    assert not held
    for (cell_id, _), slot in now.slots.items():
        out = any(now.devices[device].quarantined for device in now.cells[cell_id].devices)
        assert slot.status in SETTLED or out


def _something(
    now: RunState, running: dict[int, NextLaunch], held: dict[int, set[str]], data: st.DataObject
) -> RunState:
    match data.draw(st.sampled_from(("end", "end", "free", "free", "drop", "postpone", "out"))):
        case "end" if running:
            launch = data.draw(st.sampled_from(sorted(running)))
            one = running.pop(launch)
            category = data.draw(st.none() | st.sampled_from(HURTS))
            hurt = None if category is None else _failed(category, data.draw(st.sampled_from(one.cell.devices)))
            return transitions.step(now, Ended(launch, hurt))
        case "drop":
            return transitions.step(now, Dropped(data.draw(st.sampled_from(sorted(now.slots)))))
        case "postpone":
            return transitions.step(now, Postponed(data.draw(st.sampled_from(sorted(now.slots)))))
        case "out" if not any(device.quarantined for device in now.devices.values()):
            return transitions.step(now, Quarantined(data.draw(st.sampled_from(DEVICES)), "broken"))
        case _:
            launch = data.draw(st.sampled_from(sorted(held)))
            if launch in running and len(held[launch]) == 1:
                return now  # the last leaves after the end
            device = data.draw(st.sampled_from(sorted(held[launch])))
            held[launch].remove(device)
            if not held[launch]:
                del held[launch]
            return transitions.step(now, Freed(device))


def _failed(category: Category, device: str) -> Failure:
    return msgspec.structs.replace(failure(category), device=device)
