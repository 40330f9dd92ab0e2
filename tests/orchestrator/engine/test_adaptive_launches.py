"""orchestrator/engine/adaptive_launches.py: doubts of a report, launches for them, and their way to disk."""

import os
import random
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from orchestrator.analysis import evidence, report_builder
from orchestrator.config.run_configuration import Configuration, Slot, StoredRun
from orchestrator.engine import adaptive_launches, run_status
from orchestrator.engine.adaptive_launches import AdaptiveLaunches, More
from orchestrator.engine.kind import Kind
from orchestrator.engine.launches.link import Link
from orchestrator.engine.loop import Loop
from orchestrator.engine.run import left_to_do
from orchestrator.engine.run_context import RunContext
from orchestrator.errors import RunFolderError
from orchestrator.figures.cells import Status
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.report import remarks
from orchestrator.state import archive
from orchestrator.state.added_launches import Look
from orchestrator.state.replay import BENCHMARK_RULES, replay
from orchestrator.state.slots import Quarantined, RunState, SlotStatus, StopRequested
from orchestrator.state.time_budget import CLOSING_S, Budget
from orchestrator.state.transitions import step
from orchestrator.stats.stragglers import MOST_LAUNCHES, SiblingVerdict
from orchestrator.store import journal, run_files
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Added
from orchestrator.system.stop_signals import StopSignals
from protocol.cell import Cell, Mode
from protocol.exit_codes import ExitCode
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes.conducting import Childless
from tests.fakes.displays import RecordingDisplay
from tests.fakes.runs import FakeRun, gpus, shipped

SLOW = 3
NOTHING = More((), ())
Factor = Callable[[int, Cell], float]


class Run(FakeRun):
    """Of a profile that adds launches."""

    def asked(self, configuration: Configuration) -> Configuration:
        """See above."""
        return msgspec.structs.replace(configuration, adds_launches=True)


def measured(
    folder: Path,
    factor: Factor = lambda place, cell: 1.0,
    *,
    noise: float = 0.03,
    gpus_: int = 8,
    modes: tuple[Mode, ...] = (Mode.LOADED,),
    kind: type[FakeRun] = Run,
) -> FakeRun:
    """All that was planned of inference of two models, by launches that scatter by `noise`; GPU 3 takes `factor`."""
    run = kind(
        folder, devices=gpus(gpus_), models=shipped("resnet50", "bert-base"), batch_sizes=(8,), launches=3, modes=modes
    )
    for queue in run.stored.plan.order.values():
        for slot in queue:
            launch(run, slot, factor, noise)
    return run


def launch(run: FakeRun, slot: Slot, factor: Factor, noise: float) -> None:
    """One of them."""
    cell = next(cell for cell in run.stored.plan.cells if cell.id == slot[0])
    place = [device.uuid for device in run.stored.devices].index(cell.devices[0])
    chance = random.Random(f"{place} {cell.model} {slot[1]}")
    run.measured(cell, number=slot[1], forward_ms=10.0 * factor(place, cell) * (1 + chance.gauss(0, noise)))


def slower(percent: float, mode: Mode | None = None) -> Factor:
    """GPU 3 takes longer by so much, in both modes or in one."""
    return lambda place, cell: 1 / (1 - percent / 100) if place == SLOW and mode in (None, cell.mode) else 1.0


@pytest.fixture(scope="module")
def at_margin(tmp_path_factory: pytest.TempPathFactory) -> FakeRun:
    """A run that leaves GPU 3 SUSPECT, for tests that write nothing into it."""
    return measured(tmp_path_factory.mktemp("margin"), slower(4))


def extended(folder: Path, failed: Collection[int] = ()) -> tuple[FakeRun, Cell]:
    """A run of three launches of one cell on each of eight GPUs, with a fourth added on the first, and that cell.

    failed: rounds of the first GPU without a result.
    """
    run = Run(folder, devices=gpus(8), batch_sizes=(8,), launches=3)
    first = run.stored.plan.cells[0]
    for cell in run.stored.plan.cells:
        for number in range(3):
            (run.failed if cell is first and number in failed else run.measured)(cell, number=number)
    run.added((first.id, 3))
    return run, first


