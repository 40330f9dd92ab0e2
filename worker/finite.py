"""Whether losses and outputs are numbers: the one check, for every workload and for the fault that proves it."""

import math

import torch

from worker.errors import NotFiniteError
from worker.outputs import tensors


def total(losses: dict[str, float]) -> float:
    """The sum over all parts of a step. Raises NotFiniteError where one of them is NaN or infinite."""
    found = sum(losses.values())
    if not math.isfinite(found):
        parts = ", ".join(f"{name} {loss}" for name, loss in losses.items())
        raise NotFiniteError(f"the loss is {found} after the last step ({parts})")
    return found


def require(outputs: object, *, infinite: bool) -> None:
    """Raise NotFiniteError where a tensor of the outputs, in any nesting, holds NaN, or infinity unless it may.

    infinite: whether the model may mean infinity. Waits for the device, and takes no memory beside the outputs there.
    """
    for number, tensor in enumerate(tensors(outputs), start=1):
        for extreme in _extremes(tensor):
            if math.isnan(extreme) or (math.isinf(extreme) and not infinite):
                raise NotFiniteError(
                    f"output {number} of the model, of shape {tuple(tensor.shape)} in "
                    f"{str(tensor.dtype).removeprefix('torch.')}, holds {extreme}"
                )


def _extremes(tensor: torch.Tensor) -> tuple[float, ...]:
    """The least and the largest number, both NaN where one is; none of what holds no numbers, or whole ones alone."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.numel() == 0:
        return ()
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()  # torch cannot compare numbers of eight bits
    return tensor.amin().item(), tensor.amax().item()
