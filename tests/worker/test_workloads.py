"""Load, inference and training of tiny models, run on the CPU."""

from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from protocol.cell import MemoryFormat, ModelSpec, Precision, Sizes, SizeUnit, Workload
from protocol.failure import Phase
from protocol.result import Result, SteadyState, StopReason
from tests.fakes.assignments import BERT, LSTM, RESNET, SHORT, Listener, assignment, run_here
from tests.fakes.spies import spy
from worker import devices
from worker.models import lstm, torchvision
from worker.workloads import common, load

SERIES = {
    Workload.LOAD: {"iteration", "instantiate", "weights", "to_device"},
    Workload.INFERENCE: {"iteration", "forward", "latency"},
    Workload.TRAINING: {"iteration", "forward", "backward", "optimizer"},
}
SMALL_RESNET = msgspec.structs.replace(RESNET, sizes=Sizes(unit=SizeUnit.PIXELS, default=32))
CELLS = pytest.mark.parametrize(
    ("model", "precision"),
    [*((LSTM, precision) for precision in Precision), (BERT, Precision.BF16), (SMALL_RESNET, Precision.FP32)],
    ids=lambda value: getattr(value, "name", value),
)
"""Every precision with the smallest model."""


def check(result: Result, workload: Workload) -> None:
    assert set(result.series) == SERIES[workload]
    counts = {len(result.times_ms(name)) * result.group for name in set(result.series) - {"latency"}}
    assert counts == {sum(block.iterations for block in result.blocks)}
    assert all(time > 0 for time in result.times_ms("iteration"))
    assert result.parameters > 0
    assert result.memory.model_bytes > 0
    assert result.memory.resident_bytes > result.memory.model_bytes
    assert result.memory.warm_allocated_bytes is None
    assert result.launch_bound is None
    assert result.ledger.measure_ms > 0


@CELLS
def test_inference(tmp_path: Path, model: ModelSpec, precision: Precision) -> None:
    """Forward passes are measured; half precision halves the weights."""
    listener = Listener()
    result = run_here(assignment(model, Workload.INFERENCE, tmp_path, precision=precision, batch_size=3), listener)
    check(result, Workload.INFERENCE)
    assert listener.phases == [Phase.IMPORT, Phase.BUILD, Phase.WARM_UP, Phase.MEASURE]
    assert result.items_per_iteration == 3
    assert result.times_ms("forward") == result.times_ms("iteration")
    assert min(result.times_ms("latency")) > 0
    width = result.memory.model_bytes / result.parameters
    assert width == pytest.approx(2 if precision in (Precision.FP16, Precision.BF16) else 4, rel=0.05)
    assert result.loss is None


@CELLS
def test_training(tmp_path: Path, model: ModelSpec, precision: Precision) -> None:
    """Steps are measured in three parts; weights stay fp32 and the loss is finite."""
    result = run_here(assignment(model, Workload.TRAINING, tmp_path, precision=precision))
    check(result, Workload.TRAINING)
    assert result.memory.model_bytes / result.parameters == pytest.approx(4, rel=0.05)
    assert result.loss > 0


@CELLS
def test_load(tmp_path: Path, model: ModelSpec, precision: Precision) -> None:
    """The weights file is made once and left whole; the first load stands apart from its repetitions."""
    cache = tmp_path / "cache"
    listener = Listener()
    assign = assignment(model, Workload.LOAD, cache, precision=precision)
    result = run_here(assign, listener)
    check(result, Workload.LOAD)
    assert listener.phases == [Phase.IMPORT, Phase.BUILD, Phase.WARM_UP, Phase.MEASURE]
    assert result.items_per_iteration == 1
    assert len(result.blocks) >= 3
    assert (result.warm_up.steady_state, result.warm_up.iterations) == (SteadyState.NOT_SOUGHT, 1)
    assert result.ledger.load_ms >= result.warm_up.first_iteration_ms > 0
    (file,) = cache.iterdir()
    written = file.stat().st_mtime_ns
    types = {tensor.dtype for tensor in load_file(file).values() if tensor.is_floating_point()}
    assert types == {devices.weights_type(precision, training=False)}
    run_here(assign)
    assert [entry.stat().st_mtime_ns for entry in cache.iterdir()] == [written]


