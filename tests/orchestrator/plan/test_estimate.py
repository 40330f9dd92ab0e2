"""orchestrator/plan/estimate.py: the rough estimate of --dry-run."""

import pytest
from msgspec.structs import replace

from orchestrator.config import catalogue
from orchestrator.config.run_configuration import Configuration, Isolation
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.kinds.burn_in import settings as burn_in
from orchestrator.plan import estimate, planner
from protocol.cell import Device, Mode, Workload
from protocol.verification import LEAST_REPLAYS, REPLAY_STEPS
from tests.fakes import ledgers
from tests.fakes.configurations import configuration, cpu, gpu, shipped_catalogue
from tests.fakes.runs import shipped

QUICK = catalogue.load().profiles["quick"].measurement()


def total(asked: Configuration, *devices: Device) -> float:
    """Seconds for the whole plan."""
    return estimate.total_s(planner.make(asked, devices), asked, devices)


def test_devices_work_beside_each_other_unless_solo() -> None:
    """Eight GPUs take as long as one; solo eight times as long, apart from the shared start."""
    everything = tuple(gpu(number) for number in range(8))
    one = total(configuration(), gpu(0))
    assert (total(configuration(), *everything), total(configuration())) == (pytest.approx(one), 0)
    start = estimate.ZYGOTE_S[gpu(0).kind]
    assert total(configuration(modes=(Mode.SOLO,)), *everything) == pytest.approx(start + 8 * (one - start))


def test_both_modes_take_as_long_as_each() -> None:
    """Loaded once, for all devices together, and solo for each of them."""
    everything = tuple(gpu(number) for number in range(4))
    start = estimate.ZYGOTE_S[gpu(0).kind]
    each = [total(configuration(modes=(mode,)), *everything) - start for mode in (Mode.LOADED, Mode.SOLO)]
    assert each[1] == pytest.approx(4 * each[0])
    assert total(configuration(modes=tuple(Mode)), *everything) == pytest.approx(start + sum(each))


def test_estimate_of_the_default_run_is_what_an_h200_took() -> None:
    """Cells with known ledgers within 15 %, and the whole run within five minutes."""
    asked = configuration(
        workloads=tuple(dict.fromkeys(workload for workload, *_ in ledgers.H200 if workload != "probe")),
        measurement=replace(QUICK, load_s=0.0),  # which the ledgers do not know
    )
    cells = planner.make(asked, (gpu(0),)).cells
    estimated = {(cell.workload, cell.model, cell.batch_size): estimate.launch_s(cell, asked, gpu(0)) for cell in cells}
    assert sum(estimated[cell] for cell in ledgers.H200) == pytest.approx(sum(ledgers.H200.values()), rel=0.15)
    for workload in (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION):
        known = {cell: seconds for cell, seconds in ledgers.H200.items() if cell[0] is workload}
        assert sum(estimated[cell] for cell in known) == pytest.approx(sum(known.values()), rel=0.2)
    assert total(configuration(), gpu(0)) < 300


def test_load_windows_last_what_warm_up_and_blocks_leave_of_them() -> None:
    """Of two models, in the first of two rounds."""
    asked = configuration(models=shipped("lstm", "bert-large"), launches=2)
    without = replace(asked, measurement=replace(asked.measurement, load_s=0.0))
    longer = {
        cell.id: estimate.launch_s(cell, asked, gpu(0)) - estimate.launch_s(cell, without, gpu(0))
        for cell in planner.make(asked, (gpu(0),)).cells
    }
    # of 1.5 s, lstm has a warm-up of 0.5 s and blocks of 0.51 s; inference of bert-large 1 s and 0.42 s, training more
    assert sorted(round(more, 2) for more in longer.values() if more) == [0.08, 0.49, 0.49]
    assert total(asked, gpu(0)) - total(without, gpu(0)) == pytest.approx(sum(longer.values()))


