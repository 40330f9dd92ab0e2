"""Build a model without random initial parameters, because its weights are read from a file next.

Layers, torch.nn.init and libraries fill parameters, or their `data`, with random numbers. These calls are skipped.
Buffers are filled as always, because the file may not contain them.
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
"""Names of the methods and functions, in torch or a library, that fill a tensor at random."""
_DATA: Final = torch.Tensor.data.__get__  # type: ignore[attr-defined]  # torch declares it as a plain tensor
_OF_A_PARAMETER: Final = "_gpubench_of_a_parameter"


class Blank(TorchFunctionMode):
    """Context manager (a mode of torch) in which random fills leave parameters uninitialised. Buffers are filled."""

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
