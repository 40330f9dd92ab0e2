"""Training: whole steps, with forward (loss included), backward and optimizer timed apart.

    forward: forward pass and loss │ backward: gradients │ optimizer: step, then gradients to None

Gradients are dropped in the optimizer's span: they are its last act, and so they take no memory in the forward pass.
Optimizers are those that the models are trained with, in torch's default implementation; bf16 is autocast, with fp32
weights. The loss stays on the device until all is measured, because to look at it is to wait for it.
"""

import math
from typing import Final

import torch
import torch._dynamo  # every optimizer imports it when it is made: 1.2 s that are no part of building

from protocol.cell import ModelSpec
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from worker import devices
from worker.errors import NotFiniteError
from worker.measure import Work
from worker.models import registry
from worker.models.base import Batch, Family
from worker.stage import Stage
from worker.workloads import common

_LEARNING_RATE: Final = 1e-4
"""Small enough that random labels never make a loss explode; the speed of a step does not depend on it."""


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell. Raises NotFiniteError when the loss has become NaN or infinite."""
    with stage.timed("import"):
        family = registry.family(assign.model)
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    dtype = devices.weights_type(assign.cell.precision, training=True)
    with stage.timed("build"):
        module = family.build(assign.model, device, assign.cell.input_size).to(dtype).train()
        optimizer = optimizer_for(assign.model, module)
        devices.synchronize(device)
    stage.enter(Phase.WARM_UP)
    with stage.timed("build"):
        batch = common.make_batch(family, assign, device, dtype)
    step = _Step(family, module, optimizer, batch, assign)
    work = Work({"forward": step.forward, "backward": step.backward, "optimizer": step.optimize})
    measurements = common.warm_up_and_measure(work, assign, stage, device)
    return common.result(
        measurements,
        module,
        assign,
        stage,
        isolation=isolation,
        items=assign.cell.batch_size,
        loss=_finite(step.loss.item()),
    )


def optimizer_for(spec: ModelSpec, module: torch.nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum for convolutional networks, AdamW for everything else."""
    if spec.type == "cnn":
        return torch.optim.SGD(module.parameters(), lr=_LEARNING_RATE, momentum=0.9)
    return torch.optim.AdamW(module.parameters(), lr=_LEARNING_RATE)


class _Step:
    """One training step in three parts."""

    def __init__(
        self,
        family: Family,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        assign: Assign,
    ) -> None:
        self._family = family
        self._module = module
        self._optimizer = optimizer
        self._batch = batch
        self._precision = assign.cell.precision
        self._device = next(module.parameters()).device
        self.loss = torch.empty(())

    def forward(self) -> None:
        """Forward pass and loss."""
        with devices.autocast(self._device, self._precision):
            self.loss = self._family.loss(self._module, self._batch)

    def backward(self) -> None:
        """Gradients."""
        self.loss.backward()  # type: ignore[no-untyped-call]  # torch does not annotate it

    def optimize(self) -> None:
        """New weights; the gradients are gone afterwards."""
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise NotFiniteError(f"the loss is {loss} after the last step")
    return loss
