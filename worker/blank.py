"""Build a model without torch's random fills of parameters, whose weights are read from a file a moment later.

Fills come from layers, torch.nn.init or a library, also through `parameter.data`. Buffers, which the file may not hold,
are filled as always.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch.overrides import TorchFunctionMode

_FILLS: Final = frozenset(
    {
        *("normal_", "uniform_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_", "random_"),
        *("kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "trunc_normal_", "orthogonal_"),
    }
)
"""Methods of a tensor, or functions of torch.nn.init, which transformers 5 replaces by its own."""
_DATA: Final = torch.Tensor.data.__get__  # type: ignore[attr-defined]  # torch declares it as a plain tensor
_OF_A_PARAMETER: Final = "_gpubench_of_a_parameter"


class Blank(TorchFunctionMode):
    """Mode in which parameters are not filled at random."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        target = args[0] if args else named.get("tensor")
        if getattr(func, "__name__", "") in _FILLS and _is_parameter(target):
            return target
        result = func(*args, **named)
        if func == _DATA and _is_parameter(target):
            setattr(result, _OF_A_PARAMETER, True)
        return result


def _is_parameter(target: object) -> bool:
    return isinstance(target, torch.nn.Parameter) or hasattr(target, _OF_A_PARAMETER)
