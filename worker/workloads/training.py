"""Training: whole steps, with separate times of forward (loss included), backward and optimizer.

    forward: forward pass and loss │ backward: gradients │ optimizer: step, then gradients to None

Some models have several parts: losses, each with an optimizer of its own. The parts run through these three phases in
turn, and the series hold sums over all parts. fp16 and bf16 are autocast, with weights in fp32. In fp16 the loss is
scaled, and the optimizer waits for the device. The loss is read only after the measurement, because reading it waits
for the device. A user's own train_step has only the series iteration, and its loss is not scaled.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import torch
import torch._dynamo  # every optimizer imports it when it is made: 1.2 s that are no part of building

from protocol.cell import ModelSpec, Precision
from protocol.messages import Assign
from protocol.result import Result
from worker import devices, finite, flops
from worker.compiler import Compiler
from worker.measure import Work
from worker.models.base import Batch, Family, Objective
from worker.stage import Stage
from worker.timing import Step
from worker.workloads import common

_Whole = Callable[[torch.nn.Module, Batch], torch.Tensor]
_Autocast = Callable[[], AbstractContextManager[object]]

_LEARNING_RATE: Final = 1e-4
"""Learning rate at which losses with random labels stay finite. The time of a step does not depend on it."""


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell. Raises NotFiniteError if the loss of the last step is NaN or infinite.

    isolation: "fork" or "exec", for the result.
    """
    family = common.family_of(assign, stage)
    device, module = common.opened(family, assign, stage, training=True)
    with stage.timed("build"):
        whole: _Whole | None = getattr(family, "train_step", None)
        parts = () if whole else parts_of(family, module, assign, device)
        devices.synchronize(device)
    compiler = Compiler(assign, stage, device)
    with stage.timed("build"):
        batch = common.make_batch(family, assign, device, devices.weights_type(assign.cell.precision, training=True))
    autocast = partial(devices.autocast, device, assign.cell.precision)
    step = _WholeStep(whole, module, batch, autocast) if whole else SplitStep(parts, module, batch, autocast)
    with devices.training_kernels(device, assign.cell.precision):
        compiler.compile(module, step.losses_of_a_step)
        measurements = common.warm_up_and_measure(step.work(), assign, stage, device)
        with stage.timed("count"):
            operations = flops.count(step.gradients, measurements.iteration_ms)
        loss = finite.total(step.losses())
        compilation = compiler.compare_random(compiler.compilation(), module, step.losses_of_a_step)
    return Result(
        **common.fields(
            measurements, module, assign, stage, isolation=isolation, items=common.items(family, assign, batch)
        ),
        flops_per_iteration=operations,
        loss=loss,
        compilation=compilation,
    )


def parts_of(family: Family, module: torch.nn.Module, assign: Assign, device: torch.device) -> tuple["Part", ...]:
    """Return one Part for each objective of the family. Without objectives, one Part trains all parameters.

    assign: the message that says what to measure, such as precision and batch size.
    """
    objectives = getattr(family, "objectives", None)
    if objectives is None:
        return (Part(Objective("model", family.loss, lambda module: module.parameters()), module, assign, device),)
    return tuple(Part(objective, module, assign, device) for objective in objectives(module))


def optimizer_for(spec: ModelSpec, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Return an optimizer of `parameters`: SGD with momentum for convolutional networks, otherwise AdamW."""
    if spec.type == "cnn":
        return torch.optim.SGD(parameters, lr=_LEARNING_RATE, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=_LEARNING_RATE)


class Part:
    """One loss of a training step with its optimizer.

    objective: function that computes the loss, and the parameters to train. scaler: of the loss, None except in fp16.
    loss: that of the last forward pass, a scalar on the device.
    """

    def __init__(self, objective: Objective, module: torch.nn.Module, assign: Assign, device: torch.device) -> None:
        parameters = list(objective.parameters(module))
        self.objective = objective
        self.optimizer = optimizer_for(assign.model, parameters)
        self.scaler = torch.amp.GradScaler(device.type) if assign.cell.precision is Precision.FP16 else None
        everything = len(parameters) == sum(1 for _ in module.parameters())
        self._into = None if everything else parameters
        self.loss = torch.empty(())

    def backward(self) -> None:
        """Compute the gradients of `loss` for the parameters of this part only."""
        loss = self.loss if self.scaler is None else self.scaler.scale(self.loss)
        loss.backward(inputs=self._into)  # type: ignore[no-untyped-call]  # torch does not annotate it

    def optimize(self) -> None:
        """Update the parameters, then drop the gradients. In fp16 the update is skipped if a gradient overflowed."""
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)


class SplitStep:
    """One training step: forward, backward and optimizer of each part (Part) in turn."""

    def __init__(self, parts: Sequence[Part], module: torch.nn.Module, batch: Batch, autocast: _Autocast) -> None:
        self._parts = parts
        self._module = module
        self._batch = batch
        self._autocast = autocast
        self._turns = itertools.cycle(parts)
        self._part = next(self._turns)

    def work(self) -> Work:
        """Return the step as Work (worker/measure.py) to be measured."""
        steps: dict[str, Step] = {"forward": self._forward, "backward": self._backward, "optimizer": self._optimize}
        return Work(steps, passes=len(self._parts), waits=any(part.scaler is not None for part in self._parts))

    def gradients(self) -> None:
        """Run forward and backward of every part, then drop its gradients. No optimizer runs."""
        for part in self._parts:
            self._forward()
            self._backward()
            part.optimizer.zero_grad(set_to_none=True)
            self._part = next(self._turns)

    def losses(self) -> dict[str, float]:
        """Return the last loss of each part, by name of its objective. Waits for the device."""
        return {part.objective.name: part.loss.item() for part in self._parts}

    def losses_of_a_step(self) -> dict[str, torch.Tensor]:
        """Run a step without optimizers. Returns name of each part's objective → loss, a scalar on the device."""
        self.gradients()
        return {part.objective.name: part.loss for part in self._parts}

    def _forward(self) -> None:
        part = self._part
        with self._autocast():
            part.loss = part.objective.loss(self._module, self._batch)

    def _backward(self) -> None:
        self._part.backward()

    def _optimize(self) -> None:
        self._part.optimize()
        self._part = next(self._turns)


class _WholeStep:
    def __init__(self, step: _Whole, module: torch.nn.Module, batch: Batch, autocast: _Autocast) -> None:
        self._step = step
        self._module = module
        self._batch = batch
        self._autocast = autocast
        self._loss = torch.empty(())

    def work(self) -> Work:
        return Work({"iteration": self.gradients})

    def gradients(self) -> None:
        with self._autocast():  # the whole step: its gradients cannot be computed alone
            self._loss = self._step(self._module, self._batch)

    def losses_of_a_step(self) -> dict[str, torch.Tensor]:
        """Run the user's step. Returns {}: the step changes weights, so that losses cannot be compared."""
        self.gradients()
        return {}

    def losses(self) -> dict[str, float]:
        return {"model": self._loss.item()}
