"""state/added_launches.py: the launches that are added for a SUSPECT GPU, and how often that is right."""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pytest

from orchestrator.config import margins
from orchestrator.config.run_configuration import BurnIn, Slot
from orchestrator.plan import planner
from orchestrator.state import added_launches, transitions, turns
from orchestrator.state.added_launches import Doubt
from orchestrator.state.slots import (
    Added,
    Quarantined,
    RunState,
    Skip,
    SlotStatus,
    rounds,
    settled,
)
from orchestrator.stats.stragglers import MOST_LAUNCHES, Bound, SiblingCell, SiblingVerdict, judge
from protocol.cell import Cell, DeviceKind, Mode, Workload
from protocol.failure import Category
from tests.fakes.configurations import configuration, cpu, options, resolved
from tests.fakes.runs import gpus, shipped
from tests.fakes.steps import begun, ended, failure, run

MARGINS = margins.load().shares
GPUS = gpus(8)
BOUNDS = (Bound.POWER, Bound.CLOCK, Bound.BANDWIDTH)
SEED = 7
BOTH = (Mode.LOADED, Mode.SOLO)


@functools.cache
def planned(modes: tuple[Mode, ...] = (Mode.LOADED,), launches: int = 3) -> RunState:
    """A run on eight GPUs of three models at two batch sizes, as it begins."""
    asked = configuration(
        models=shipped("lstm", "autoencoder", "resnet50"),
        probes=(),
        workloads=(Workload.INFERENCE,),
        precisions=(configuration().precisions[0],),
        batch_sizes=(1, 8),
        launches=launches,
        modes=modes,
    )
    return transitions.begin(planner.make(asked, GPUS), {gpu.uuid: gpu.name for gpu in GPUS})


@functools.cache
def through(modes: tuple[Mode, ...] = (Mode.LOADED,), launches: int = 3) -> RunState:
    """The same when all that was planned is measured."""
    return run(planned(modes, launches), lambda _: None)[0]


def alike(now: RunState, model: str = "lstm", batch_size: int = 1, mode: Mode = Mode.LOADED) -> tuple[str, ...]:
    """The ids of a cell, on every GPU."""
    wanted = (model, batch_size, mode)
    return tuple(cell.id for cell in now.cells.values() if (cell.model, cell.batch_size, cell.mode) == wanted)


def doubted(*several: tuple[str, ...]) -> list[Doubt]:
    """GPU 3 is SUSPECT in these cells."""
    return [Doubt(GPUS[3].uuid, cells) for cells in several]


def grown(now: RunState, several: Iterable[Doubt]) -> RunState:
    """The state with what is added, if anything."""
    return transitions.step(now, Added(added_launches.decide(now, several, seed=SEED)))


# ── what is added ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_round_of_the_cells_in_question_on_every_identical_gpu() -> None:
    """The fourth launch of two cells of six, on all eight GPUs in the same order, and nobody else's."""
    now = through()
    cells = (alike(now), alike(now, "resnet50", 8))
    after = grown(now, doubted(*cells))
    assert set(after.slots) - set(now.slots) == {(one, 3) for ids in cells for one in ids}
    orders = {tuple((after.cells[cell].model, number) for cell, number in d.queue) for d in after.devices.values()}
    assert len(orders) == 1
    done, made = run(after, lambda _: None)
    assert {one.slot for one in made} == set(after.slots) - set(now.slots)
    assert done.settled == len(done.slots) == len(now.slots) + len(cells) * len(GPUS)


def test_the_order_comes_from_the_seed_and_no_cell_is_launched_twice_in_a_row() -> None:
    """The same data give the same launches; each round has an order of its own, and never begins as the last ended."""
    everything = doubted(alike(through()), alike(through(), "resnet50"), alike(through(), "autoencoder", 8))
    for seed in range(10):
        now, orders = through(), []
        for _ in range(MOST_LAUNCHES - 3):
            slots = added_launches.decide(now, everything, seed=seed)
            assert slots == added_launches.decide(now, reversed(everything), seed=seed)
            now, made = run(transitions.step(now, Added(slots)), lambda _: None)
            own = tuple(one.planned for one in made if one.device == GPUS[0].uuid)
            assert not orders or own[0] != orders[-1][-1]
            orders.append(own)
        assert len(set(orders)) > 1


