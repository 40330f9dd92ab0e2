"""Plausibility: a cell's time against what the same device reached in the same run without a model."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.plausibility import NOT_COUNTED, TOO_LONG, WRITTEN, Reached, Seen, judge
from orchestrator.analysis.sibling_cells import UNSTEADY
from orchestrator.figures.parts import SHARE_IN_DOUBT, Plausibility
from orchestrator.report.as_text import to_text
from protocol import floats
from protocol.cell import Cell, Precision, Workload
from protocol.failure import Category
from protocol.result import Result, SteadyState
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, gpus, shipped

GB = 10**9
DEVICE = Reached(tflops={"fp32": 50.0, "bf16": 700.0}, gb_per_sec=4_000.0)
rates = st.floats(1e-3, 1e6)


def seen(**changes: object) -> Seen:
    """A model of 400 MB that does 0.2 TFLOP in 10 ms: 20 TFLOP/s, and its weights are read in 0.1 ms."""
    return Seen(**{"iteration_ms": 10.0, "flops": 2e11, "model_bytes": 400_000_000, **changes})


def test_a_share_of_what_the_device_sustains() -> None:
    """Operations a second, of the same precision's products; and the least time in which the weights are read."""
    assert judge(seen(), "fp32", DEVICE) == Plausibility(
        achieved_tflops=20.0, gemm_tflops=50.0, gemm_percent=40.0, least_iteration_ms=0.1, flags=(), note=""
    )


def test_more_than_everything_is_flagged() -> None:
    """Above 100 % needs an explanation, and the flag names those that are known."""
    found = judge(seen(flops=6e11), "fp32", DEVICE)
    assert found.gemm_percent == pytest.approx(120)
    (flag,) = found.flags
    assert (flag.startswith("120%"), "fp32" in flag) == (True, True)
    assert judge(seen(flops=5e11), "fp32", DEVICE).flags == ()


def test_faster_than_the_weights_can_be_read_is_flagged() -> None:
    """0.05 ms, where reading 400 MB takes 0.1 ms."""
    found = judge(seen(iteration_ms=0.05, flops=1e6), "bf16", DEVICE)
    (flag,) = found.flags
    assert re.findall(r"[\d.]+ ms", flag) == ["0.05 ms", "0.1 ms"]


@pytest.mark.parametrize(
    ("of", "device", "note"),
    [
        (seen(flops=None), DEVICE, NOT_COUNTED),
        (seen(flops=None, iteration_ms=2_001.0), DEVICE, TOO_LONG),
        (seen(flops=None, generates=True), DEVICE, WRITTEN),
        (seen(), Reached(gb_per_sec=1.0), "no gemm rate"),
        (seen(), Reached(tflops={"fp32": 50.0}), "no hbm rate"),
        (seen(), Reached(tflops={"bf16": 50.0}, gb_per_sec=4e3), "no gemm rate"),
    ],
)
def test_what_is_not_known_is_null_and_says_why(of: Seen, device: Reached, note: str) -> None:
    """Never a share of another precision's rate, and never one without a counter."""
    found = judge(of, "fp32", device)
    assert None in (found.gemm_percent, found.least_iteration_ms)
    assert note in found.note


def test_a_cell_without_a_result_is_not_judged() -> None:
    """It has a reason of its own already."""
    assert judge(None, "fp32", DEVICE) == Plausibility(
        achieved_tflops=None, gemm_tflops=None, gemm_percent=None, least_iteration_ms=None, flags=(), note=""
    )


@given(rates, st.floats(1, 1e18), st.integers(0, 10**12), rates, rates)
def test_flags_are_exactly_what_the_figures_say(
    iteration_ms: float, flops: float, model_bytes: int, tflops: float, gb_per_sec: float
) -> None:
    """One for a share above 100 %, one for a time below the least, none without a cause; nothing is left unknown."""
    of = Seen(iteration_ms=iteration_ms, flops=flops, model_bytes=model_bytes)
    found = judge(of, "fp32", Reached(tflops={"fp32": tflops}, gb_per_sec=gb_per_sec))
    assert found.gemm_percent is not None
    assert found.least_iteration_ms is not None
    assert found.note == ""
    assert len(found.flags) == (found.gemm_percent > 100) + (iteration_ms < found.least_iteration_ms)


