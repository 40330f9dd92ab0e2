"""The fault that a GPU is slow: it acts on all work whose rates are compared."""

from pathlib import Path

import msgspec
import pytest

from protocol.cell import Precision, Workload
from protocol.messages import Assign
from protocol.verification import Injection
from tests.fakes.assignments import LSTM, PROBE, SHORT, assignment, run_here
from worker.verify import products
from worker.workloads import memory

KINDS = {Workload.SOAK: 64, Workload.TRUTH: 64, Workload.MEMORY: 1, Workload.REPLAY: None}
"""Each with its input size; None for the model's own."""


def launch(cache: Path, workload: Workload, slow_percent: float) -> Assign:
    """A launch of a few blocks."""
    model = LSTM if workload is Workload.REPLAY else PROBE
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=32)
    assign = assignment(model, workload, cache, precision=Precision.FP32, measurement=measurement)
    size = KINDS[workload] or assign.cell.input_size
    return msgspec.structs.replace(
        assign,
        cell=msgspec.structs.replace(assign.cell, input_size=size, seed=8),
        injection=Injection(slow_percent=slow_percent) if slow_percent else None,
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eleven products, and chunks that fit into a MiB."""
    monkeypatch.setattr(products, "_MOST_OUTPUTS", 11)
    monkeypatch.setitem(memory.CHUNK, "cpu", 64 * 1024)


@pytest.mark.parametrize("workload", KINDS)
def test_a_slow_launch_is_slower_by_so_much(tmp_path: Path, workload: Workload) -> None:
    """The time is slept at the end of every block, within what counts as its time; what is computed stays right."""
    result = run_here(launch(tmp_path, workload, 50))
    assert result.verification is not None
    assert result.verification.mismatches == 0
    assert result.verification.checks > 0
    assert sum(block.iterations for block in result.blocks) == 32
    for block in result.blocks:
        worked_ns, all_ns = block.enqueued_ns - block.start_ns, block.end_ns - block.start_ns
        assert all_ns >= 1.499 * worked_ns
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    spent_ms = sum(result.times_ms("iteration"))
    assert 0.6 * wall_ms < spent_ms <= wall_ms * 1.001


@pytest.mark.parametrize("workload", KINDS)
def test_it_changes_nothing_else(tmp_path: Path, workload: Workload) -> None:
    """The same digests and as many checks as without it: a slow GPU is not a wrong one."""
    slow, sound = (run_here(launch(tmp_path, workload, percent)).verification for percent in (20, 0))
    assert slow is not None
    assert sound is not None
    assert (slow.digests, slow.losses, slow.checks) == (sound.digests, sound.losses, sound.checks)