def test_seven_launches_of_a_cell_are_the_most() -> None:
    """However long a GPU stays SUSPECT; and five of the profile leave two."""
    for launches in (3, 5, 7):
        now, more = through(launches=launches), []
        while slots := added_launches.decide(now, doubted(alike(now)), seed=SEED):
            now, made = run(transitions.step(now, Added(slots)), lambda _: None)
            more += made
        assert len(more) == 8 * (MOST_LAUNCHES - launches)
        assert {rounds(now, cell) for cell in alike(now)} == {MOST_LAUNCHES}


def test_modes_take_turns_in_added_rounds_too() -> None:
    """Loaded launches together, and only then each solo one alone."""
    now = grown(through(BOTH), doubted(alike(through(BOTH), mode=Mode.SOLO), alike(through(BOTH))))
    modes: list[set[Mode]] = []
    while True:
        now, following = transitions.next_launches(now)
        if not following:
            break
        modes.append({one.cell.mode for one in following})
        assert len(following) == (8 if Mode.LOADED in modes[-1] else 1)
        now = begun(now, *following)
        for one in following:
            now = ended(now, one)
    assert modes == [{Mode.LOADED}, *[{Mode.SOLO}] * 8]


@pytest.mark.parametrize("modes", [(Mode.LOADED,), BOTH])
def test_a_gpu_that_was_out_makes_the_next_round_with_its_siblings(modes: tuple[Mode, ...]) -> None:
    """They go on without it; when it is back it makes up for no round, which it would do beside idle siblings."""
    now = transitions.step(through(modes), Quarantined(GPUS[5].uuid, "gone"))
    now, made = run(grown(now, doubted(alike(now))), lambda _: None)
    assert {one.device for one in made} == {gpu.uuid for gpu in GPUS} - {GPUS[5].uuid}
    assert now.settled == len(now.slots)
    back = msgspec.structs.replace(now.devices[GPUS[5].uuid], quarantined="")
    now = msgspec.structs.replace(now, devices={**now.devices, GPUS[5].uuid: back})
    now = grown(now, doubted(alike(now)))
    assert {one.slot for one in transitions.next_launches(now)[1]} == {(cell, 4) for cell in alike(now)}
    assert len(run(now, lambda one: failure(Category.CRASHED) if one.device == GPUS[0].uuid else None)[1]) > 8
    now, made = run(now, lambda _: None)
    assert len(made) == 8
    assert {rounds(now, cell) for cell in alike(now)} == {5}
    for number in range(3):  # its planned results are not there any more
        now = settled(now, (alike(now)[5], number), SlotStatus.FAILED)
    assert set(added_launches.decide(now, doubted(alike(now)), seed=SEED)) == {(cell, 5) for cell in alike(now)}


def test_a_cell_without_any_result_on_a_gpu_is_not_tried_there_again() -> None:
    """A cell that failed in every planned launch would fail again, and each failure may last until its deadline."""
    sick = alike(planned())[2]
    now, _ = run(planned(), lambda one: failure(Category.PROTOCOL) if one.planned == sick else None)
    slots = added_launches.decide(now, doubted(alike(now)), seed=SEED)
    assert {cell for cell, _ in slots} == set(alike(now)) - {sick}


def test_a_skipped_model_is_not_launched_again() -> None:
    """It failed somewhere since, so that no launch of it would be made."""
    skip = Skip(model="lstm", category=Category.IMPORT_ERROR, devices=(GPUS[0].uuid,))
    now = msgspec.structs.replace(through(), skipped={"lstm": skip})
    slots = added_launches.decide(now, doubted(alike(now), alike(now, "resnet50")), seed=SEED)
    assert {now.cells[cell].model for cell, _ in slots} == {"resnet50"}
    assert transitions.step(now, Added(((alike(now)[0], 3),))).in_vain[GPUS[0].uuid] == 1


def test_a_scan_for_the_batch_size_is_not_made_again() -> None:
    """It is made of many launches already."""
    now = through()
    scan = tuple(msgspec.structs.replace(now.cells[one], batch_size=0) for one in alike(now))
    now = msgspec.structs.replace(now, cells={**now.cells, **{cell.id: cell for cell in scan}})
    for cell in scan:
        now = msgspec.structs.replace(now, slots=now.slots.but((cell.id, 0), now.slots[alike(now)[0], 0]))
    assert added_launches.decide(now, doubted(tuple(cell.id for cell in scan)), seed=SEED) == ()


