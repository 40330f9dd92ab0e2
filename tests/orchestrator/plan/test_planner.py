"""orchestrator/plan/planner.py: cells, their order and their seeds."""

import re
from collections import Counter
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config import catalogue
from orchestrator.config.catalogue import is_probe
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.errors import ConfigError
from orchestrator.plan import planner, shapes
from protocol.cell import Cell, Device, MemoryFormat, Mode, Precision, Workload
from tests.fakes.configurations import configuration, cpu, gpu
from tests.fakes.runs import shipped

MODELS = catalogue.load().models
DEFAULTS = configuration()


def lists(values: object, most: int = 2) -> st.SearchStrategy[tuple]:
    """Lists without duplicates."""
    return st.lists(values, min_size=1, max_size=most, unique_by=str).map(tuple)


sizes = lists(st.integers(1, 512))
configurations = st.builds(
    configuration,
    models=lists(st.sampled_from(MODELS), 4),
    workloads=lists(st.sampled_from([Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION])).map(
        lambda phases: (Workload.LOAD, *phases)
    ),
    precisions=lists(st.sampled_from(Precision)),
    batch_sizes=sizes,
    training_batch_sizes=sizes,
    generation_batch_sizes=sizes,
    sequence_lengths=st.just(()) | lists(st.integers(2, 512)),
    input_sizes=st.just(()) | lists(st.sampled_from([224, 512, 768, 1000])),
    memory_format=st.none() | st.sampled_from(MemoryFormat),
    launches=st.integers(1, 5),
    seed=st.integers(0, 10**9),
    modes=lists(st.sampled_from(Mode)),
)
devices = st.integers(1, 8).map(lambda count: tuple(gpu(number) for number in range(count)))


def without_device(cell: Cell) -> tuple[object, ...]:
    """The fields of a cell without its device."""
    return msgspec.structs.astuple(msgspec.structs.replace(cell, devices=()))


def orders(made: Plan) -> dict[str, list[tuple[object, ...]]]:
    """The cells of each device in order."""
    cells = {cell.id: cell for cell in made.cells}
    return {uuid: [(without_device(cells[cell]), number) for cell, number in made.order[uuid]] for uuid in made.order}


@given(configurations, devices)
def test_a_plan_is_complete_rounds_in_one_order_for_all_devices(
    asked: Configuration, machine: tuple[Device, ...]
) -> None:
    """Every cell once a round, never twice in a row, equal on all devices, with distinct ids; deterministic."""
    made = planner.make(asked, machine)
    assert len({cell.id for cell in made.cells}) == len(made.cells)
    for device in machine:
        mine = {cell.id for cell in made.cells if cell.devices == (device.uuid,)}
        order = made.order[device.uuid]
        assert [number for _, number in order] == sorted(number for _, number in order)
        for number in range(asked.launches):
            assert Counter(cell for cell, of in order if of == number) == Counter(mine)
        if len(mine) > 1:
            assert all(before != after for (before, _), (after, _) in pairwise(order))
    first, *others = orders(made).values()
    assert all(other == first for other in others)
    again = planner.make(asked, machine)
    assert (again, again.hash) == (made, made.hash)


def test_loading_is_measured_once_for_each_precision() -> None:
    """A load has no batch: one cell for each device, model and precision, as batch size 1."""
    asked = configuration(workloads=(Workload.LOAD,), precisions=tuple(Precision), batch_sizes=(1, 8, 32))
    cells = planner.make(asked, (gpu(0), gpu(1))).cells
    loads = Counter((cell.devices, cell.model, cell.precision) for cell in cells if cell.workload is Workload.LOAD)
    models = [model.name for model in MODELS if not (is_probe(model) or model.on_request)]
    assert loads == Counter(
        ((gpu(at).uuid,), name, precision) for at in (0, 1) for name in models for precision in Precision
    )
    assert {cell.batch_size for cell in cells} == {1}


def test_training_has_batch_sizes_of_its_own() -> None:
    """Inference and training take their sizes from different lists."""
    asked = configuration(models=MODELS[:1], probes=(), batch_sizes=(1, 8), training_batch_sizes=(4,))
    cells = planner.make(asked, (gpu(0),)).cells
    found = {(cell.workload, cell.batch_size) for cell in cells}
    assert found == {(Workload.LOAD, 1), (Workload.INFERENCE, 1), (Workload.INFERENCE, 8), (Workload.TRAINING, 4)}


