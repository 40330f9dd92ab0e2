"""Pauses of the orchestrator, and whether the worker's blocks say that it was halted too."""

import msgspec
import pytest

from orchestrator.engine.launches import pauses
from orchestrator.engine.loop_clock import Pause
from protocol.cell import Cell, Precision, Workload
from protocol.result import Block, LoadWindow
from tests.fakes.results import result

MS = 1_000_000
MEASURED = (5_000 * MS, 20_000 * MS)


def pause(begin_ms: int, end_ms: int, *, asleep: bool = False) -> Pause:
    return Pause(begin_ms * MS, end_ms * MS, asleep)


def blocks(*spans: tuple[int, int], iterations: int = 1) -> list[Block]:
    return [
        Block(start_ns=begin * MS, enqueued_ns=end * MS, end_ns=end * MS, iterations=iterations) for begin, end in spans
    ]


FROZEN, SHORT = pause(10_000, 14_000), pause(10_000, 11_000)


REGULAR = [(at, at + 900) for at in range(5_000, 19_000, 1_000)]


@pytest.mark.parametrize(
    ("paused", "spans", "halted"),
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
        (pause(0, 4_000), REGULAR, False),
        (pause(20_000, 24_000), REGULAR, False),
        # it began its warm-up meanwhile, so that it ran; and had measured before most of the pause
        (pause(1_000, 5_500), REGULAR, False),
        (pause(19_000, 24_000), REGULAR, False),
        (pause(10_000, 10_050, asleep=True), REGULAR, True),
        (pause(3_000, 3_050, asleep=True), REGULAR, False),
    ],
)
def test_a_launch_was_halted_where_its_blocks_do_not_show_that_it_went_on(
    paused: Pause, spans: list[tuple[int, int]], *, halted: bool
) -> None:
    """It was measured from 5 s to 20 s."""
    assert bool(pauses.describe([paused], MEASURED, blocks(*spans))) is halted


@pytest.mark.parametrize(
    ("spans", "halted"),
    [
        ([(8_000, 8_300), (8_300, 8_600), (10_000, 11_200), (11_200, 11_500)], True),
        ([(8_000, 10_000), (11_000, 11_300)], True),
        # blocks that take so long anyway, one that nothing compares with, warm-up and latencies
        ([(8_000, 9_200), (10_000, 11_200), (11_200, 11_500)], False),
        ([(10_000, 11_200)], False),
        ([(11_000, 11_300), (11_300, 11_600)], False),
        ([(8_000, 8_300), (8_300, 8_600)], False),
    ],
)
def test_a_short_halt_is_shown_by_a_block_that_is_longer_than_all(
    spans: list[tuple[int, int]], *, halted: bool
) -> None:
    """For 1 s, as `docker commit` does. A slow disk pauses the orchestrator as long, and its launches go on."""
    assert bool(pauses.describe([SHORT], MEASURED, blocks(*spans))) is halted


def test_a_long_block_of_more_iterations_is_as_long_as_usual() -> None:
    """Six iterations of a second each, where the pause was of the orchestrator alone."""
    found = [*blocks((8_000, 9_000)), *blocks((9_000, 15_000), iterations=6)]
    assert pauses.describe([FROZEN], MEASURED, found) == ""


def test_a_load_window_shows_whether_it_went_on() -> None:
    """It is a block like any other: a pause of the orchestrator alone leaves as many iterations as usual in it."""
    measured = tuple(blocks((8_000, 9_000)))
    cell = Cell(devices=("GPU-0",), model="a", workload=Workload.TRAINING, precision=Precision.FP32, batch_size=8)
    for iterations, halted in ((6, False), (2, True)):
        load = LoadWindow(start_ns=8_000 * MS, end_ns=15_000 * MS, iterations=iterations)
        worked = msgspec.structs.replace(result(cell), blocks=measured, load=load).worked
        assert bool(pauses.describe([FROZEN], MEASURED, worked)) is halted