def test_a_failed_added_launch_is_tried_again_and_costs_no_other() -> None:
    """They are launches like those of the plan: retries, and in the end a failure that is final."""
    now = grown(through(), doubted(alike(through())))
    now, made = run(now, lambda one: failure(Category.CRASHED) if one.device == GPUS[0].uuid else None)
    statuses = Counter(now.slots[cell, 3].status for cell in alike(now))
    assert statuses == {SlotStatus.MEASURED: 7, SlotStatus.FAILED: 1}
    assert len(made) > 8


def test_the_same_launch_is_never_added_twice() -> None:
    """The second of two equal records in the journal changes nothing."""
    slots = added_launches.decide(through(), doubted(alike(through())), seed=SEED)
    once = transitions.step(through(), Added(slots))
    twice = transitions.step(once, Added(slots))
    assert (twice.tally, twice.devices) == (once.tally, once.devices)


# ── the time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("left_s", "expected"),
    [(19.0, set()), (21.0, {Mode.LOADED}), (179.0, {Mode.LOADED}), (181.0, {Mode.LOADED, Mode.SOLO})],
)
def test_a_round_for_which_there_is_no_time_is_not_begun(left_s: float, expected: set[Mode]) -> None:
    """Two cells of ten seconds, loaded side by side take 20 s, solo one GPU after the other 160 s; never a part."""
    now = through(BOTH)
    keys = itertools.product(("lstm", "resnet50"), (1,), BOTH)
    slots = added_launches.decide(
        now, doubted(*(alike(now, *key) for key in keys)), seed=SEED, left_s=left_s, expected_s=lambda _: 10.0
    )
    assert {now.cells[cell].mode for cell, _ in slots} == expected
    assert len(slots) == 2 * len(GPUS) * len(expected)
    assert [turns.of(now, slot) for slot in slots] == sorted(turns.of(now, slot) for slot in slots)


# ── which runs ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "adds"),
    [
        ({"profile": "standard"}, True),
        ({"profile": "rigorous"}, True),
        ({"profile": "triage"}, True),
        ({"profile": "quick"}, False),
        ({"profile": "standard", "launches": 3}, False),
        ({"profile": "rigorous", "launches": 2}, False),
    ],
)
def test_profiles_that_compare_add_launches_unless_a_number_was_asked_for(said: dict[str, object], adds: bool) -> None:
    """A number of launches is exact; a first look has one of each."""
    asked = resolved(command_line=options(benchmark=said))
    assert added_launches.applies(asked, gpus(4)) is adds
    burn_in_run = BurnIn(duration_s=60.0, level="quick", cell_s=dict.fromkeys(DeviceKind, 1.0))
    assert not added_launches.applies(msgspec.structs.replace(asked, burn_in=burn_in_run), gpus(4))


def test_it_takes_four_identical_whole_gpus() -> None:
    """Three cannot tell who is slow; slices and CPU devices get no verdict; of two kinds each has to be four."""
    asked = configuration(adds_launches=True)
    assert added_launches.applies(asked, gpus(4))
    assert not added_launches.applies(asked, gpus(3))
    assert not added_launches.applies(asked, [cpu(number) for number in range(4)])
    assert not added_launches.applies(asked, gpus(4, slice_of="GPU-1"))
    assert not added_launches.applies(asked, [*gpus(3), *gpus(3, name="NVIDIA H100")])
    assert added_launches.judged([*gpus(4), *gpus(3, name="NVIDIA H100")]) == gpus(4)


def test_how_many_it_may_be() -> None:
    """For --dry-run: up to the most of each cell of the GPUs that are judged; none for scans and loads."""
    cells = list(planned().cells.values())
    for launches in (3, 5, MOST_LAUNCHES, MOST_LAUNCHES + 2):
        more = max(MOST_LAUNCHES - launches, 0)
        assert added_launches.at_most(cells, launches, GPUS) == len(cells) * more
    for change in ({"batch_size": 0}, {"workload": Workload.LOAD}):
        others = [msgspec.structs.replace(cell, **change) for cell in cells]
        assert added_launches.at_most(others, 3, GPUS) == 0
    assert added_launches.at_most(cells, 3, GPUS[:3]) == 0


# ── how often it is right ─────────────────────────────────────────────────────────────────────────────────────────────