def stands(run: FakeRun) -> RunState:
    """Where it stands by its journal."""
    return replay(run.stored.plan, BENCHMARK_RULES, journal.read(run.paths.journal)).state


def look(run: FakeRun, now: RunState | None = None, budget: Budget | None = None) -> More:
    """What is to be added now."""
    now = stands(run) if now is None else now
    adaptive = adaptive_of(run, budget)
    return adaptive.decide(now, adaptive.look(now))


def adaptive_of(run: FakeRun, budget: Budget | None = None) -> AdaptiveLaunches:
    """The adaptive launches of a run."""
    return AdaptiveLaunches(
        cast("Any", SimpleNamespace(stored=run.stored, paths=run.paths, budget=budget, kind=BENCHMARK))
    )


def doubts(run: FakeRun) -> set[tuple[str, tuple[str, ...]]]:
    """Return the GPUs that are in doubt, with their cells."""
    loaded = archive.load(run.paths)
    return {
        (doubt.gpu, doubt.cells) for doubt in report_builder.in_doubt(loaded, evidence.gather(loaded, goes_on=True))
    }


def ids(run: FakeRun, model: str, mode: Mode) -> tuple[str, ...]:
    """A cell, on every GPU."""
    return tuple(cell.id for cell in run.stored.plan.cells if (cell.model, cell.mode) == (model, mode))


def test_a_suspect_gets_the_fourth_launch_of_its_cells(tmp_path: Path) -> None:
    """On all eight GPUs; recorded, they are what the run goes on with, and nothing is decided before they are made."""
    run = measured(tmp_path, slower(4))
    more = look(run)
    uuid = run.stored.devices[SLOW].uuid
    assert uuid in more.suspects
    assert set(more.slots) == {(cell.id, 3) for cell in run.stored.plan.cells}
    run.added(*more.slots, suspect=SLOW)
    now = stands(run)
    assert (len(now.slots), now.tally[SlotStatus.WAITING]) == (64, 16)
    assert look(run) == NOTHING
    assert archive.load(run.paths).added == more.slots
    status, _ = run_status.look(run.stored, run.paths)
    assert (status.planned, status.settled) == (64, 48)
    assert left_to_do(run.stored, run.paths, BENCHMARK) == (16, 64)


def test_it_ends_when_nobody_is_suspect_or_no_launch_would_settle_it(tmp_path: Path) -> None:
    """Launches that differ by 3 % at the margin are made again while seven could decide, and then no more."""
    run = measured(tmp_path, slower(4))
    made = 3
    while slots := look(run).slots:
        assert {number for _, number in slots} == {made}
        run.added(*slots, suspect=SLOW)
        for slot in slots:
            launch(run, slot, slower(4), 0.03)
        made += 1
    assert 3 < made <= MOST_LAUNCHES
    report = run.ended()
    assert {(cell.launches, cell.launches_planned) for cell in report.cells} == {(made, 3)}
    assert {one.launches_added for one in report.stragglers} == {2 * (made - 3)}
    assert report.stragglers[SLOW].verdict is SiblingVerdict.SUSPECT
    assert any(reason.startswith(f"{16 * (made - 3)} launches ") for reason in report.verdict.reasons)
    assert report.verdict.exit_code == 0
    assert look(measured(tmp_path / "sound", noise=0.002, gpus_=4)) == NOTHING


def test_in_doubt_are_the_cells_of_the_mode_that_is_not_settled(tmp_path: Path) -> None:
    """A GPU at the margin when all are at work is asked for that alone; one that is a STRAGGLER there, for nothing."""
    both = {"noise": 0.004, "gpus_": 4, "modes": (Mode.LOADED, Mode.SOLO)}
    run = measured(tmp_path / "one", slower(4, Mode.LOADED), **both)
    uuid = run.stored.devices[SLOW].uuid
    assert doubts(run) == {(uuid, ids(run, model, Mode.LOADED)) for model in ("resnet50", "bert-base")}

    def worse(place: int, cell: Cell) -> float:
        return slower(12, Mode.SOLO)(place, cell) * slower(4, Mode.LOADED)(place, cell)

    assert doubts(measured(tmp_path / "two", worse, **both)) == set()


