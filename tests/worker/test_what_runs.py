"""Figures measure what their names say: a model in evaluation, a load from nothing, a peak of its own time."""

import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from protocol.cell import ModelSpec, Workload
from tests.fakes.assignments import BERT, GPT2, LSTM, assignment, run_here
from tests.fakes.spies import spy
from tests.worker.test_workloads import SMALL_RESNET
from worker import memory
from worker.memory import Peaks
from worker.models import bert, causal, lstm, torchvision


@pytest.mark.parametrize(
    ("model", "family", "function"), [(BERT, bert, "forward"), (GPT2, causal, "prefill")], ids=["bert", "gpt2"]
)
def test_dropout_is_off_in_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ModelSpec, family: ModuleType, function: str
) -> None:
    """The same inputs give the same outputs every time: a model in training drops a tenth of its numbers at random."""

    def note(came: object, module: torch.nn.Module, _: object) -> torch.Tensor:
        assert max(layer.p for layer in module.modules() if isinstance(layer, torch.nn.Dropout)) > 0
        output: torch.Tensor = came[0] if isinstance(came, tuple) else came
        return output.clone()

    outputs = spy(monkeypatch, family, function, note)
    run_here(assignment(model, Workload.GENERATION if model.generation else Workload.INFERENCE, tmp_path))
    assert len(outputs) > 2
    assert all(torch.allclose(output, outputs[0]) for output in outputs)


@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_batch_statistics_are_taken_in_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """Inference uses those that the model has, which is other work and another output."""
    counted = spy(monkeypatch, torchvision, "forward", lambda _, module, _batch: int(module.bn1.num_batches_tracked))
    run_here(assignment(SMALL_RESNET, workload, tmp_path))
    assert counted[-1] == (len(counted) if workload is Workload.TRAINING else 0)


def test_every_load_starts_with_an_empty_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the earlier model, which would change the peak of memory, and without cached memory."""
    honest = lstm.build
    earlier: list[weakref.ref[torch.nn.Module]] = []
    emptied: list[int] = []

    def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
        assert [ref() for ref in earlier] == [None] * len(earlier)
        assert len(earlier) == 0 or emptied[-1] == len(earlier), "the cache was emptied since the last one"
        module = honest(spec, device, input_size)
        earlier.append(weakref.ref(module))
        return module

    monkeypatch.setattr(lstm, "build", build)
    monkeypatch.setattr(memory, "release_cached", lambda _: emptied.append(len(earlier)))
    run_here(assignment(LSTM, Workload.LOAD, tmp_path))
    assert len(earlier) >= 5, "the file's, the cold one, and three repetitions"


class Allocator:
    """A device's allocator: `use` takes and gives back so many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._peak = 0
        monkeypatch.setattr(memory, "peaks", lambda _: Peaks(self._peak, 2 * self._peak))
        monkeypatch.setattr(memory, "reset_peaks", lambda _: self.use(0, forget=True))

    def use(self, size: int, *, forget: bool = False) -> None:
        self._peak = size if forget else max(self._peak, size)


@pytest.mark.parametrize(
    ("workload", "function", "first"),
    [(Workload.INFERENCE, "forward", ()), (Workload.TRAINING, "loss", ()), (Workload.LOAD, "build", (1000,))],
)
def test_peaks_before_and_after_the_warm_up_are_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload, function: str, first: tuple[int, ...]
) -> None:
    """The warm peak excludes what only the first iteration takes; both exclude what came before it."""
    allocator = Allocator(monkeypatch)
    sizes = [*first, 100]
    honest: Callable[..., object] = getattr(lstm, function)

    def uses(*given: object) -> object:
        allocator.use(sizes.pop(0) if sizes else 10)
        return honest(*given)

    built = lstm.build
    if workload is not Workload.LOAD:
        monkeypatch.setattr(lstm, "build", lambda *given: allocator.use(1000) or built(*given))
    monkeypatch.setattr(lstm, function, uses)
    found = run_here(assignment(LSTM, workload, tmp_path)).memory
    assert (found.cold_allocated_bytes, found.cold_reserved_bytes) == (100, 200)
    assert (found.warm_allocated_bytes, found.warm_reserved_bytes) == (10, 20)