def test_the_shared_start_is_counted_once_and_only_when_forking() -> None:
    """New interpreters have no zygote, but a start each."""
    forked, executed = (total(configuration(isolation=isolation), gpu(0)) for isolation in Isolation)
    launches = len(planner.make(configuration(), (gpu(0),)).order[gpu(0).uuid])
    more = estimate.EXEC_S[gpu(0).kind] - estimate.FORK_S[gpu(0).kind]
    assert executed - forked == pytest.approx(launches * more - estimate.ZYGOTE_S[gpu(0).kind])


def test_a_larger_batch_training_and_fewer_cores_take_longer() -> None:
    """Iterations longer than the profile's bounds decide."""
    asked = configuration(measurement=QUICK)
    device = cpu(0)
    cells = [cell for cell in planner.make(asked, (device,)).cells if cell.model == "bert-base"]
    seconds = {(cell.workload, cell.batch_size): estimate.launch_s(cell, asked, device) for cell in cells}
    assert seconds[Workload.INFERENCE, 1] < seconds[Workload.INFERENCE, 32] < seconds[Workload.TRAINING, 32]
    assert total(asked, cpu(0, tuple(range(8)))) < total(asked, device)


def replay_s(device: Device, duration: str, model: str) -> tuple[float, float]:
    """Seconds of a replay's launch in a burn-in, and of a memory test, which lasts as long as a cell."""
    table, shipped = levels.load(), shipped_catalogue()
    asked = burn_in.configured(configuration(probes=shipped.probes), duration, "full", shipped, table)
    cells = burn_in_plan.make(asked, (device,), table).cells
    (replay,) = (cell for cell in cells if (cell.workload, cell.model) == (Workload.REPLAY, model))
    (memory,) = (cell for cell in cells if cell.workload is Workload.MEMORY)
    return estimate.launch_s(replay, asked, device), estimate.launch_s(memory, asked, device)


@pytest.mark.parametrize(("model", "busy_s"), [("lstm", 0.20), ("vae", 0.34), ("resnet50", 0.52)])
def test_a_replay_does_its_least_steps_in_a_short_cell(model: str, busy_s: float) -> None:
    """On a CPU device it takes several cells. busy_s: measured time of a step on one core."""
    replay, memory = replay_s(cpu(0), "30s", model)
    steps = LEAST_REPLAYS * REPLAY_STEPS
    assert memory < 2
    assert steps * busy_s < replay < 1.5 * steps * busy_s + 2


@pytest.mark.parametrize(
    ("device", "duration", "model"),
    [
        *(
            (gpu(0), duration, model)
            for duration in ("5m", "10m", "8h")
            for model in ("bert-base", "resnet50", "vae", "lstm")
        ),
        (cpu(0), "8h", "lstm"),
    ],
)
def test_the_least_steps_of_a_replay_fit_into_a_cell(device: Device, duration: str, model: str) -> None:
    """On a GPU always, on a CPU device in long cells."""
    replay, memory = replay_s(device, duration, model)
    assert replay == pytest.approx(memory, abs=0.1)


def test_fixed_iterations_are_counted() -> None:
    """With -i and -w the profile's bounds do not matter."""
    few, many = (
        configuration(
            measurement=catalogue.load().profiles["quick"].measurement(iterations=n, warm_up_iterations=n),
            workloads=(Workload.INFERENCE,),
        )
        for n in (100, 10_000)
    )
    start = estimate.ZYGOTE_S[gpu(0).kind]
    assert total(many, gpu(0)) - start > 10 * (total(few, gpu(0)) - start)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"),
        (7.3, "about 8 s"),
        (41, "about 45 s"),
        (100, "about 2 min"),
        (59 * 60, "about 59 min"),
        (3600, "about 1 h"),
        (4800, "about 1 h 20 min"),
        (7180, "about 2 h"),
        (364 * 86400, "about 8736 h"),
        (366 * 86400, "more than a year"),
    ],
)
def test_durations_are_rounded(seconds: float, words: str) -> None:
    """No seconds in an estimate of hours."""
    assert estimate.about(seconds) == words