@pytest.mark.parametrize("shape", [{"kind": FakeRun, "gpus_": 4}, {"gpus_": 3}])
def test_runs_that_do_not_adapt_get_no_launches(tmp_path: Path, shape: dict[str, Any]) -> None:
    """An exact number of launches was requested, or there are too few GPUs."""
    assert look(measured(tmp_path, slower(4), **shape)) == NOTHING


def test_nothing_is_added_before_the_end_or_after_a_stop(at_margin: FakeRun) -> None:
    """Waiting launches of a quarantined GPU do not count."""
    now, uuid = stands(at_margin), at_margin.stored.devices[0].uuid
    assert look(at_margin, step(now, StopRequested())) == NOTHING
    waits = msgspec.structs.replace(now.devices[uuid], queue=at_margin.stored.plan.order[uuid][:1])
    now = msgspec.structs.replace(now, devices={**now.devices, uuid: waits})
    assert look(at_margin, now) == NOTHING
    assert look(at_margin, step(now, Quarantined(uuid, "gone"))).slots


@pytest.mark.parametrize(("left_s", "added"), [(-1.0, 0), (0.5, 0), (600.0, 16)])
def test_a_time_limit_bounds_what_is_added(at_margin: FakeRun, left_s: float, added: int) -> None:
    """A round needs some ten seconds by the estimate."""
    stored = at_margin.stored
    budget = Budget(stored.configuration, stored.devices, left_s + CLOSING_S, time.monotonic())
    assert len(look(at_margin, budget=budget).slots) == added


def test_an_added_launch_that_is_not_made_leaves_the_run_complete(tmp_path: Path) -> None:
    """The plan was kept: dropped or failed, it is no planned launch; and nobody counts a dropped one as added."""
    run = measured(tmp_path, slower(4), gpus_=4)
    cell = run.stored.plan.cells[0]
    run.added((cell.id, 3), suspect=SLOW)
    run.dropped(cell, "no time was left", number=3)
    report = run.ended()
    assert report.summary.cells.short_of_launches == 0
    assert report.verdict.exit_code == 0
    assert {one.launches_added for one in report.stragglers} == {0}
    assert report.stragglers[SLOW].verdict is SiblingVerdict.SUSPECT


@pytest.mark.parametrize("lost", ["deleted", "failed"])
def test_an_added_launch_that_was_dropped_hides_nothing_of_the_plan(tmp_path: Path, lost: str) -> None:
    """All results of a cell are gone, or it never had one: the run has failed, whatever there was no time for later."""
    run, cell = extended(tmp_path, failed=range(3) if lost == "failed" else ())
    run.dropped(cell, "no time was left", number=3)
    run.finish()
    for attempt in (1, 2, 3) if lost == "deleted" else ():
        run.paths.launch(cell.id, attempt).result.unlink()
    report = run.report()
    assert (report.cells[0].status, report.summary.cells.dropped) == (Status.FAILED, 0)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_planned_launch_that_failed_is_not_made_up_for_by_an_added_one(tmp_path: Path) -> None:
    """The cell is short of a launch before and after, and its row says so."""
    run, first = extended(tmp_path, failed=(2,))
    run.measured(first, number=3)
    report = run.ended()
    assert (report.cells[0].launches, report.summary.cells.short_of_launches) == (3, 1)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE
    said = [remarks.remark(result.inference_metrics["batch_size_8"]) for result in report.results]
    assert ["2 of 3 planned" in words for words in said] == [True] + [False] * 7


def test_an_added_launch_that_is_out_of_memory_changes_no_figure(tmp_path: Path) -> None:
    """Three launches at the size asked for count; the added one, which had room for half of it, does not."""
    run, first = extended(tmp_path)
    run.failed(first, Category.OUT_OF_MEMORY, number=3)
    run.measured(first, batch_size=4, number=3)
    report = run.ended()
    assert (report.cells[0].status, report.cells[0].batch_size, report.cells[0].launches) == (Status.OK, 8, 3)
    assert report.verdict.exit_code == ExitCode.PASSED


