"""What runs is what a figure's name says: a model in evaluation, a load that finds nothing, a peak of its own time."""

import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from protocol.cell import ModelSpec, Workload
from tests.fakes.assignments import BERT, GPT2, LSTM, RESNET, assignment, run_here
from worker import memory
from worker.memory import Peaks
from worker.models import bert, causal, lstm, torchvision


@pytest.mark.parametrize(
    ("model", "family", "function"), [(BERT, bert, "forward"), (GPT2, causal, "prefill")], ids=["bert", "gpt2"]
)
def test_nothing_is_dropped_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ModelSpec, family: ModuleType, function: str
) -> None:
    """The same inputs give the same outputs every time: a model in training drops a tenth of its numbers at random."""
    honest: Callable[..., object] = getattr(family, function)
    outputs: list[torch.Tensor] = []

    def watched(module: torch.nn.Module, inputs: object) -> object:
        rates = {layer.p for layer in module.modules() if isinstance(layer, torch.nn.Dropout)}
        assert max(rates) > 0
        came = honest(module, inputs)
        outputs.append((came[0] if isinstance(came, tuple) else came).clone())
        return came

    monkeypatch.setattr(family, function, watched)
    run_here(assignment(model, Workload.GENERATION if model.generation else Workload.INFERENCE, tmp_path))
    assert len(outputs) > 2
    assert all(torch.allclose(output, outputs[0]) for output in outputs)


@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_statistics_of_batches_are_taken_in_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """Inference uses those that the model has, which is other work and another output."""
    honest = torchvision.forward
    passes: list[int] = []
    counted: list[int] = []

    def watched(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        output = honest(module, batch)
        passes.append(1)
        counted.append(int(module.get_buffer("bn1.num_batches_tracked")))
        return output

    monkeypatch.setattr(torchvision, "forward", watched)
    run_here(assignment(RESNET, workload, tmp_path))
    assert counted[-1] == (len(passes) if workload is Workload.TRAINING else 0)


def test_every_load_finds_the_earlier_model_gone_and_the_device_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models beside each other would be another peak of memory, and memory at hand another time."""
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
        """More than before, or forget what was before."""
        self._peak = size if forget else max(self._peak, size)


@pytest.mark.parametrize(
    ("workload", "function", "first"),
    [
        (Workload.INFERENCE, "forward", ()),
        (Workload.TRAINING, "loss", ()),
        (Workload.LOAD, "build", (1000,)),
    ],
)
def test_peaks_before_and_after_the_warm_up_are_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload, function: str, first: tuple[int, ...]
) -> None:
    """What the first iteration takes once is no part of the warm peak; what came before it, is part of none."""
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
