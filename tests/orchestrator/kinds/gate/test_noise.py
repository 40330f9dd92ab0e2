"""orchestrator/kinds/gate/noise.py: a machine that is too noisy is named early, and a healthy one is not."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.engine.announcer import Announcer
from orchestrator.engine.display_events import Notice
from orchestrator.engine.launches import lifecycle
from orchestrator.engine.launches.live import Live
from orchestrator.kinds.gate import noise, planning
from orchestrator.kinds.gate.kind import GATE
from orchestrator.state.slots import Ended, Freed, NextLaunch, Started
from orchestrator.state.transitions import begin, next_launches, step
from protocol.cell import Cell
from protocol.messages import LaunchSpec
from tests.fakes.displays import RecordingDisplay
from tests.fakes.gates import Factor, TwoSides
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, shipped

GATES = 500
PAIRS = 5
FIRST = (0, 1, 1, 0, 0, 1)
"""Sides of the first launches of a gate, all of one pair."""


def launches() -> Iterator[tuple[int, int]]:
    """Pair and side of each launch of a gate, in the order of its plan."""
    yield from ((0, side) for side in FIRST)
    for _ in range(planning.FIRST_ROUNDS):
        yield from ((pair, side) for pair in range(1, PAIRS) for side in (0, 1))


def named_after(by: float, *, share: float = 0.0, gates: int = GATES) -> list[float]:
    """Launches after which each gate names a machine that varies by this much; infinite if none of its plan does.

    share: of launches that are 3 % faster.
    """
    chance = np.random.default_rng(round(1000 * by))
    return [
        _named_after(np.exp(chance.normal(0.0, by, 100) - 0.03 * (chance.random(100) < share))) for _ in range(gates)
    ]


def _named_after(times: np.ndarray) -> float:
    cells: list[tuple[list[float], list[float]]] = [([], []) for _ in range(PAIRS)]
    for made, ((pair, side), time) in enumerate(zip(launches(), times.tolist(), strict=False), start=1):
        cells[pair][side].append(time)
        if (noise.spread(cells) or 0.0) > noise.TOO_NOISY:
            return made
    return math.inf


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("by", [0.005, 0.02, 0.03])
def test_a_healthy_machine_is_named_in_one_gate_of_a_hundred_at_most(by: float, share: float) -> None:
    """Although it is judged after each launch; also where a fifth of the launches is 3 % faster."""
    assert np.mean(np.isfinite(named_after(by, share=share))) <= 0.01


@pytest.mark.parametrize("by", [0.4, 0.6])
def test_a_machine_that_varies_by_40_percent_is_named_by_the_first_launches(by: float) -> None:
    """Those that fit into a minute."""
    assert np.mean(np.array(named_after(by)) <= planning.NOISE_LAUNCHES) >= 0.95


def test_a_side_that_is_slower_is_no_noise() -> None:
    """By a half, by a hundred times: only launches of one side are compared with each other."""
    quiet = [10.0, 10.1, 10.2], [20.0, 20.2, 20.4]
    assert noise.spread([quiet]) == pytest.approx(noise.spread([(quiet[0], [100 * time for time in quiet[1]])]))
    assert noise.spread([quiet]) < noise.TOO_NOISY / 2


def test_one_slow_launch_is_no_noise() -> None:
    """As the first one of a run may be."""
    assert noise.spread([([12.0, 10.0], [10.0, 10.0])]) < noise.TOO_NOISY


def test_cells_that_vary_by_themselves_are_outvoted() -> None:
    """The machine is named where most cells vary."""
    quiet, wild = ([10.0, 10.1], [10.0, 10.1]), ([10.0, 15.0], [10.0, 15.0])
    assert noise.spread([wild, quiet, quiet]) == noise.spread([quiet])


@pytest.mark.parametrize("sides", [([], []), ([10.0], [15.0]), ([10.0, 15.0], [10.0]), ([10.0, 15.0],)])
def test_too_few_launches_show_no_noise(sides: tuple[list[float], ...]) -> None:
    """A difference of two launches is large by chance too often."""
    assert noise.spread([sides]) is None


def announced(run: FakeRun, factor: Factor, launches: int, *, smaller: bool = False) -> list[Notice]:
    """Notices of a gate whose first launches take this much longer. smaller: at half the batch, every other time."""
    display = RecordingDisplay()
    announcer = Announcer(run.stored, display, GATE)
    state = begin(run.stored.plan)
    for made in range(launches):
        state, (following,) = next_launches(state)
        state = step(state, Started(following.launch, following.slot, following.device, following.cell.batch_size))
        outcome = result(following.cell, forward_ms=10.0 * factor(following.cell, following.slot[1]))
        if smaller and made % 2:
            cell = replace(following.cell, batch_size=following.cell.batch_size // 2)
            following = replace(following, cell=cell)
        state = step(state, Ended(following.launch, None))
        announcer.ended(state, live(run, following), outcome, 1.0)
        state = step(state, Freed(following.device))
    announcer.warned("changes will not be seen", "what helps")
    return [event for event in display.given if isinstance(event, Notice)]


def live(run: FakeRun, following: NextLaunch) -> Live:
    names = {"token": "", "endpoint": "", "folder": "", "isolation": "fork", "root": ""}
    spec = LaunchSpec(launch=following.launch, parent_pid=1, environment={}, cpus=(0,), requested_ns=0, **names)
    launch = lifecycle.requested(run.stored.configuration.deadlines, run.stored.configuration.measurement, 0.0)
    return Live(next=following, device=run.stored.devices[0], spec=spec, launch=launch, begun=0.0, oom_kills=None)


def doubling(_: Cell, number: int) -> float:
    """Every other launch takes twice the time."""
    return 1.0 + number % 2


@pytest.fixture
def gate(tmp_path: Path) -> TwoSides:
    """Of two cells."""
    return TwoSides(tmp_path, models=shipped("resnet50", "bert-base"), batch_sizes=(8,))


def test_advice_comes_with_the_fourth_launch_and_once(gate: TwoSides) -> None:
    """After the first two rounds of one cell; what comes later is without it."""
    early = announced(gate, doubling, 4)
    assert [("varies by" in one.message, "--time-limit" in one.message) for one in early] == [
        (True, True),
        (False, False),
    ]
    assert announced(gate, doubling, 8) == early
    [late] = announced(gate, doubling, 3)
    assert "what helps" in late.message


def test_a_quiet_gate_gets_no_advice(gate: TwoSides) -> None:
    """Also where the second side is slower by a half."""
    [late] = announced(gate, lambda cell, _: 1.5 if gate.is_second(cell) else 1.0, 12)
    assert "what helps" in late.message


def test_launches_at_a_smaller_batch_are_not_compared(gate: TwoSides) -> None:
    """A batch that does not fit is halved, and takes another time."""
    [late] = announced(gate, doubling, 4, smaller=True)
    assert "what helps" in late.message
