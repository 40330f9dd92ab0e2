"""Pauses of the orchestrator, and whether the worker's blocks say that it was halted too. In milliseconds."""

import msgspec
import pytest

from orchestrator.engine.launches import halts
from orchestrator.engine.loop_clock import Pause
from protocol.cell import Cell, Precision, Workload
from protocol.result import Block, LoadWindow
from tests.fakes.results import result

FROZEN = Pause(10_000, 14_000)


def blocks(*spans: tuple[int, int], iterations: int = 1) -> list[Block]:
    return [Block(start_ns=begin, enqueued_ns=end, end_ns=end, iterations=iterations) for begin, end in spans]


REGULAR = [(at, at + 900) for at in range(5_000, 19_000, 1_000)]


@pytest.mark.parametrize(
    ("pause", "spans", "halted"),
    [
        (FROZEN, [(8_000, 9_000), (9_000, 14_500), (14_500, 15_500)], True),
        (FROZEN, REGULAR, False),
        # between two blocks, before the first, and behind the last (latencies)
        (FROZEN, [(8_000, 9_500), (14_000, 15_000)], True),
        (FROZEN, [(14_500, 15_000)], True),
        (FROZEN, [(6_000, 9_000)], True),
        # one block, with nothing to compare it with, and blocks that all take so long
        (FROZEN, [(9_000, 15_000)], True),
        (FROZEN, [(3_000, 9_000), (9_000, 15_000), (15_000, 20_000)], False),
        # not while it was measured
        (Pause(0, 4_000), REGULAR, False),
        (Pause(20_000, 24_000), REGULAR, False),
        # it began its warm-up meanwhile, so that it ran; and had measured before most of the pause
        (Pause(1_000, 5_500), REGULAR, False),
        (Pause(19_000, 24_000), REGULAR, False),
        (Pause(10_000, 10_050, asleep=True), REGULAR, True),
        (Pause(3_000, 3_050, asleep=True), REGULAR, False),
    ],
)
def test_a_launch_was_halted_where_its_blocks_do_not_show_that_it_went_on(
    pause: Pause, spans: list[tuple[int, int]], *, halted: bool
) -> None:
    """It was measured from 5 s to 20 s."""
    assert bool(halts.describe([pause], (5_000, 20_000), blocks(*spans))) is halted


def test_a_long_block_of_more_iterations_is_as_long_as_usual() -> None:
    """Six iterations of a second each, where the pause was of the orchestrator alone."""
    found = [*blocks((8_000, 9_000)), *blocks((9_000, 15_000), iterations=6)]
    assert halts.describe([FROZEN], (5_000, 20_000), found) == ""


def test_a_load_window_shows_whether_it_went_on() -> None:
    """It is a block like any other: a pause of the orchestrator alone leaves as many iterations as usual in it."""
    measured = tuple(blocks((8_000, 9_000)))
    cell = Cell(devices=("GPU-0",), model="a", workload=Workload.TRAINING, precision=Precision.FP32, batch_size=8)
    for iterations, halted in ((6, False), (2, True)):
        load = LoadWindow(start_ns=8_000, end_ns=15_000, iterations=iterations)
        worked = msgspec.structs.replace(result(cell), blocks=measured, load=load).worked
        assert bool(halts.describe([FROZEN], (5_000, 20_000), worked)) is halted
