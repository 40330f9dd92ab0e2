"""Replays of training steps on the CPU: the same bits every time, and a flipped one is found where it was flipped."""

import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from protocol.cell import MemoryFormat, ModelSpec, Precision, Workload
from protocol.result import Result
from protocol.verification import REPLAY_STEPS, Injection
from tests.fakes.assignments import BERT, LSTM, SHORT, STYLEGAN2, UNET, Listener, assignment, run_here, verified
from tests.fakes.spies import spy
from worker.errors import NotFiniteError, UnsuitableModelError
from worker.models import lstm
from worker.models.base import Objective
from worker.verify import gradients
from worker.verify.gradients import GradientFault, Recorder
from worker.workloads import replay, training

STEPS = REPLAY_STEPS
ONCE, STUCK = Injection(flip_bits=1), Injection(flip_bits=1, stuck=True)


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models as small as these take longer on two, above all where others compute too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


def launch(
    model: ModelSpec,
    cache: Path,
    *,
    replays: int = 2,
    injection: Injection | None = None,
    listener: Listener | None = None,
    **cell: Any,
) -> Result:
    """One step to warm up, the first of the reference; then whole replays, with time to repeat them."""
    steps = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=replays * STEPS, max_s=60)
    cell = {"seed": 3} | cell
    assign = assignment(model, Workload.REPLAY, cache, measurement=steps, injection=injection, **cell)
    return run_here(assign, listener)


@pytest.mark.parametrize(
    ("model", "precision", "batch_size"),
    [
        (LSTM, Precision.FP32, 2),
        (BERT, Precision.BF16, 2),
        (STYLEGAN2, Precision.FP32, 4),
    ],
)
def test_two_launches_give_the_same(tmp_path: Path, model: ModelSpec, precision: Precision, batch_size: int) -> None:
    """Losses and digests to the last bit, of a recurrent model, a transformer and one with two objectives."""
    one, other = (verified(launch(model, tmp_path, precision=precision, batch_size=batch_size)) for _ in range(2))
    assert (one.digests, one.losses) == (other.digests, other.losses)
    assert (len(set(one.digests)), len(set(one.losses))) == (STEPS, STEPS)
    assert all(float.fromhex(loss).hex() == loss for loss in one.losses)
    assert (one.mismatches, one.kept, one.not_tested) == (0, (), {})
    assert one.checks == 1 + STEPS
    assert one.key == other.key != ()


def test_another_seed_gives_something_else(tmp_path: Path) -> None:
    """In every step."""
    one, other = (verified(launch(LSTM, tmp_path, seed=seed, replays=1)) for seed in (3, 4))
    assert not set(one.digests) & set(other.digests)
    assert not set(one.losses) & set(other.losses)


def test_a_cnn_is_replayed(tmp_path: Path) -> None:
    """With its images by pixel, batch normalisation and momentum; its operations are counted."""
    cnn = msgspec.structs.replace(UNET, type="cnn")
    result = launch(cnn, tmp_path, memory_format=MemoryFormat.CHANNELS_LAST)
    found = verified(result)
    assert (found.mismatches, found.checks) == (0, 1 + STEPS)
    assert result.flops_per_iteration
    assert found.operations == (1 + STEPS) * result.flops_per_iteration
    assert {len(result.times_ms(name)) for name in ("iteration", "forward", "backward", "optimizer")} == {2 * STEPS}
    assert [block.iterations for block in result.blocks] == [STEPS, STEPS]
    assert result.loss == float.fromhex(found.losses[-1])


def test_losses_are_those_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay trains as measured elsewhere: the same model, batch and optimizer from the same seed."""
    seen = spy(monkeypatch, lstm, "loss", lambda loss, *_: loss.item())
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=STEPS - 1)
    run_here(assignment(LSTM, Workload.TRAINING, tmp_path, measurement=measurement, seed=3))
    trained = [loss.hex() for loss in seen[:STEPS]]
    assert list(verified(launch(LSTM, tmp_path, replays=1)).losses) == trained


def changed_loss(monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    honest = lstm.loss
    monkeypatch.setattr(lstm, "loss", lambda module, batch: change(honest(module, batch)))


def test_random_numbers_are_the_same_in_every_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that dropout draws."""
    changed_loss(monkeypatch, lambda loss: nn.functional.dropout(loss * torch.rand(())))
    assert verified(launch(LSTM, tmp_path, replays=3)).mismatches == 0


