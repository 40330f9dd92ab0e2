"""What `resume` has to make up for: by the evidence a burn-in's verdict goes by, for whom, and in how much time."""

import time
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli import unfinished_runs
from orchestrator.config.run_configuration import Configuration, Isolation
from orchestrator.engine import run
from orchestrator.engine.kind import Remaining
from orchestrator.engine.launches.link import Link
from orchestrator.engine.loop import Loop
from orchestrator.engine.run_context import RunContext
from orchestrator.gpu.health.judges import Action
from orchestrator.kinds.burn_in import busy_time, remaining_time, settings
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.state import coherence
from orchestrator.state.archive import assemble
from orchestrator.state.replay import BENCHMARK_RULES, ROUND_RULES, replay
from orchestrator.state.slots import SlotStatus
from orchestrator.state.time_budget import PATIENCE_S, Budget, closing_s
from orchestrator.store import journal
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Added, Dropped, Segment
from orchestrator.system import host
from orchestrator.system.stop_signals import StopSignals
from protocol.cell import Workload
from protocol.failure import Category, Phase
from protocol.messages import Ready
from tests.fakes.burn_ins import FakeBurnIn, of_the_first, soak, sound, ten_minutes
from tests.fakes.conducting import Childless
from tests.fakes.displays import RecordingDisplay
from tests.fakes.runs import SECOND_NS, FakeRun, cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


def again(burn_in_run: FakeBurnIn) -> None:
    """A run that was over is written to once more."""
    burn_in_run._journal = Journal(burn_in_run.paths.journal)


def left(burn_in_run: FakeBurnIn) -> int:
    """Launches to be made if it is taken up."""
    return run.left_to_do(burn_in_run.stored, burn_in_run.paths, BURN_IN)[0]


def served(burn_in_run: FakeBurnIn) -> Remaining:
    """The time that the run has had so far."""
    found = run.remaining(burn_in_run.stored, burn_in_run.paths, BURN_IN)
    assert found is not None
    return found


def test_a_stall_was_not_served_before(tmp_path: Path) -> None:
    """`resume` goes by the same time as the verdict, of the device that has least."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.play("work 0-60, stall 50")
    gpu = burn_in_run.finished().gpus[0]
    assert served(burn_in_run).served_s == pytest.approx(min(gpu.served_seconds, 60 * 5), abs=7)
    assert served(burn_in_run).served_s <= gpu.served_seconds
    assert served(burn_in_run).short
    assert left(burn_in_run)


def test_a_burn_in_with_all_of_its_time_has_nothing_left(tmp_path: Path) -> None:
    """Whatever rounds of its plan there was no time for; one that was stopped, or lacks time, has."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=60)
    burn_in_run.finish()
    assert left(burn_in_run)
    assert served(burn_in_run).short
    again(burn_in_run)
    burn_in_run.play("segment, work 60-")
    burn_in_run.dropped(soak(burn_in_run), "dropped: no time was left", number=9)
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    assert left(burn_in_run)
    again(burn_in_run)
    burn_in_run.segment()
    burn_in_run.finish()
    assert (served(burn_in_run).short, left(burn_in_run)) == (False, 0)


def test_a_quarantined_gpu_is_not_waited_for(tmp_path: Path) -> None:
    """Or the others would do their burn-in twice; unless all of them were quarantined."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=20)
    burn_in_run.quarantined("too hot")
    cells = {cell.id: cell for cell in burn_in_run.stored.plan.cells}
    for cell_id, number in burn_in_run.stored.plan.order["cpu:1"][20:]:
        if cells[cell_id].devices == ("cpu:1",):
            burn_in_run.one(cells[cell_id], number, blocks=8)
            burn_in_run.now_ns += 2 * SECOND_NS
    burn_in_run.finish()
    assert (served(burn_in_run).short, left(burn_in_run)) == (False, 0)
    assert out_of(burn_in_run) == (Action.AGAIN, True)
    assert of_the_first(burn_in_run).action is Action.AGAIN
    again(burn_in_run)
    burn_in_run.quarantined("it is gone", device=1)
    assert served(burn_in_run).short
    assert left(burn_in_run)


def out_of(burn_in_run: FakeBurnIn) -> tuple[Action, bool]:
    """Return the action that the first device's quarantine asks for, and whether its reason names the heat."""
    (reason,) = (one for one in of_the_first(burn_in_run).reasons if "quarantined" in one.text)
    return reason.action, "too hot" in reason.text


