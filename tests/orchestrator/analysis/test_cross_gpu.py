"""The same cell on identical devices, side by side."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis.sibling_cells import UNSTEADY
from orchestrator.figures.comparisons import Spread
from protocol.cell import Device, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun, gpus, shipped


def spreads(run: FakeRun) -> dict[tuple[str, int], Spread]:
    """The comparisons of a run by phase and requested batch size."""
    return {(spread.phase, spread.batch_size_requested): spread for spread in run.report().cross_gpu}


def test_identical_gpus_are_compared_cell_by_cell(tmp_path: Path) -> None:
    """Three GPUs, one percent apart: median of the three, spread of two percent, each with its share."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(8,), workloads=(Workload.LOAD, Workload.INFERENCE))
    run.everything()
    run.finish()
    found = spreads(run)
    inference = found["inference", 8]
    assert inference.metric == "throughput_samples_per_sec"
    assert inference.comparison == "COMPARED"
    assert inference.spread_percent == pytest.approx(2.0, abs=0.1)
    assert inference.values[1].percent_of_median == pytest.approx(100.0)
    assert inference.values[0].percent_of_median == pytest.approx(101.0, abs=0.1)
    assert found["load", 1].metric == "model_load_time_ms"
    assert not any("slices" in note for note in inference.notes)


def test_generation_and_probes_are_compared_by_their_own_rates(tmp_path: Path) -> None:
    """Tokens a second of a model that writes; of a probe the one rate that it has."""
    models = shipped("gpt2", "gemm", "hbm", "h2d")
    run = FakeRun(tmp_path, devices=gpus(2), models=models, probes=models[1:], workloads=(Workload.GENERATION,))
    given: dict[str, dict[str, object]] = {
        "gemm": {"flops_per_iteration": 1e12},
        "hbm": {"bytes_per_iteration": {"copy": 10**9, "triad": 10**9}},
        "h2d": {"bytes_per_iteration": {"iteration": 10**9}},
    }
    for cell in run.stored.plan.cells:
        run.measured(cell, **given.get(cell.model, {}))
    found = {(spread.model_name, spread.phase): spread for spread in run.report().cross_gpu}
    assert {key: spread.metric for key, spread in found.items()} == {
        ("gpt2", "generation"): "tokens_per_second",
        ("gemm", "probe"): "sustained_tflops",
        ("hbm", "probe"): "copy_gb_per_sec",
        ("h2d", "probe"): "transfer_gb_per_sec",
    }
    assert {spread.comparison for spread in found.values()} == {"COMPARED"}
    assert found["gpt2", "generation"].new_tokens == 64


def test_slices_compare_with_their_like(tmp_path: Path) -> None:
    """Of one profile, whichever GPU they are of; slices that share a GPU say so."""
    small = {"name": "NVIDIA H200 MIG 1g.18gb", "memory_total_bytes": 18 << 30, "shared_gpu": True}
    devices = [
        msgspec.structs.replace(gpu, slice_of="GPU-a", slice_index=place, **small) for place, gpu in enumerate(gpus(2))
    ]
    large = msgspec.structs.replace(gpus(3)[2], name="NVIDIA H200 MIG 3g.71gb", slice_of="GPU-a", slice_index=2)
    whole = gpus(4)[3]
    run = FakeRun(tmp_path, devices=(*devices, large, whole), batch_sizes=(8,))
    run.everything()
    (spread,) = run.ended().cross_gpu
    assert [value.gpu_uuid for value in spread.values] == [device.uuid for device in devices]
    assert any("slices" in note for note in spread.notes)


def test_other_sizes_are_other_cells(tmp_path: Path) -> None:
    """The same model at two input sizes is compared twice, each with its like."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), input_sizes=(224, 512))
    for cell in run.stored.plan.cells:
        run.measured(cell, forward_ms=40.0 if cell.input_size == 512 else 10.0, noise=0.0)
    found = {spread.input_size: spread for spread in run.report().cross_gpu}
    assert {size: spread.spread_percent for size, spread in found.items()} == {224: 0.0, 512: 0.0}


@pytest.mark.parametrize(
    "devices",
    [gpus(1), (gpus(1)[0], msgspec.structs.replace(gpus(2)[1], name="NVIDIA A100"))],
    ids=["one", "two kinds"],
)
def test_a_gpu_without_its_like_is_compared_with_nothing(tmp_path: Path, devices: tuple[Device, ...]) -> None:
    """There is no spread of one; another name is another kind of GPU."""
    run = FakeRun(tmp_path, devices=devices)
    run.everything()
    assert run.report().cross_gpu == ()


def test_a_degraded_value_is_not_compared_and_named(tmp_path: Path) -> None:
    """GPU 2 ran at 4 where its siblings ran at 8: in no median, with the reason, and itself a finding."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(8,))
    for device in (0, 1):
        run.measured(run.cell(batch_size=8, device=device))
    run.failed(run.cell(batch_size=8, device=2), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8, device=2), batch_size=4, forward_ms=1.0)
    run.finish()
    spread = spreads(run)["inference", 8]
    assert spread.comparison == "COMPARED"
    assert spread.median == pytest.approx(800, rel=0.01)
    assert re.findall(r"\d+", spread.values[2].not_comparable or "") == ["4", "8"]
    assert spread.values[2].percent_of_median is None
    assert sum("GPU 2" in note for note in spread.notes) == 2  # not comparable, and out of memory where others fitted


def test_gpus_that_all_shrank_alike_compare(tmp_path: Path) -> None:
    """All ran at 4: that is a common size, and nobody is singled out."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    for device in (0, 1):
        run.failed(run.cell(batch_size=8, device=device), Category.OUT_OF_MEMORY)
        run.measured(run.cell(batch_size=8, device=device), batch_size=4)
    spread = spreads(run)["inference", 8]
    assert spread.comparison == "COMPARED"
    assert [value.not_comparable for value in spread.values] == [None, None]
    assert not any("out of memory" in note for note in spread.notes)


def test_another_power_limit_is_not_comparable(tmp_path: Path) -> None:
    """A GPU that was given less power is slower by order, not by fault."""
    devices = list(gpus(3))
    devices[1] = msgspec.structs.replace(devices[1], power_limit_w=500.0)
    run = FakeRun(tmp_path, devices=devices, batch_sizes=(8,))
    run.everything()
    spread = spreads(run)["inference", 8]
    assert re.findall(r"\d+ W", spread.values[1].not_comparable or "") == ["500 W", "700 W"]
    assert spread.comparison == "COMPARED"


def test_doubts_are_said_beside_the_spread(tmp_path: Path) -> None:
    """Not steady, and measured by one launch only: no verdict."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    run.measured(run.cell(batch_size=8, device=0))
    run.measured(run.cell(batch_size=8, device=1), steady_state=SteadyState.NONE)
    notes = spreads(run)["inference", 8].notes
    assert f"{UNSTEADY}: GPU 1" in notes
    assert any("one launch" in note for note in notes)