@pytest.mark.parametrize(("seed", "injection"), [(3, Injection(flip_bits=4, stuck=True)), (4, ONCE)])
def test_a_flipped_bit_is_found_at_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, injection: Injection
) -> None:
    """With the gradient that has it; ten repetitions show whether it is permanent."""
    struck: list[tuple[int, int]] = []
    monkeypatch.setattr(replay, "REPETITIONS", 10 if seed == 3 else 2)

    def strike(self: GradientFault, step: int, having: list[nn.Parameter]) -> None:
        before = [parameter.grad.clone() for parameter in having if parameter.grad is not None]
        strike_honestly(self, step, having)
        after = [parameter.grad for parameter in having]
        struck.extend(
            (step, at)
            for at, (one, other) in enumerate(zip(before, after, strict=True))
            if other is not None and not torch.equal(one.view(torch.int32), other.view(torch.int32))
        )

    strike_honestly = GradientFault.strike
    monkeypatch.setattr(GradientFault, "strike", strike)
    found = verified(launch(LSTM, tmp_path, seed=seed, replays=4, injection=injection))
    step, gradient = struck[0]
    assert set(struck) == {(step, gradient)}
    first = found.kept[0]
    assert re.match(rf"step {step} .* 1 of 11 ", first.what)
    assert first.iteration == STEPS + step
    assert (first.elements, [element.offset for element in first.first]) == (1, [gradient])
    assert first.first[0].expected != first.first[0].found
    assert found.mismatches == (3 if injection.stuck else 1)
    assert first.wrong_again == (first.repeated if injection.stuck else 0)
    assert first.repeated == (10 if seed == 3 else 2)
    assert found.digests == verified(launch(LSTM, tmp_path, seed=seed, replays=1)).digests


@pytest.mark.parametrize(("deadline_s", "cell_s"), [(0, 60.0), (60, 0.0)])
def test_repetitions_end_with_the_time_of_phase_and_cell(tmp_path: Path, deadline_s: float, cell_s: float) -> None:
    """Without any time left there is one repetition: a phase that takes many times as long hangs."""
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=2 * STEPS, max_s=cell_s)
    assign = assignment(LSTM, Workload.REPLAY, tmp_path, measurement=measurement, injection=STUCK)
    deadlines = msgspec.structs.replace(assign.deadlines, measure=deadline_s)
    found = verified(run_here(msgspec.structs.replace(assign, deadlines=deadlines)))
    assert (found.kept[0].repeated, found.kept[0].wrong_again) == (1, 1)


def test_every_bit_of_a_gradient_is_in_its_digest() -> None:
    """Lowest, sign and all others."""
    module = nn.Linear(3, 5)
    recorder = Recorder(module, steps=1, parts=1, seed=3)

    def outcome(bit: int | None) -> gradients.Outcome:
        recorder.begin()
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, 0.5)
        if bit is not None and module.weight.grad is not None:
            module.weight.grad.view(torch.int32)[4, 2] ^= -(1 << 31) if bit == 31 else 1 << bit
        recorder.record(torch.tensor(1.0))
        return recorder.outcomes()[0]

    right = outcome(None)
    found = [outcome(bit) for bit in range(32)]
    assert all(one.differing(right) == [0] and one.digest != right.digest for one in found)
    assert outcome(None) == right


