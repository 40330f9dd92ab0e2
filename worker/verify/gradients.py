"""Losses and gradient digests of a replay, recorded on the device, and a fault to inject.

replay: a fixed number of steps, always from the same weights and inputs. part: one loss of a step, with its optimizer.
"""

import hashlib
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from protocol.messages import Assign
from protocol.verification import Element
from worker.verify.digest import Digester
from worker.verify.flips import NO_FAULT, Flips

_WORD: int = 1 << 64


@dataclass(frozen=True)
class Outcome:
    """Outcome of a training step. losses: one for each part of the step, as hexadecimal floats.

    gradients: one digest (int64) for each parameter that is not empty, 0 if it has no gradient.
    """

    losses: tuple[str, ...]
    gradients: tuple[int, ...]

    @property
    def loss(self) -> float:
        """Sum of the losses of all parts."""
        return sum(map(float.fromhex, self.losses))

    @property
    def digest(self) -> str:
        """Digest of all gradients together, as 16 hexadecimal digits."""
        words = struct.pack(f"<{len(self.gradients)}q", *self.gradients)
        return hashlib.blake2b(words, digest_size=8).hexdigest()

    def differing(self, expected: "Outcome") -> list[int]:
        """Return the indices in `gradients` at which the digests differ from those of `expected`."""
        pairs = zip(self.gradients, expected.gradients, strict=True)
        return [number for number, (found, right) in enumerate(pairs) if found != right]

    def element(self, number: int, expected: "Outcome") -> Element:
        """Return an Element: offset `number`, an index in `gradients`, and both digests there, in hexadecimal."""
        right, found = (outcome.gradients[number] % _WORD for outcome in (expected, self))
        return Element(offset=number, expected=f"{right:016x}", found=f"{found:016x}")


class Recorder:
    """Records losses and gradient digests of replays of `module`.

    steps: training steps in a replay. parts: backward passes in a step, as a GAN has two. seed: of the digests.
    """

    def __init__(self, module: torch.nn.Module, steps: int, parts: int, seed: int) -> None:
        self._parts = parts
        self._parameters = [parameter for parameter in module.parameters() if parameter.numel()]
        self._digesters = _digesters([matrix(parameter.detach()) for parameter in self._parameters], seed)
        device = self._parameters[0].device
        self._totals = torch.zeros(steps * len(self._parameters), dtype=torch.int64, device=device)
        self._losses = torch.zeros(steps, parts, dtype=torch.float32, device=device)
        self._passes = 0

    @property
    def step(self) -> int:
        """Current step, from 0."""
        return self._passes // self._parts

    @property
    def part(self) -> int:
        """Current part of the step, from 0."""
        return self._passes % self._parts

    def begin(self) -> None:
        """Start a new replay at step 0: forget what was recorded of the last one."""
        self._totals.zero_()
        self._passes = 0

    def having(self) -> list[torch.nn.Parameter]:
        """Return the parameters that have a gradient now."""
        return [parameter for parameter in self._parameters if parameter.grad is not None]

    def record(self, loss: torch.Tensor) -> None:
        """Record the gradients and the loss (a scalar) of one part of a training step. Does not wait for the device.

        Call it once after each backward pass: each call moves on to the next part, or to the next step.
        """
        self._losses[self.step, self.part].copy_(loss)
        first = self.step * len(self._parameters)
        for number, (parameter, digester) in enumerate(zip(self._parameters, self._digesters, strict=True)):
            if parameter.grad is not None:
                digester.add(matrix(parameter.grad), self._totals, first + number)
        self._passes += 1

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of the replay's complete steps so far, in order. Waits for the device."""
        rows = self._totals.view(-1, len(self._parameters))[: self.step].tolist()
        losses = self._losses[: self.step].tolist()
        return [Outcome(tuple(map(float.hex, some)), tuple(row)) for some, row in zip(losses, rows, strict=True)]


def matrix(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as a contiguous matrix: a row for each index of dimension 0; one row for a scalar or vector."""
    return tensor.contiguous().view(len(tensor) if tensor.dim() > 1 else 1, -1)


def _digesters(gradients: Sequence[torch.Tensor], seed: int) -> list[Digester]:
    """Return a Digester for each gradient, shared by equal shapes and types: making one takes milliseconds."""
    kinds = [(gradient.shape, gradient.dtype) for gradient in gradients]
    made = {kind: Digester(gradient, seed) for kind, gradient in dict(zip(kinds, gradients, strict=True)).items()}
    return [made[kind] for kind in kinds]


class GradientFault:
    """Injects the fault of `assign.injection`, if any: flips bits in one gradient at one step of a replay.

    The step is chosen at random out of `steps`, the number of steps of a replay. The first replay with
    `begin(possible=True)` gets the fault. If the injection is stuck, all later replays with possible=True get it too,
    at the same step and gradient.
    """

    def __init__(self, assign: Assign, steps: int) -> None:
        self._assign = assign
        self._injection = assign.injection or NO_FAULT
        self._random = random.Random(f"gradient to flip {assign.cell.seed}")
        self._step = self._random.randrange(steps)
        self._now = self._struck = False
        self._target: tuple[torch.nn.Parameter, Flips] | None = None

    def begin(self, *, possible: bool) -> None:
        """Prepare for a new replay. possible: False if it is not compared, so that a fault would be overlooked."""
        self._now = possible and self._injection.flip_bits > 0 and (self._injection.stuck or not self._struck)

    def strike(self, step: int, having: list[torch.nn.Parameter]) -> None:
        """Flip bits of a gradient if the fault is due at `step`, else do nothing. Does not wait for the device.

        having: parameters with a gradient, one of which is chosen at random at the first fault.
        """
        if not self._now or step != self._step:
            return
        if self._target is None:
            parameter = self._random.choice(having)
            self._target = parameter, Flips(self._assign, matrix(parameter.detach()))
        parameter, flips = self._target
        if parameter.grad is not None:
            parameter.grad = parameter.grad.contiguous()
            flips.strike(parameter.grad)
            self._struck, self._now = True, False