def test_a_quarantined_gpu_stays_so_when_the_run_is_resumed(tmp_path: Path) -> None:
    """Or its links would keep the healthy ones waiting; unless all were quarantined. It needs a new burn-in."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=10)
    burn_in_run.quarantined("too hot")
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    again(burn_in_run)
    burn_in_run.segment()
    assert out(burn_in_run) == {"cpu:0": "too hot", "cpu:1": ""}
    assert burn_in_run.archive().quarantined == {"cpu:0": "too hot"}
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    assert out_of(burn_in_run) == (Action.AGAIN, True)
    again(burn_in_run)
    burn_in_run.quarantined("it is gone", device=1)
    assert served(burn_in_run).served_s > 0
    burn_in_run.segment()
    assert out(burn_in_run) == {"cpu:0": "", "cpu:1": ""}
    assert burn_in_run.archive().quarantined == {}
    burn_in_run.quarantined("hot again")
    burn_in_run.segment()
    assert out(burn_in_run) == {"cpu:0": "hot again", "cpu:1": ""}


def out(burn_in_run: FakeBurnIn) -> dict[str, str]:
    """Why each device may do nothing, as a run that is taken up begins."""
    begun = run._state(burn_in_run.stored, journal.read(burn_in_run.paths.journal))
    return {uuid: device.quarantined for uuid, device in begun.devices.items()}


@pytest.mark.parametrize("lacks", [True, False])
def test_resume_without_a_name_takes_the_newest_that_lacks_time(tmp_path: Path, lacks: bool) -> None:
    """It came to its end, and is not over: an older run that was stopped is passed over for it."""
    older = FakeRun(tmp_path / "20240101-100000-aaaaaa", devices=gpus(1))
    older.finish(interrupted=True, reason="stopped on request")
    newest = tmp_path / "20240102-100000-bbbbbb"
    burn_in_run = ten_minutes(newest)
    burn_in_run.work(last=40 if lacks else None)
    burn_in_run.finish()
    paths, note = unfinished_runs.choose(None, str(tmp_path))
    assert paths.folder.name == (newest if lacks else older.paths.folder).name
    assert bool(note) is not lacks


@pytest.mark.parametrize(("launches", "goes_on"), [(3, True), (4, False)])
def test_a_run_is_not_resumed_for_less_time_than_a_launch_takes(tmp_path: Path, launches: int, goes_on: bool) -> None:
    """The time is short either way; launches: so many on both devices, of more than two minutes each."""
    burn_in_run = ten_minutes(tmp_path)
    cell = burn_in_run.first(Workload.LINKS)
    for number in range(launches):
        burn_in_run.one(cell, number, blocks=128, others={uuid: sound(cell) for uuid in cell.devices[1:]})
    burn_in_run.finish()
    assert (served(burn_in_run).left_s > 128) is goes_on
    assert served(burn_in_run).short is goes_on
    assert bool(left(burn_in_run)) is goes_on
    (lacking,) = (one for one in of_the_first(burn_in_run).reasons if "at work for" in one.text)
    assert lacking.text.endswith("20m --level quick")  # six cells had no launch
    assert {one.action for one in of_the_first(burn_in_run).reasons} == {Action.AGAIN}


def test_a_new_burn_in_is_no_longer_than_the_longest_and_of_the_same_level(tmp_path: Path) -> None:
    """As the command line takes it; a level that the table has no more cannot be asked for."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "30s")
    configuration = burn_in_run.stored.configuration
    assert configuration.burn_in is not None

    def least(**changes: object) -> str:
        other = msgspec.structs.replace(configuration.burn_in, **changes)
        stored = msgspec.structs.replace(
            burn_in_run.stored, configuration=msgspec.structs.replace(configuration, burn_in=other)
        )
        archive = assemble(stored, burn_in_run.paths, tuple(journal.read(burn_in_run.paths.journal)))
        work: dict[str, busy_time.Work] = {device.uuid: {} for device in stored.devices}
        return remaining_time.ahead(archive, work)["cpu:0"].least

    assert least(duration_s=8 * 86_400.0, level="full") == "336h --level full"
    assert settings.seconds("336h") == settings.LONGEST_S
    assert least(duration_s=600.0, level="of an older version") == "20m"


