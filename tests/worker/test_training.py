"""A training step: one loss, several objectives, or a whole step of the model's own code."""

import math
from pathlib import Path

import msgspec
import pytest
import torch

from protocol.cell import Precision, Workload
from protocol.result import Result
from tests.fakes.assignments import BERT, LSTM, RESNET, SHORT, assignment, run_here
from tests.fakes.spies import spy
from worker.errors import NotFiniteError
from worker.measure import Work
from worker.models import lstm
from worker.models.base import Batch, Objective
from worker.workloads import training

SEVEN = msgspec.structs.replace(SHORT, iterations=7, warm_up_iterations=2)


def train(cache: Path, **options: object) -> Result:
    """Seven steps of the LSTM, after two that warm up."""
    return run_here(assignment(LSTM, Workload.TRAINING, cache, **{"measurement": SEVEN, **options}))


class TwoParts:
    """The LSTM as two objectives: its head, and all the rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.gradients: list[set[str]] = []
        self.changed: list[set[str]] = []
        self._honest = lstm.loss
        self._weights: dict[str, torch.Tensor] = {}
        monkeypatch.setattr(lstm, "objectives", self.objectives, raising=False)

    def objectives(self, module: torch.nn.Module) -> tuple[Objective, ...]:
        return (
            Objective("head", self.first, lambda module: module.get_submodule("head").parameters()),
            Objective("rest", self.second, lambda module: [*self.of(module, "lstm"), *self.of(module, "embedding")]),
        )

    def of(self, module: torch.nn.Module, name: str) -> list[torch.nn.Parameter]:
        return list(module.get_submodule(name).parameters())

    def first(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return self.seen("head", module, batch)

    def second(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return 2 * self.seen("rest", module, batch)

    def seen(self, part: str, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Note which parameters have gradients, and which were changed since the part before."""
        self.order.append(part)
        named = dict(module.named_parameters())
        self.gradients.append({name for name, tensor in named.items() if tensor.grad is not None})
        if self._weights:
            changed = {name for name, tensor in named.items() if not torch.equal(tensor, self._weights[name])}
            self.changed.append({name.partition(".")[0] for name in changed})
        self._weights = {name: tensor.detach().clone() for name, tensor in named.items()}
        return self._honest(module, batch)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16])
def test_objectives_take_turns_and_change_their_own_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    """Each is a forward, a backward and an optimizer of its own; the series have one value for each iteration."""
    parts = TwoParts(monkeypatch)
    result = train(tmp_path, precision=precision)
    steps = 7 + 2
    counted = parts.order[2 * steps :]
    assert parts.order[: 2 * steps] == ["head", "rest"] * steps
    assert counted in ([], ["head", "rest"])
    assert not any(parts.gradients)
    skipped = sum(not changed for changed in parts.changed[: 2 * steps - 1])
    assert all(changed <= {"head"} for changed in parts.changed[: 2 * steps - 1 : 2])
    assert all(changed <= {"lstm", "embedding"} for changed in parts.changed[1 : 2 * steps - 1 : 2])
    assert skipped == 0 or precision is Precision.FP16
    assert skipped < steps
    assert {len(result.times_ms(name)) for name in result.series} == {7}
    for times in zip(
        *(result.times_ms(name) for name in ("iteration", "forward", "backward", "optimizer")), strict=True
    ):
        assert times[0] == pytest.approx(sum(times[1:]), rel=1e-5)
    assert result.loss is not None


def test_loss_of_several_objectives_is_their_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure has each of them where one diverged: a critic whose loss is infinite is no result."""
    parts = TwoParts(monkeypatch)
    assert train(tmp_path).loss == pytest.approx(3 * math.log(50), rel=0.1)
    monkeypatch.setattr(parts, "second", lambda module, batch: parts.first(module, batch).detach() + math.inf)
    monkeypatch.setattr(training.Part, "backward", lambda part: None)
    with pytest.raises(NotFiniteError, match=r"inf .*\(head [0-9.]+, rest inf\)"):
        train(tmp_path)


def test_spans_of_a_step_have_the_right_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward pass that is timed as the optimizer would be believed."""
    done: list[str] = []
    spy(monkeypatch, lstm, "loss", lambda *_: done.append("forward"))
    spy(monkeypatch, training.Part, "backward", lambda *_: done.append("backward"))
    spy(monkeypatch, training.Part, "optimize", lambda *_: done.append("optimizer"))
    spans: list[list[str]] = []
    work = training.SplitStep.work

    def watched(step: training.SplitStep) -> Work:
        made = work(step)
        for name, part in made.steps.items():
            part()
            spans.append([name, *done])
            done.clear()
        return made

    monkeypatch.setattr(training.SplitStep, "work", watched)
    train(tmp_path)
    assert spans == [[name, name] for name in ("forward", "backward", "optimizer")]


def test_own_step_is_measured_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its series is the iteration alone, and gpubench makes no optimizer."""
    calls: list[torch.dtype] = []

    def step(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        calls.append(lstm.forward(module, batch).dtype)
        return torch.tensor(0.5)

    monkeypatch.setattr(lstm, "train_step", step, raising=False)
    monkeypatch.setattr(training, "optimizer_for", lambda *_: pytest.fail("an optimizer was made"))
    result = train(tmp_path, precision=Precision.BF16)
    assert set(result.series) == {"iteration"}
    assert len(result.times_ms("iteration")) == 7
    assert result.loss == 0.5
    assert set(calls) == {torch.bfloat16}


@pytest.mark.parametrize("function", ["loss", "train_step"])
def test_loss_that_is_not_finite_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Of a split step or of the model's own, however fast it was."""
    honest = lstm.loss
    monkeypatch.setattr(lstm, function, lambda module, batch: honest(module, batch) * math.nan, raising=False)
    with pytest.raises(NotFiniteError, match="nan"):
        train(tmp_path)


def test_fp16_recovers_from_gradients_that_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scaler skips a step and scales less the next time; weights stay finite."""
    honest = lstm.loss
    scaled: list[float] = []
    modules: list[torch.nn.Module] = []

    def steep(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        modules.append(module)
        loss = honest(module, batch) * 4
        loss.register_hook(lambda gradient: scaled.append(float(gradient)))
        return loss

    monkeypatch.setattr(lstm, "loss", steep)
    result = train(tmp_path, precision=Precision.FP16)
    assert scaled[0] > 1
    assert result.loss is not None
    assert all(parameter.isfinite().all() for parameter in modules[-1].parameters())
    assert all(parameter.dtype is torch.float32 for parameter in modules[-1].parameters())


def test_loss_is_scaled_in_fp16_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 has the range of fp32 and needs no scaler, whose optimizer would wait for the device."""
    made: list[object] = []
    monkeypatch.setattr(torch.amp, "GradScaler", made.append)
    for precision in (Precision.FP32, Precision.TF32, Precision.BF16):
        train(tmp_path, precision=precision)
    assert made == []


def test_optimizer_depends_on_the_model() -> None:
    """Momentum for convolutions, AdamW for the rest."""
    module = torch.nn.Linear(2, 2)
    assert type(training.optimizer_for(RESNET, module.parameters())) is torch.optim.SGD
    assert type(training.optimizer_for(BERT, module.parameters())) is torch.optim.AdamW


def test_gradients_are_freed_before_the_next_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take no memory beside the activations, and no step adds to the next."""
    freed = spy(
        monkeypatch, lstm, "loss", lambda _, module, _batch: all(weight.grad is None for weight in module.parameters())
    )
    train(tmp_path)
    assert len(freed) > 3
    assert all(freed)