Rate = Mapping[Bound, float]


class Found(NamedTuple):
    """What became of a simulated node. first: the verdicts after the planned launches. added: launches of it."""

    first: dict[str, SiblingVerdict]
    last: dict[str, SiblingVerdict]
    added: int


def healthy(chance: random.Random) -> list[Rate]:
    """GPUs as eight H200s were: 2.7 % apart at the power limit, and 1 % where the clock or the memory is."""
    apart = {Bound.POWER: 0.027, Bound.CLOCK: 0.01, Bound.BANDWIDTH: 0.01}
    drawn = [chance.gauss(0, 1) for _ in GPUS]
    places = [(one - min(drawn)) / (max(drawn) - min(drawn)) for one in drawn]
    return [{bound: 1 + width * place for bound, width in apart.items()} for place in places]


def slow(rates: Sequence[Rate], percent: float) -> list[Rate]:
    """The same, but GPU 3 does everything slower than the middle of its siblings by so much."""
    middle = {bound: sorted(rate[bound] for rate in rates)[len(rates) // 2] for bound in BOUNDS}
    return [
        {bound: value * (1 - percent / 100) for bound, value in middle.items()} if place == 3 else rate
        for place, rate in enumerate(rates)
    ]


def simulated(chance: random.Random, rates: Sequence[Rate], noise: float) -> Found:
    """The launches that a run of these GPUs makes, planned and added, each with a rate that scatters by `noise`."""
    values: dict[Slot, float] = {}

    def judged(now: RunState) -> tuple[dict[str, SiblingVerdict], list[Doubt]]:
        for slot in now.slots:
            if slot not in values:
                place = [gpu.uuid for gpu in GPUS].index(now.cells[slot[0]].devices[0])
                values[slot] = rates[place][bound_of(now.cells[slot[0]])] * math.exp(chance.gauss(0, noise))
        keys = sorted({(cell.model, cell.batch_size) for cell in now.cells.values()})
        cells = {f"{key}": alike(now, *key) for key in keys}
        told = [
            SiblingCell(
                name=name,
                bound=bound_of(now.cells[ids[0]]),
                rates={
                    now.cells[one].devices[0]: [values[one, number] for number in range(rounds(now, one))]
                    for one in ids
                },
            )
            for name, ids in cells.items()
        ]
        found = judge(told, MARGINS)
        doubts = [Doubt(one.gpu, cells[name]) for one in found for name in one.in_question]
        return {one.gpu: one.verdict for one in found}, doubts

    now = through()
    first, doubts = judged(now)
    last = first
    while slots := added_launches.decide(now, doubts, seed=SEED):
        now, _ = run(transitions.step(now, Added(slots)), lambda _: None)
        last, doubts = judged(now)
    return Found(first, last, len(now.slots) - len(through().slots))


def bound_of(cell: Cell) -> Bound:
    """Each model is limited by something else."""
    return BOUNDS[("lstm", "autoencoder", "resnet50").index(cell.model)]


def test_healthy_gpus_end_without_a_straggler_and_few_launches_are_added() -> None:
    """Of 300 nodes of eight, 1 % at most have a STRAGGLER in the end, and a tenth of the plan is added on average."""
    found = [simulated(chance := random.Random(seed), healthy(chance), 0.01) for seed in range(300)]
    flagged = sum(SiblingVerdict.STRAGGLER in one.last.values() for one in found)
    assert flagged <= 3
    assert sum(one.added for one in found) / len(found) <= 0.1 * len(through().slots)


def test_a_gpu_that_is_8_percent_slower_is_settled_by_the_added_launches() -> None:
    """Launches that scatter by 3 % leave it SUSPECT after three in some nodes: then it is found in 19 of 20."""
    found = [simulated(chance := random.Random(seed), slow(healthy(chance), 8), 0.03) for seed in range(100)]
    doubtful = [one for one in found if one.first[GPUS[3].uuid] is SiblingVerdict.SUSPECT]
    settled = [one for one in doubtful if one.last[GPUS[3].uuid].is_finding]
    assert len(doubtful) >= 20
    assert len(settled) >= 0.95 * len(doubtful)
    assert all(one.added for one in doubtful)
    others = [one.last[gpu] for one in found for gpu in one.last if gpu != GPUS[3].uuid]
    assert SiblingVerdict.STRAGGLER not in others