def test_what_has_happened_while_it_looked_decides(tmp_path: Path) -> None:
    """Nothing is added for a GPU that has gone out since, nor to a run that was asked to stop."""
    run = measured(tmp_path, slower(4), noise=0.004, gpus_=4)
    uuid, now, adaptive = run.stored.devices[SLOW].uuid, stands(run), adaptive_of(run)
    found = adaptive.look(now)
    assert {doubt.gpu for doubt in found.doubts} == {uuid}
    assert adaptive.decide(now, found).slots
    assert adaptive.decide(step(now, StopRequested()), found) == NOTHING
    assert adaptive.decide(step(now, Quarantined(uuid, "gone")), found) == NOTHING
    other = Quarantined(run.stored.devices[0].uuid, "gone")
    assert len(adaptive.decide(step(now, other), found).slots) == 6


@pytest.mark.parametrize("stops", [True, False])
def test_a_stop_during_the_look_is_heeded_before_anything_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """The plan was complete: so is the run, and not one launch more is begun."""
    run = measured(tmp_path / "run", slower(4), gpus_=4)
    seen = adaptive_launches.look(run.paths, run.stored, BENCHMARK)

    def read(paths: RunPaths, stored: StoredRun, kind: Kind) -> Look:
        if stops:
            os.kill(os.getpid(), signal.SIGINT)
        return seen

    monkeypatch.setattr(adaptive_launches, "look", read)
    monkeypatch.setattr(Loop, "_work", lambda loop: None)
    with Journal(run.paths.journal) as written, Link("added") as link, StopSignals() as signals:
        nursery = Childless((), run.paths.log("zygote"), 1.0, {})
        loop = Loop(
            RunContext(run.stored, BENCHMARK, run.paths, written, link, nursery, None, signals, RecordingDisplay()),
            stands(run),
        )
        loop.run()
    assert loop.state.stopping is stops
    assert (loop.state.settled < len(loop.state.slots)) is not stops
    assert any(isinstance(record, Added) for record in journal.read(run.paths.journal)) is not stops


def test_a_missing_planned_launch_is_not_excused_by_an_added_one_that_was_dropped(tmp_path: Path) -> None:
    """What counts for the plan is how many it promised."""
    run = Run(tmp_path, devices=gpus(8), batch_sizes=(8,), launches=3)
    cell = run.stored.plan.cells[0]
    for number in range(2):
        run.measured(cell, number=number)
    run.added((cell.id, 3))
    run.dropped(cell, "no time was left", number=3)
    assert run.ended().summary.cells.short_of_launches == 1


@pytest.mark.parametrize(
    ("slots", "suspect", "words"),
    [
        ((("nobody", 3),), 0, "'nobody', round 3, cannot"),
        ((("own", 2),), 0, "round 2, cannot"),
        ((("own", 3), ("own", 3)), 0, "round 3, cannot"),
        ((("own", 4),), 0, "round 4, cannot"),
        ((("own", 3), ("own", 4)), 0, "round 4, cannot"),
        ((("own", MOST_LAUNCHES),), 0, f"round {MOST_LAUNCHES}, cannot"),
        ((("own", 3),), 1, "no device"),
    ],
)
def test_a_journal_that_adds_what_cannot_be_is_refused(
    tmp_path: Path, slots: tuple[tuple[str, int], ...], suspect: int, words: str
) -> None:
    """Its folder may come from anybody."""
    run = Run(tmp_path, devices=gpus(4), batch_sizes=(8,), launches=3)
    known = run.stored.plan.cells[0].id
    if suspect:
        run.stored = msgspec.structs.replace(run.stored, devices=gpus(5)[4:])
    run.added(*((known if cell == "own" else cell, number) for cell, number in slots))
    with pytest.raises(RunFolderError, match=words):
        archive.load(run.paths, run_files.load(run.paths))
