"""stats/stalls.py: stalls of a worker within its launch, and slow work that is none."""

from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.stats import stalls
from protocol import floats
from protocol.cell import Cell, Precision, Workload
from protocol.result import Block, Result
from tests.fakes.results import result

S = 10**9
CELL = Cell(devices=("cpu:0",), model="gemm", workload=Workload.SOAK, precision=Precision.FP32, batch_size=1)


def launch(
    blocks: Sequence[tuple[float, float, Sequence[float]]], *, group: int = 1, second_s: float | None = None
) -> Result:
    """From blocks: start, end, and the time of each iteration, all in seconds."""
    made = result(CELL)
    taken_ms = [time_s * 1000 / group for _, _, own in blocks for time_s in own]
    second_ms = None if second_s is None else second_s * 1000
    return msgspec.structs.replace(
        made,
        blocks=tuple(
            Block(start_ns=round(a * S), enqueued_ns=round(b * S), end_ns=round(b * S), iterations=len(own) * group)
            for a, b, own in blocks
        ),
        series={"iteration": floats.pack(taken_ms)},
        group=group,
        warm_up=msgspec.structs.replace(made.warm_up, second_iteration_ms=second_ms),
    )


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        ([(0, 1, [0.5, 0.5]), (1, 2, [0.5, 0.5])], []),
        ([(0, 1, [0.5, 0.5]), (6, 7, [0.5, 0.5])], []),  # a rest of five seconds
        ([(0, 1, [0.5, 0.5]), (6.1, 7, [0.4, 0.5])], [(1, 6.1)]),
        ([(0, 7, [0.5, 6.0, 0.5])], [(0.5, 6.5)]),  # stopped within an iteration
        ([(0, 7, [0.5, 0.5])], [(1, 7)]),  # stopped behind the last one, before the block was over
        ([(0, 1, [0.5, 0.5]), (1, 8, [6.5, 0.5]), (20, 21, [0.5])], [(1, 7.5), (8, 20)]),
        ([(0, 7, [7.0])], []),  # one iteration, which nothing shows to be slower than any other
        ([(0, 14, [7.0, 7.0]), (14, 60, [46.0])], []),  # slow work, and less than ten times as long as other such
        ([(0, 14, [7.0, 7.0]), (14, 90, [76.0])], [(14, 90)]),
    ],
)
def test_gaps_and_long_iterations_are_stalls(
    blocks: Sequence[tuple[float, float, Sequence[float]]], found: Sequence[tuple[float, float]]
) -> None:
    """Of more than five seconds, and ten times the fastest iteration."""
    spans = [(begin / S, end / S) for begin, end in stalls.stalls(launch(blocks))]
    assert spans == [(pytest.approx(begin, abs=1e-4), pytest.approx(end, abs=1e-4)) for begin, end in found]


def test_stalls_are_measured_by_other_iterations() -> None:
    """By the warm-up's where only one was measured, and by groups where iterations are timed together."""
    assert stalls.stalls(launch([(0, 7, [7.0])], second_s=0.5)) == ((0, 7 * S),)
    assert stalls.stalls(launch([(0, 14, [2.0, 12.0])], group=5)) == ()
    assert len(stalls.stalls(launch([(0, 23, [2.0, 21.0])], group=5))) == 1


def test_stalls_inside_a_block() -> None:
    """Only the part inside it. A foreign process may send more iterations than times."""
    block = Block(start_ns=10, enqueued_ns=20, end_ns=20, iterations=1)
    assert stalls.inside(block, [(0, 5), (5, 12), (18, 30)]) == 4
    assert stalls.inside(block, ()) == 0
    made = launch([(0, 1, [0.5, 0.5])])
    more = msgspec.structs.replace(made.blocks[0], iterations=10**15)
    assert stalls.stalls(msgspec.structs.replace(made, blocks=(more,))) == ()