def series(result_of: Result, **means_ms: float) -> dict[str, bytes]:
    """As many times of each name as the result has, all the same."""
    count = len(result_of.times_ms("iteration"))
    return {name: floats.pack([mean_ms] * count) for name, mean_ms in means_ms.items()}


def run_with_references(folder: Path) -> FakeRun:
    """Two GPUs with resnet50 in two precisions, and what the plan adds to it."""
    return FakeRun(
        folder,
        devices=gpus(2),
        probes=shipped("gemm", "hbm"),
        batch_sizes=(1,),
        precisions=(Precision.FP32, Precision.BF16),
    )


def measured(run: FakeRun, cell: Cell, means_ms: dict[str, float], **counters: object) -> None:
    """A result with exactly these times."""
    run.measured(cell, series=series(result(cell), **means_ms), **counters)


def test_each_gpu_is_compared_with_itself(tmp_path: Path) -> None:
    """In the report: the sustained rate, not the best burst, of this GPU and precision; the faster way through memory.

    GPU 0 does products in 2 ms and GPU 1 in 4 ms; bf16 has no reference, for gemm failed there.
    """
    run = run_with_references(tmp_path)
    for cell in run.stored.plan.cells:
        slower = 1 + run.stored.devices.index(next(one for one in run.stored.devices if one.uuid == cell.devices[0]))
        if cell.workload is not Workload.PROBE:
            measured(run, cell, {"iteration": 10.0, "forward": 10.0}, flops_per_iteration=1e11)
        elif cell.model == "hbm":
            times = {"iteration": 5.0, "copy": 2.0, "triad": 3.0}
            measured(run, cell, times, bytes_per_iteration={"copy": 8 * GB, "triad": 15 * GB})
        elif cell.precision is Precision.FP32:
            times = {"iteration": 2.0 * slower, "best": 1.0 * slower}
            measured(run, cell, times, flops_per_iteration=1e11)
        else:
            run.failed(cell, Category.EXCEPTION)
    run.finish()
    found = {
        (one.gpu_id, one.precision): one.inference_metrics["batch_size_1"].plausibility for one in run.report().results
    }
    assert [found[gpu_id, "fp32"].gemm_percent for gpu_id in (0, 1)] == pytest.approx([20, 40])
    assert found[0, "fp32"].achieved_tflops == pytest.approx(10)
    model_bytes = result(run.stored.plan.cells[0]).memory.model_bytes
    assert found[0, "fp32"].least_iteration_ms == pytest.approx(model_bytes / 5e9)
    assert (found[0, "bf16"].gemm_percent, "gemm" in found[0, "bf16"].note) == (None, True)


def test_a_share_of_a_gemm_in_doubt_has_a_remark(tmp_path: Path) -> None:
    """A reference that was not steady is one with a remark, beside each share of it and in the text report."""
    shown = {}
    for state in (SteadyState.REACHED, SteadyState.NONE):
        run = FakeRun(
            tmp_path / state.name, models=shipped("resnet50"), probes=shipped("gemm", "hbm"), batch_sizes=(1,)
        )
        for cell in run.stored.plan.cells:
            moved = {"copy": 10**9, "triad": 10**9} if cell.model == "hbm" else {}
            steady = state if cell.model == "gemm" else SteadyState.REACHED
            run.measured(cell, steady_state=steady, flops_per_iteration=1e9, bytes_per_iteration=moved)
        shown[state] = run.report()
    (settled, *_), (doubtful, *_) = (report.results for report in shown.values())
    assert settled.inference_metrics["batch_size_1"].plausibility.note == ""
    found = doubtful.inference_metrics["batch_size_1"].plausibility
    assert found.gemm_percent is not None
    assert found.note == f"{SHARE_IN_DOUBT}: {UNSTEADY}"
    assert SHARE_IN_DOUBT in " ".join(to_text(shown[SteadyState.NONE]).split())
    assert SHARE_IN_DOUBT not in " ".join(to_text(shown[SteadyState.REACHED]).split())
