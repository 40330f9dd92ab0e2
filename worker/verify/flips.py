"""Injected fault: flipped bits in one output of the measurement; if stuck, in all later ones too."""

import random
from typing import Final

import torch

from protocol.messages import Assign
from protocol.verification import Injection
from worker.verify import bits

_STREAM: Final = "bits to flip"
NO_FAULT: Final = Injection()


def places(seed: int, count: int, elements: int, size: int) -> dict[int, int]:
    """Choose `count` bits at random in `elements` elements of `size` bits. Returns element's offset → bit mask."""
    masks: dict[int, int] = {}
    for at in random.Random(f"{_STREAM} {seed}").sample(range(elements * size), count):
        masks[at // size] = masks.get(at // size, 0) | 1 << at % size
    return masks


class Flips:
    """Fault of one launch: the bits of an output to flip, chosen at random by the seed of the cell.

    assign: has the requested fault, if any. like: a tensor with shape, type and device of the outputs to flip.
    """

    def __init__(self, assign: Assign, like: torch.Tensor) -> None:
        self._injection = assign.injection or NO_FAULT
        size = bits.width(like)
        masks = places(assign.cell.seed, self._injection.flip_bits, like.numel(), size)
        kind = bits.integers(like).dtype
        self._offsets = torch.tensor(list(masks), dtype=torch.int64, device=like.device)
        self._masks = torch.tensor([bits.signed(mask, size) for mask in masks.values()], dtype=kind, device=like.device)
        self._struck = False

    @property
    def wanted(self) -> bool:
        """Whether flipped bits were requested and have not been injected yet."""
        return self._injection.flip_bits > 0 and not self._struck

    @property
    def stuck(self) -> bool:
        """Whether `strike` must be called for every output from now on: the fault is stuck and has been injected."""
        return self._injection.stuck and self._struck

    def strike(self, output: torch.Tensor) -> None:
        """Flip the chosen bits of `output` in place. Does not wait for the device."""
        flat = bits.integers(output).view(-1)
        flat[self._offsets] = flat[self._offsets] ^ self._masks
        self._struck = True