def test_a_cell_that_was_cut_off_takes_at_least_as_long_as_it_was_seen_to(tmp_path: Path) -> None:
    """Until it has a result: no promise is made from the median of others, which are shorter."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=1)
    stopped = burn_in_run.first(Workload.REPLAY, "cpu:0")
    burn_in_run.failed(stopped, Category.STOPPED, phase=Phase.MEASURE, message="asked to stop", lasted_s=18.0)
    first, second = burn_in_run.stored.devices
    assert busy_time.launch_s(burn_in_run.archive(), first) == pytest.approx(18)
    assert busy_time.launch_s(burn_in_run.archive(), second) < 6
    burn_in_run.one(stopped, 1)
    assert busy_time.launch_s(burn_in_run.archive(), first) < 6


class Importing(FakeBurnIn):
    """One whose launches are expected to import for seconds each."""

    def asked(self, configuration: Configuration) -> Configuration:
        """With --isolation exec."""
        return msgspec.structs.replace(super().asked(configuration), isolation=Isolation.EXEC)


def test_a_launch_is_never_held_to_be_shorter_than_what_resume_makes_room_for(tmp_path: Path) -> None:
    """Its first launches have nothing but the estimate: what does not fit by that is dropped, however short it was."""
    burn_in_run = Importing(tmp_path, cpus(2), "10m")
    burn_in_run.work(last=5)
    budget = Budget(burn_in_run.stored.configuration, burn_in_run.stored.devices, 600, 0)
    mine = [cell for cell in burn_in_run.stored.plan.cells if "cpu:0" in cell.devices]
    took_s = [attempt.lasted_ms / 1000 for attempt in burn_in_run.archive().attempts if attempt.lasted_ms]
    launch_s = busy_time.launch_s(burn_in_run.archive(), burn_in_run.stored.devices[0])
    assert launch_s == min(budget.expected_s(cell) for cell in mine)
    assert launch_s > max(took_s) + 2


def test_a_burn_in_that_has_its_time_and_lacks_a_cell_begins_again(tmp_path: Path) -> None:
    """There is room for it in what is left; but `resume` goes on for time alone, and of that nothing is missing."""
    burn_in_run = ten_minutes(tmp_path)
    lacking = soak(burn_in_run)
    for place, (cell_id, _) in enumerate(burn_in_run.stored.plan.order["cpu:0"]):
        burn_in_run.play("pause 3.5" if cell_id == lacking.id else f"work {place}-{place + 1}")
    burn_in_run.finish()
    assert (served(burn_in_run).short, served(burn_in_run).left_s > 10, left(burn_in_run)) == (False, True, 0)
    (reason,) = of_the_first(burn_in_run).reasons
    assert "never completed" in reason.text
    assert reason.text.endswith("20m --level quick")
    assert reason.action is Action.AGAIN


def test_what_was_dropped_waits_again_in_the_order_of_the_plan(tmp_path: Path) -> None:
    """With each segment, on each device, also what was added; in other runs a launch that was dropped stays so."""
    burn_in_run = ten_minutes(tmp_path)
    plan = burn_in_run.stored.plan
    burn_in_run.work(last=3)
    number = 1 + max(number for _, number in plan.slots)
    more = tuple((cell.id, number) for cell in plan.cells)
    burn_in_run._journal.append(Added(slots=more, suspects=(), at_ns=burn_in_run.now_ns))
    cells = {cell.id: cell for cell in plan.cells}
    waiting = dict.fromkeys([*plan.order["cpu:0"][3:], *plan.order["cpu:1"][3:], *more])
    for cell_id, number in waiting:
        burn_in_run.dropped(cells[cell_id], "dropped: no time was left", number=number)
    stopped = replay(plan, ROUND_RULES, journal.read(burn_in_run.paths.journal)).state
    assert stopped.tally[SlotStatus.WAITING] == 0
    assert burn_in_run.archive().dropped.keys() == waiting.keys()
    burn_in_run.segment()
    records = journal.read(burn_in_run.paths.journal)
    again = replay(plan, ROUND_RULES, records).state
    for uuid in ("cpu:0", "cpu:1"):
        mine = [slot for slot in more if uuid in cells[slot[0]].devices]
        assert again.devices[uuid].queue == (*plan.order[uuid][3:], *mine)
    assert burn_in_run.archive().dropped == {}
    assert replay(plan, BENCHMARK_RULES, records).state.tally[SlotStatus.WAITING] == 0


def test_a_burn_in_may_have_as_many_rounds_as_it_needs(tmp_path: Path) -> None:
    """Each the next one after what is known; another run has seven launches of a cell at the most."""
    burn_in_run = ten_minutes(tmp_path)
    planned = max(number for _, number in burn_in_run.stored.plan.slots)
    cell = soak(burn_in_run)
    records = journal.read(burn_in_run.paths.journal)

    def added(*numbers: int) -> tuple[Added, ...]:
        return tuple(Added(slots=((cell.id, number),), suspects=(), at_ns=1) for number in numbers)

    assert planned > 7
    assert coherence.wrong(burn_in_run.stored, (*records, *added(planned + 1, planned + 2))) is None
    for wrong in ((planned + 2,), (planned,), (planned + 1, planned + 1), (-1,)):
        assert "cannot be added" in str(coherence.wrong(burn_in_run.stored, (*records, *added(*wrong))))
    other = msgspec.structs.replace(burn_in_run.stored.configuration, burn_in=None)
    stored = msgspec.structs.replace(burn_in_run.stored, configuration=other)
    assert "cannot be added" in str(coherence.wrong(stored, (*records, *added(planned + 1))))


class Zygote(Childless):
    """A nursery whose zygote is not ready yet, and says nothing."""

    pid = 4711


@pytest.mark.parametrize("starts", [True, False])
def test_nothing_is_dropped_while_a_burn_in_imports_that_is_gone_on_with(tmp_path: Path, starts: bool) -> None:
    """Or it would end with nothing done. Its time begins when a launch can begin."""
    burn_in_run, now = ten_minutes(tmp_path), time.monotonic()
    stored, records = burn_in_run.stored, journal.read(burn_in_run.paths.journal)
    budget = Budget(stored.configuration, stored.devices, 600, now - 595, starts=now - 40 if starts else None)
    nursery = Zygote((), burn_in_run.paths.log("zygote"), 1.0, {})
    with Journal(burn_in_run.paths.journal) as written, Link("burn-in") as link, StopSignals() as signals:
        around = RunContext(
            stored, BURN_IN, burn_in_run.paths, written, link, nursery, None, signals, RecordingDisplay(), budget
        )
        loop = Loop(around, run._state(stored, records))

        def dropped() -> bool:
            loop._tick()
            return any(isinstance(record, Dropped) for record in journal.read(burn_in_run.paths.journal))

        assert dropped() is not starts
        nursery.ready = True
        loop._greet_zygote(Ready(pid=nursery.pid, import_ms=1.0, threads=1))
        assert dropped() is not starts  # it has the time that it has imported
        loop._stopping.put_off(-60)
        budget.ends -= 60
        assert dropped()


def test_a_resume_has_what_is_missing_and_its_start_costs_nothing(tmp_path: Path) -> None:
    """From when a launch can begin; a new run has its whole duration from the start of its process."""
    burn_in_run = ten_minutes(tmp_path)
    records = journal.read(burn_in_run.paths.journal)
    taken_up = msgspec.structs.replace(next(one for one in records if isinstance(one, Segment)), served_s=321.0)
    new, resumed = (
        run._budget(burn_in_run.stored, BURN_IN, records),
        run._budget(burn_in_run.stored, BURN_IN, (*records, taken_up)),
    )
    now = time.monotonic()
    assert new.ends - now == pytest.approx(600 - closing_s(600) - host.age_s(), abs=1)
    assert resumed.ends - now == pytest.approx(600 - 321 - closing_s(600), abs=1)
    assert resumed.time(now + 30).spent_s == pytest.approx(321, abs=1), "it stands still"
    assert new.first_launch_can_begin(now + 30) == 0
    assert resumed.first_launch_can_begin(now + 30) == pytest.approx(30, abs=1)
    assert resumed.first_launch_can_begin(now + 90) == 0  # another zygote, in place of one that died
    assert resumed.ends - now == pytest.approx(600 - 321 - closing_s(600) + 30, abs=1)
    assert resumed.latest == resumed.ends + PATIENCE_S
    assert resumed.time(now + 40).spent_s == pytest.approx(321 + 10, abs=1)
