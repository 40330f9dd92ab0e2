"""The injected fault of a slow GPU acts on all work whose rates are compared."""

from pathlib import Path

import msgspec
import pytest

from protocol.cell import Workload
from protocol.messages import Assign
from protocol.verification import Injection
from tests.fakes.assignments import LSTM, PROBE, SHORT, assignment, run_here, verified
from worker.verify import products
from worker.workloads import memory

KINDS = {Workload.SOAK: 64, Workload.TRUTH: 64, Workload.MEMORY: 1, Workload.REPLAY: None}
"""Each with its input size; None for the model's own."""


def launch(cache: Path, workload: Workload, slow_percent: float) -> Assign:
    model = LSTM if workload is Workload.REPLAY else PROBE
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=32)
    injection = Injection(slow_percent=slow_percent) if slow_percent else None
    cell = {"seed": 8} | ({"input_size": KINDS[workload]} if model is PROBE else {})
    return assignment(model, workload, cache, measurement=measurement, injection=injection, **cell)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eleven products, and chunks that fit into a MiB."""
    monkeypatch.setattr(products, "_MOST_OUTPUTS", 11)
    monkeypatch.setitem(memory.CHUNK, "cpu", 64 * 1024)


@pytest.mark.parametrize("workload", KINDS)
def test_a_slow_launch_is_slower_by_so_much(tmp_path: Path, workload: Workload) -> None:
    """The time is slept at the end of every block, within what counts as its time; digests and checks stay the same."""
    result = run_here(launch(tmp_path, workload, 50))
    slow, healthy = verified(result), verified(run_here(launch(tmp_path, workload, 0)))
    assert (slow.digests, slow.losses, slow.checks) == (healthy.digests, healthy.losses, healthy.checks)
    assert slow.checks > slow.mismatches == 0
    assert sum(block.iterations for block in result.blocks) == 32
    for block in result.blocks:
        worked_ns, all_ns = block.enqueued_ns - block.start_ns, block.end_ns - block.start_ns
        assert all_ns >= 1.499 * worked_ns
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    spent_ms = sum(result.times_ms("iteration"))
    assert 0.6 * wall_ms < spent_ms <= wall_ms * 1.001
