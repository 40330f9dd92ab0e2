"""Probes, really run on the CPU, and the shapes that they choose."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import torch
import yaml

from protocol.cell import ModelSpec, Precision, Workload
from protocol.failure import Phase
from protocol.result import Result, StopReason
from tests.fakes.assignments import ROOT, SHORT, Listener, assignment, run_here
from worker.probes import gemm, traffic
from worker.probes.base import Bench, Probe
from worker.timing import HostClock
from worker.workloads import probe

SHIPPED = {
    spec.name: spec
    for spec in msgspec.convert(
        yaml.safe_load((ROOT / "configs" / "models.yaml").read_text(encoding="utf-8"))["models"], list[ModelSpec]
    )
    if spec.family == "probe"
}
SIDES = gemm.SIDES["cpu"]
MIB = 1024 * 1024


def bench(dtype: torch.dtype = torch.float32) -> Bench:
    cpu = torch.device("cpu")
    generator = torch.Generator(device=cpu).manual_seed(7)
    return Bench(device=cpu, dtype=dtype, generator=generator, clock=HostClock(), burst_s=0.005)


def measure(
    tmp_path: Path, name: str, precision: Precision = Precision.FP32, listener: Listener | None = None, **fixed: int
) -> Result:
    steps = msgspec.structs.replace(SHORT, **fixed)
    cell = {"precision": precision, "batch_size": 1}
    return run_here(assignment(SHIPPED[name], Workload.PROBE, tmp_path, measurement=steps, **cell), listener)


def bursts(monkeypatch: pytest.MonkeyPatch, times_ms: Sequence[float]) -> list[int]:
    """Let a product of each side take so long; returns the sides that are then tried."""
    tried: list[int] = []

    def burst(_: Bench, side: int) -> object:
        tried.append(side)
        return gemm._Burst(side, [times_ms[SIDES.index(side)]])

    monkeypatch.setattr(gemm, "_burst", burst)
    return tried


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_gemm_counts_its_operations(tmp_path: Path, precision: Precision) -> None:
    """The best burst stands beside the sustained series, and a product of n x n matrices is 2 n^3 operations."""
    listener = Listener()
    result = measure(tmp_path, "gemm", precision, listener)
    assert listener.phases == [Phase.IMPORT, Phase.BUILD, Phase.WARM_UP, Phase.MEASURE]
    assert set(result.series) == {"iteration", "best"}
    assert all(time > 0 for name in result.series for time in result.times_ms(name))
    assert result.flops_per_iteration in {2 * side**3 for side in SIDES}
    width = 2 if precision in (Precision.FP16, Precision.BF16) else 4
    side = round((result.flops_per_iteration / 2) ** (1 / 3))
    assert result.memory.model_bytes == 3 * side**2 * width
    assert (result.parameters, result.items_per_iteration, result.bytes_per_iteration) == (0, 1, {})


def test_memory_is_measured_in_two_ways(tmp_path: Path) -> None:
    """A copy reads one buffer and writes one, a triad reads two and writes one."""
    result = measure(tmp_path, "hbm")
    size = traffic.BUFFER["cpu"]
    assert set(result.series) == {"iteration", "copy", "triad"}
    assert result.bytes_per_iteration == {"copy": 2 * size, "triad": 3 * size}
    assert result.memory.model_bytes == 3 * size
    assert result.flops_per_iteration is None


def test_probe_does_exactly_the_requested_iterations(tmp_path: Path) -> None:
    """`-i` and `-w` hold for probes; the bursts that choose a shape are not among them."""
    result = measure(tmp_path, "gemm", iterations=7, warm_up_iterations=3)
    assert len(result.times_ms("iteration")) * result.group == 7
    assert (result.warm_up.iterations, result.stop_reason) == (3, StopReason.FIXED)


@pytest.mark.parametrize(("prepare", "half"), [(gemm.prepare, True), (traffic.device_memory, False)])
def test_probes_work_on_random_numbers(prepare: object, half: bool) -> None:
    """Never on zeros or ones, which make products faster than they are; the same seed gives the same numbers."""
    assert callable(prepare)
    dtype = torch.bfloat16 if half else torch.float32
    made: list[Probe] = [prepare(bench(dtype)) for _ in range(2)]
    for tensor in made[0].tensors[:2]:
        assert tensor.float().std().item() == pytest.approx(1, abs=0.05)
    if not half:  # which shape is best, and so how many numbers were drawn before, may differ from time to time
        assert all(map(torch.equal, made[0].tensors, made[1].tensors))


def test_shipped_probes_are_those_of_the_worker() -> None:
    """configs/ and the worker have the same names."""
    assert set(SHIPPED) == set(probe.PROBES)


def test_steps_do_the_work_that_is_counted() -> None:
    """A copy copies, a triad adds, and a product is the product of its matrices."""
    made = traffic.device_memory(bench())
    target, left, right = made.tensors
    made.steps["copy"]()
    assert torch.equal(target, left)
    made.steps["triad"]()
    assert torch.equal(target, torch.add(left, right, alpha=0.5))
    made = gemm.prepare(bench())
    left, right, product = made.tensors
    made.steps["iteration"]()
    assert torch.allclose(product, left @ right)


@pytest.mark.parametrize(("times_ms", "best"), [((1, 4, 32), 512), ((1, 6, 40), 1024), ((1, 16, 50), 256)])
def test_the_best_shape_is_measured(monkeypatch: pytest.MonkeyPatch, times_ms: Sequence[float], best: int) -> None:
    """Whichever does the most operations in a second, not the largest; its burst is kept."""
    assert bursts(monkeypatch, times_ms) == []
    made = gemm.prepare(bench())
    assert made.flops == 2 * best**3
    assert list(made.best_ms) == [times_ms[SIDES.index(best)]]
    assert {tensor.shape for tensor in made.tensors} == {(best, best)}


def test_the_first_bursts_do_not_choose_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cool device is quick for a moment, whatever the shape: the second round decides, the better burst is kept."""
    times_ms = {256: [0.5, 1.0], 512: [7.0, 6.0], 1024: [80.0, 60.0]}
    monkeypatch.setattr(gemm, "_burst", lambda _, side: gemm._Burst(side, [times_ms[side].pop(0)]))
    made = gemm.prepare(bench())
    assert made.flops == 2 * 512**3
    assert list(made.best_ms) == [6.0]


def test_shapes_that_are_too_slow_or_too_large_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next shape has eight times the operations, and three matrices need room; the first is always tried."""
    tried = bursts(monkeypatch, (7.4, 60.8, 0))
    gemm.prepare(bench())
    assert tried == [256, 512, 256, 512]
    tried = bursts(monkeypatch, (1, 1, 1))
    monkeypatch.setattr(Bench, "room", lambda _: 3 * 512**2 * 4)
    gemm.prepare(bench())
    assert tried == [256, 512, 256, 512]
    assert gemm.prepare(bench(torch.bfloat16)).tensors[0].shape == (512, 512)
    monkeypatch.setattr(Bench, "room", lambda _: 0)
    tried.clear()
    gemm.prepare(bench())
    assert tried == [256, 256]


def test_memory_probe_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with little free memory is measured with smaller buffers, all three within the room that there is."""
    monkeypatch.setattr(Bench, "room", lambda _: 3 * MIB)
    made = traffic.device_memory(bench())
    assert [tensor.nbytes for tensor in made.tensors] == [MIB, MIB, MIB]
    assert made.bytes_moved == {"copy": 2 * MIB, "triad": 3 * MIB}