def test_every_replay_starts_from_the_same_state() -> None:
    """Weights, buffers, optimizer and random numbers."""
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    part = training.Part(
        Objective("model", lambda *_: torch.zeros(()), lambda module: module.parameters()),
        module,
        assignment(BERT, Workload.REPLAY, Path()),
        torch.device("cpu"),
    )
    start = replay._Start(module, [part], seed=3)
    start.restore()
    drawn = torch.rand(2)
    module(torch.randn(6, 3)).square().sum().backward()
    part.optimizer.step()
    assert part.optimizer.state
    assert not any(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    start.restore()
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert not part.optimizer.state
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(torch.rand(2), drawn)


def test_operator_without_deterministic_form_is_not_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has its name; the model is run as load, with nothing to compare."""
    spy(monkeypatch, lstm, "loss", lambda *_: torch.zeros(4).put_(torch.tensor([1]), torch.tensor([2.0])))
    result = launch(LSTM, tmp_path)
    found = verified(result)
    assert list(found.not_tested) == ["tiny-lstm"]
    assert "put_" in found.not_tested["tiny-lstm"]
    assert (found.checks, found.operations, found.digests, found.losses, found.mismatches) == (0, 0.0, (), (), 0)
    assert len(result.times_ms("iteration")) == 2 * STEPS


def test_a_replay_is_deterministic_and_leaves_no_trace(tmp_path: Path) -> None:
    """The switches are in the result, and as before afterwards."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
    flags = launch(LSTM, tmp_path, replays=1).environment.flags
    assert (flags["deterministic_algorithms"], flags["cudnn.deterministic"]) == ("True", "True")
    assert flags["cudnn.benchmark"] == "False"
    assert (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic) == before


def test_errors_of_the_first_step_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that diverges gives NaN every time, on healthy GPUs and on faulty ones."""
    listener = Listener()
    changed_loss(monkeypatch, lambda loss: loss * float("nan"))
    with pytest.raises(NotFiniteError, match="nan"):
        launch(LSTM, tmp_path, listener=listener)
    assert listener.seen == []

    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("broken")

    monkeypatch.setattr(lstm, "loss", broken)
    with pytest.raises(RuntimeError, match="broken"):
        launch(LSTM, tmp_path)


def recorded(monkeypatch: pytest.MonkeyPatch, change: Callable[[int, torch.Tensor], torch.Tensor]) -> None:
    """Record each loss as `change` gives it, from its number in the launch."""
    honest, before = Recorder.record, itertools.count()
    monkeypatch.setattr(Recorder, "record", lambda self, loss: honest(self, change(next(before), loss)))


@pytest.mark.parametrize(("at", "step", "phase"), [(0, 0, ", while warming up"), (1 + 3, 3, "")])
def test_one_nan_in_the_first_replay_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, step: int, phase: str
) -> None:
    """It is on disk before its examination, and all other steps are compared with the repeated replay."""
    healthy, listener = verified(launch(LSTM, tmp_path)), Listener()
    recorded(monkeypatch, lambda before, loss: loss * float("nan") if before == at else loss)
    found = verified(launch(LSTM, tmp_path, listener=listener))
    assert (found.digests, found.losses) == (healthy.digests, healthy.losses)
    assert (found.mismatches, len(found.kept)) == (1, 1)
    assert re.match(
        rf"step {step} .* 0 of 11 .* nan, not {float.fromhex(healthy.losses[step])}{phase}$", found.kept[0].what
    )
    assert (found.kept[0].wrong_again, found.kept[0].repeated) == (0, 10)
    assert [one.mismatch.repeated for one in listener.seen] == [0, 10]


def test_steps_after_a_mismatch_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They began with other weights; in the first whole replay the next replay gives the reference."""
    healthy = verified(launch(LSTM, tmp_path, replays=3))
    struck = verified(launch(LSTM, tmp_path, replays=3, injection=ONCE))
    step = struck.kept[0].iteration % STEPS
    assert healthy.checks - struck.checks == STEPS - 1 - step
    healthy = verified(launch(LSTM, tmp_path))
    recorded(monkeypatch, lambda before, loss: loss * 2 if before in {1, 2} else loss)
    found = verified(launch(LSTM, tmp_path))
    assert (found.mismatches, found.losses) == (1, healthy.losses)


def test_different_infinite_losses_are_a_mismatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept, though there is no reference for the others."""
    listener = Listener()
    recorded(monkeypatch, lambda before, loss: loss * float("-inf" if before == 0 else "inf"))
    with pytest.raises(NotFiniteError, match="inf"):
        launch(LSTM, tmp_path, listener=listener)
    assert [one.mismatch.repeated for one in listener.seen] == [0, 10]


def test_model_that_cannot_be_replayed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fp16 has a scaler with a state of its own; a step of the model's own code cannot be split."""
    with pytest.raises(UnsuitableModelError, match="fp16"):
        launch(LSTM, tmp_path, precision=Precision.FP16)
    monkeypatch.setattr(lstm, "train_step", lambda module, batch: torch.tensor(0.5), raising=False)
    with pytest.raises(UnsuitableModelError, match="tiny-lstm cannot be replayed"):
        launch(LSTM, tmp_path)