def test_weights_of_changed_builders_have_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their parameters may have other names, or other values."""
    assign = assignment(LSTM, Workload.LOAD, tmp_path)
    monkeypatch.setattr(load, "_BUILDERS", tmp_path)
    names = []
    for text in ("layers = 1\n", "layers = 1\n", "layers = 2\n"):
        (tmp_path / "lstm.py").write_text(text)
        names.append(load.weights_name(assign, ""))
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_channels_last_reaches_weights_and_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """Convolutions and their inputs lie pixel by pixel only where the cell requests it."""
    order = {"memory_format": torch.channels_last}

    def note(_: object, module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[bool, bool]:
        weights = module.get_parameter("layer1.0.conv1.weight")
        return weights.is_contiguous(**order), batch["images"].is_contiguous(**order)

    seen = spy(monkeypatch, torchvision, "forward", note)
    for memory_format in MemoryFormat:
        run_here(assignment(SMALL_RESNET, workload, tmp_path, memory_format=memory_format))
        expected = memory_format is MemoryFormat.CHANNELS_LAST
        assert seen
        assert set(seen) == {(expected, expected)}
        seen.clear()


def test_a_load_ends_in_the_memory_format_and_pays_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are read as the file has them and laid out on the way to the device, in the time of that step."""
    seen: list[bool] = []
    honest = load._Loading.to_device

    def watched(loading: load._Loading) -> None:
        for step in (lambda: None, lambda: honest(loading)):
            step()
            weights = loading.module.get_parameter("layer1.0.conv1.weight")
            seen.append(weights.is_contiguous(memory_format=torch.channels_last))

    monkeypatch.setattr(load._Loading, "to_device", watched)
    for memory_format in MemoryFormat:
        run_here(assignment(SMALL_RESNET, Workload.LOAD, tmp_path, memory_format=memory_format))
        assert set(seen[::2]) == {False}
        assert set(seen[1::2]) == {memory_format is MemoryFormat.CHANNELS_LAST}
        seen.clear()


def test_weights_of_other_models_have_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each precision and shape, and for each structure that a family reports, as a user's own does."""
    wider = msgspec.structs.replace(LSTM, config={**LSTM.config, "hidden_size": 24})
    for model, precision in [(LSTM, Precision.FP32), (LSTM, Precision.BF16), (wider, Precision.FP32)]:
        run_here(assignment(model, Workload.LOAD, tmp_path, precision=precision))
    assert len(list(tmp_path.iterdir())) == 3
    for structure in ("before", "after", "after"):
        monkeypatch.setattr(lstm, "structure", lambda structure=structure: structure, raising=False)
        run_here(assignment(LSTM, Workload.LOAD, tmp_path))
    assert len(list(tmp_path.iterdir())) == 3 + 2


def test_load_is_repeated_by_time_and_not_by_number(tmp_path: Path) -> None:
    """`-i 1000` is meant for iterations, and would take hours here."""
    asked = msgspec.structs.replace(SHORT, iterations=100_000, warm_up_iterations=100_000)
    result = run_here(assignment(LSTM, Workload.LOAD, tmp_path, measurement=asked))
    assert result.stop_reason in (StopReason.TARGET, StopReason.TIME_CAP)


def test_failed_write_of_the_weights_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves no half file that a later launch would take for the weights."""

    def torn(_: object, path: str) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(load, "save_model", torn)
    with pytest.raises(OSError, match="No space left"):
        run_here(assignment(LSTM, Workload.LOAD, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_batch_that_does_not_fit_fails_in_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a smaller one is tried; before that, out of memory means that the model itself does not fit."""

    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(common, "make_batch", refuse)
    for workload in (Workload.INFERENCE, Workload.TRAINING):
        listener = Listener()
        with pytest.raises(torch.OutOfMemoryError):
            run_here(assignment(LSTM, workload, tmp_path), listener)
        assert listener.stage.phase is Phase.WARM_UP
