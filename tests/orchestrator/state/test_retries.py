"""Another try comes at the end of its turn, by the journal too; in a burn-in a failure costs one cell of one round."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.engine import run as shell
from orchestrator.state import transitions, turns
from orchestrator.state.failure_policy import POLICY, Reaction
from orchestrator.state.replay import ROUND_RULES, replay
from orchestrator.state.slots import Ended, NextLaunch, Postponed, RunState, SlotStatus, Started, with_device
from orchestrator.store.journal_records import End, Record
from protocol.cell import Mode
from protocol.failure import Category, Failure, Phase
from tests.fakes import placing, steps
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.gangs import gang
from tests.fakes.runs import FakeRun, cpus
from tests.fakes.steps import SEGMENT, begun, ended, failure, record

LATER = [category for category in Category if POLICY[category].reaction is Reaction.RETRY]


def once(category: Category, model: str = "a", number: int = 0) -> Callable[[NextLaunch], Failure | None]:
    """The first launch of a model in a round on GPU-0 fails."""
    fates = [failure(category)]

    def decide(one: NextLaunch) -> Failure | None:
        hit = (one.device, one.cell.model, one.slot[1]) == ("GPU-0", model, number)
        return fates.pop() if hit and fates else None

    return decide


@pytest.mark.parametrize("category", [*LATER, Category.HOST_OUT_OF_MEMORY])
def test_a_retry_is_made_at_the_end_of_its_round(category: Category) -> None:
    """Behind what else the round has, before the next one."""
    _, made = steps.run(transitions.begin(placing.plan("abc", 1, rounds=4)), once(category, number=1))
    assert "".join(one.cell.model for one in made) == "abc" + "abca" + "abc" + "abc"
    assert [one.slot[1] for one in made] == [0] * 3 + [1] * 4 + [2] * 3 + [3] * 3


def test_what_is_postponed_goes_behind_all_rounds() -> None:
    """It lets whatever has time go first."""
    now = transitions.begin(placing.plan("ab", 1, rounds=3))
    first = now.devices["GPU-0"].queue[0]
    assert transitions.step(now, Postponed(first)).devices["GPU-0"].queue[-1] == first


def test_a_loaded_launch_is_tried_again_beside_others() -> None:
    """In its turn, and not alone behind all rounds: what it says of the full node would be wrong."""
    mine = {
        f"GPU-{number}": [
            msgspec.structs.replace(placing.cell(model, f"GPU-{number}"), mode=mode)
            for mode in (Mode.LOADED, Mode.SOLO)
            for model in "ab"
        ]
        for number in range(3)
    }
    now = transitions.begin(placing.plan_of(mine, rounds=2))
    _, made = steps.run(now, once(Category.NO_OUTCOME))
    order = [turns.of(now, one.slot) for one in made]
    assert order == sorted(order)
    assert Counter(order)[0, 0] == 7


# ── several devices at once ───────────────────────────────────────────────────────────────────────────────────────────

FIRST, SECOND = gang("GPU-0", "GPU-1", seed=1), gang("GPU-0", "GPU-1", seed=2)


def gang_plan_state(rounds: int = 3) -> RunState:
    """Return the state of a plan with two launches on both devices in each round, between others on one device."""
    own = {uuid: [placing.cell(model, uuid) for model in "ab"] for uuid in FIRST.devices}
    order = {
        uuid: tuple((cell.id, number) for number in range(rounds) for cell in (a, FIRST, SECOND, b))
        for uuid, (a, b) in own.items()
    }
    return transitions.begin(Plan(cells=(*own["GPU-0"], *own["GPU-1"], FIRST, SECOND), order=order))


def gangs_of(now: RunState, uuid: str) -> list[Slot]:
    """Those in the queue of a device."""
    return [slot for slot in now.devices[uuid].queue if slot[0] in {FIRST.id, SECOND.id}]


def lost_in_communication(now: RunState, slot: Slot) -> RunState:
    """The state after a launch on both devices that is to be tried again."""
    now = transitions.step(now, Started(0, slot, now.cells[slot[0]].devices[0], 1))
    return transitions.step(now, Ended(0, failure(Category.COMMUNICATION)))


def test_a_gang_is_tried_again_at_the_end_of_its_round() -> None:
    """On all of its devices."""
    now = lost_in_communication(gang_plan_state(), (FIRST.id, 0))
    for uuid in FIRST.devices:
        assert [number for _, number in now.devices[uuid].queue] == [0] * 4 + [1] * 4 + [2] * 4
        assert now.devices[uuid].queue[3] == (FIRST.id, 0)


def test_gangs_stay_in_one_order_where_a_device_has_a_later_cell_first() -> None:
    """A cell of the next round was brought forward on one device; each would wait for the other for ever."""
    now = gang_plan_state()
    queue = now.devices["GPU-0"].queue
    early = (placing.cell("a", "GPU-0").id, 1)
    now = with_device(now, "GPU-0", queue=(early, *(slot for slot in queue if slot != early)))
    now = lost_in_communication(now, (FIRST.id, 0))
    assert gangs_of(now, "GPU-0") == gangs_of(now, "GPU-1")
    assert gangs_of(now, "GPU-0")[:3] == [(SECOND.id, 0), (FIRST.id, 0), (FIRST.id, 1)]


def test_gangs_stay_in_one_order_where_one_was_postponed() -> None:
    """Three devices, two of them in each gang: put between others, they would wait for each other in a circle."""
    a_b, a_c, b_c = (gang(*devices) for devices in (("a", "b"), ("a", "c"), ("b", "c")))
    order = {"a": ((a_b.id, 0), (a_c.id, 1)), "b": ((a_b.id, 0), (b_c.id, 0)), "c": ((b_c.id, 0), (a_c.id, 1))}
    now = transitions.step(transitions.begin(Plan(cells=(a_b, a_c, b_c), order=order)), Postponed((b_c.id, 0)))
    now = steps.freed(lost_in_communication(now, (a_b.id, 0)), "a", "b")
    end, _ = steps.run(now, lambda _: None)
    assert {one.status for one in end.slots.values()} == {SlotStatus.MEASURED}


# ── resume ────────────────────────────────────────────────────────────────────────────────────────────────────────────

FATES = st.sampled_from([None, *map(failure, (Category.NO_OUTCOME, Category.COMMUNICATION, Category.CRASHED))])


@given(st.integers(1, 3), st.lists(FATES, max_size=12), st.integers(1, 20))
def test_the_journal_leads_to_the_same_queues(devices: int, fates: list[Failure | None], launches: int) -> None:
    """Wherever a run is cut: `resume` makes the tries that are still to come in the same place."""
    one_plan = placing.plan("ab", devices, rounds=4)
    now, records, fate = transitions.begin(one_plan, skips=False), list[Record](), iter(fates)
    while len(records) < 2 * launches:
        now, following = transitions.next_launches(now)
        if not following:
            break
        for one in following:
            now = begun(now, one)
            records.append(record(one))
        for one in following:
            found = next(fate, None)
            now = ended(now, one, found)
            records.append(End(launch=one.launch, at_ns=0, failure=found))
    restored = replay(one_plan, ROUND_RULES, records).state
    assert {uuid: one.queue for uuid, one in restored.devices.items()} == {
        uuid: one.queue for uuid, one in now.devices.items()
    }


# ── a burn-in skips nothing ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("category", "phase", "sick"),
    [
        (Category.EXCEPTION, Phase.BUILD, {"GPU-3"}),
        (Category.IMPORT_ERROR, Phase.IMPORT, {"GPU-3"}),
        (Category.NOT_BUILT, Phase.BUILD, {"GPU-3"}),
        (Category.CRASHED, Phase.MEASURE, {"GPU-2", "GPU-3"}),
        (Category.DEADLINE, Phase.MEASURE, {"GPU-2", "GPU-3"}),
    ],
)
def test_where_nothing_is_skipped_a_failure_costs_one_cell_of_one_round(
    category: Category, phase: Phase, sick: set[str]
) -> None:
    """All others are made, on these devices too; and nobody is asked about it for the rest of the burn-in."""

    def decide(one: NextLaunch) -> Failure | None:
        hit = one.device in sick and one.cell.model == "a" and one.slot[1] == 1
        return failure(category, phase) if hit else None

    one_plan = placing.plan("ab", 4, rounds=5)
    end, _ = steps.run(transitions.begin(one_plan, skips=False), decide)
    failed = {(placing.cell("a", uuid).id, 1) for uuid in sick}
    assert {slot for slot, one in end.slots.items() if one.status is not SlotStatus.MEASURED} == failed
    assert (end.skipped, end.unattributed) == ({}, ())
    skipping, _ = steps.run(transitions.begin(one_plan), decide)
    assert skipping.skipped, "in other runs it is"


@pytest.mark.parametrize(
    ("phase", "sizes", "resumed"),
    [(Phase.BUILD, [4, 4, 4], 4), (Phase.WARM_UP, [4, 4, 2, 4], None)],
    ids=["no size would fit", "half of it does"],
)
def test_in_a_burn_in_want_of_memory_is_forgotten_with_its_round(
    phase: Phase, sizes: list[int], resumed: int | None
) -> None:
    """The next round has the planned size again; `resume` tries again what came to nothing. Other runs remember it."""
    (one_cell,) = placing.plan("a", 1, sizes=(4,)).cells
    one_plan = placing.plan("a", 1, rounds=3, sizes=(4,))
    records = list[Record]()
    fates = [None, failure(Category.OUT_OF_MEMORY, phase)]

    def decide(one: NextLaunch) -> Failure | None:
        found = fates.pop(0) if fates else None
        records.extend((record(one), End(launch=one.launch, at_ns=0, failure=found)))
        return found

    end, made = steps.run(transitions.begin(one_plan, skips=False), decide)
    assert [one.cell.batch_size for one in made] == sizes
    lost = SlotStatus.MEASURED if resumed is None else SlotStatus.DOES_NOT_FIT
    around = SlotStatus.MEASURED
    assert [end.slots[one_cell.id, number].status for number in range(3)] == [around, lost, around]
    for segments, again in (([], None), ([SEGMENT], resumed)):
        _, more = steps.run(replay(one_plan, ROUND_RULES, [*records, *segments]).state, lambda _: None)
        assert [(one.slot[1], one.cell.batch_size) for one in more] == ([] if again is None else [(1, again)])
    fates = [None, failure(Category.OUT_OF_MEMORY, phase)]
    _, made = steps.run(transitions.begin(one_plan), decide)
    assert [one.cell.batch_size for one in made] == ([4, 4] if resumed else [4, 4, 2, 2])


def test_a_burn_in_skips_nothing(tmp_path: Path) -> None:
    """Other runs do."""
    burn_in_run, series = FakeBurnIn(tmp_path / "burn-in", cpus(1)), FakeRun(tmp_path / "series", devices=cpus(1))
    assert [shell._state(one.stored, ()).skips for one in (burn_in_run, series)] == [False, True]