def test_the_cell_carries_size_format_and_new_tokens() -> None:
    """They are part of its identity; in generation the size is the prompt's."""
    writing = configuration(workloads=(*DEFAULTS.workloads, Workload.GENERATION))
    asked = msgspec.structs.replace(writing, sequence_lengths=(128,), input_sizes=(512,))
    for made in (writing, asked):
        cells = planner.make(made, (gpu(0),)).cells
        found = {(cell.model, cell.workload, cell.input_size, cell.new_tokens, cell.memory_format) for cell in cells}
        expected = {
            (shape.model.name, shape.workload, shape.input_size, shape.new_tokens, shape.memory_format)
            for model in MODELS
            for shape in shapes.of(model, made)
            if not (is_probe(model) or model.on_request)
        }
        assert {cell for cell in found if cell[1] is not Workload.PROBE} == expected
        assert {tokens for _, workload, _, tokens, _ in found if workload is Workload.GENERATION} == {64}


def test_impossible_sizes_are_excluded_on_every_device() -> None:
    """The plan has the reason."""
    asked = configuration(models=shipped("lstm", "bert-base"), probes=(), sequence_lengths=(128, 513))
    made = planner.make(asked, (gpu(0), gpu(1)))
    assert [(one.device, one.model, re.findall(r"\d+", one.why)) for one in made.excluded] == [
        (gpu(at).uuid, "bert-base", ["1", "512", "513"]) for at in (0, 1)
    ]
    assert {cell.input_size for cell in made.cells if cell.model == "bert-base"} == {128}


@pytest.mark.parametrize(
    ("models", "refused"), [(("bert-base", "lstm"), r"^GPU 0: .* bert-base: "), (("h2d",), r"^cpu:0: .* h2d: .*CPU")]
)
def test_a_device_with_nothing_to_measure_is_refused(models: tuple[str, ...], refused: str) -> None:
    """A plan without cells would be a run without a result."""
    asked = configuration(models=shipped(*models), probes=(), workloads=(Workload.GENERATION,))
    with pytest.raises(ConfigError, match=refused):
        planner.make(asked, (gpu(0), cpu(0)))


def test_one_device_alone_is_solo() -> None:
    """Its figures compare with those of --solo, not with a full node's."""
    assert {cell.mode for cell in planner.make(DEFAULTS, (gpu(0),)).cells} == {Mode.SOLO}
    assert {cell.mode for cell in planner.make(DEFAULTS, (gpu(0), gpu(1))).cells} == {Mode.LOADED}
    solo = configuration(modes=(Mode.SOLO,))
    assert {cell.mode for cell in planner.make(solo, (gpu(0), gpu(1))).cells} == {Mode.SOLO}


def test_a_round_has_each_mode_by_itself() -> None:
    """Every cell in both modes, in the requested order; a single device has one mode."""
    asked = configuration(modes=(Mode.LOADED, Mode.SOLO), launches=2)
    made = planner.make(asked, (gpu(0), gpu(1)))
    cells = {cell.id: cell for cell in made.cells}
    order = [(number, cells[cell].mode) for cell, number in made.order[gpu(0).uuid]]
    assert list(dict.fromkeys(order)) == [
        *[(0, Mode.LOADED), (0, Mode.SOLO)],
        *[(1, Mode.LOADED), (1, Mode.SOLO)],
    ]
    assert order == sorted(order)
    assert {msgspec.structs.replace(cell, mode=Mode.SOLO).id for cell in made.cells} <= cells.keys()
    assert {cell.mode for cell in planner.make(asked, (gpu(0),)).cells} == {Mode.SOLO}


def test_precision_mode_and_batch_share_a_seed() -> None:
    """Precision, mode and batch size share weights and inputs; models and phases do not."""
    asked = configuration(precisions=tuple(Precision))
    for machine in ((gpu(0),), (gpu(0), cpu(0))):
        by_work: dict[tuple[str, Workload], set[int]] = {}
        for cell in planner.make(asked, machine).cells:
            by_work.setdefault((cell.model, cell.workload), set()).add(cell.seed)
        assert all(len(seeds) == 1 for seeds in by_work.values())
        assert len(set.union(*by_work.values())) == len(by_work)


def test_another_seed_gives_another_order() -> None:
    """The seed decides the order of the cells. Their own seeds differ as well, and do not count here."""

    def order(seed: int) -> list[tuple[object, ...]]:
        made = planner.make(configuration(seed=seed), (gpu(0),))
        cells = {cell.id: msgspec.structs.replace(cell, seed=0) for cell in made.cells}
        return [(without_device(cells[cell]), number) for cell, number in made.order[gpu(0).uuid]]

    assert order(1) != order(2)
    assert Counter(order(1)) == Counter(order(2))


@pytest.mark.parametrize("cells", [3, 5])
def test_rounds_are_random_orders_without_a_cell_twice_in_a_row(cells: int) -> None:
    """A round never begins with the cell that ended the one before, which chance alone would do every few rounds."""
    rounds = planner.rounds_of(cells, 50, seed=7)
    assert all(sorted(block) == list(range(cells)) for block in rounds)
    assert [before for before, after in pairwise(rounds) if before[-1] == after[0]] == []
    assert len({tuple(block) for block in rounds}) > 2
