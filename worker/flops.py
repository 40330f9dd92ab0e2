"""Number of floating-point operations of an iteration, by torch's FlopCounterMode.

The counter has formulas for some operators only. The others count as zero if they are torch's own and no matrix
products. Any other operator without a formula makes the number None, because it would be too low. Multiplications and
additions count one each. Attention with a causal mask counts as without the mask. torch's formula for backward
convolutions ignores groups, and is replaced by one of this module.
"""

import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.backends import mha
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from protocol.result import COUNTED_WITHIN_MS

_OWN: Final = frozenset({"aten", "prim", "prims", "profiler"})
_PRODUCTS: Final = re.compile(
    r"m[mv](_|$)|matmul|conv|linear(_|$)|attention|transformer_encoder|rnn|lstm|gru(_|$)|fft|cdist|linalg_(?!vector_norm)"
)
"""Pattern of the names of torch's operators that are matrix products."""


_Shape = Sequence[int]


def _convolution_backward(
    grad_output: _Shape,
    inputs: _Shape,
    weight: _Shape,
    _bias: object,
    _stride: object,
    _padding: object,
    _dilation: object,
    transposed: bool,  # noqa: FBT001 - the arguments are those of aten.convolution_backward, tensors as their shapes
    _output_padding: object,
    _groups: object,
    output_mask: Sequence[bool],
    **_: object,
) -> int:
    """Count the operations of a backward convolution: those of a forward pass for each needed gradient (at most 2).

    output_mask: whether the gradients of inputs, weight and bias are needed. That of the bias counts as free.
    """
    places = (inputs if transposed else grad_output)[2:]
    return 2 * inputs[0] * math.prod(places) * math.prod(weight) * sum(output_mask[:2])


_FORMULAS: Final = {torch.ops.aten.convolution_backward: _convolution_backward}


def count(step: Callable[[], object], iteration_ms: float) -> float | None:
    """Run `step` and return its number of floating-point operations; None if it is unknown (see the module).

    iteration_ms: measured time of the step. Above COUNTED_WITHIN_MS (2 s), returns None without running it. Returns
    None as well if the step raises an exception, which is printed, or if the number is 0.
    """
    if iteration_ms > COUNTED_WITHIN_MS:
        return None
    watch = _Watch()
    try:
        with _attention_in_parts(), watch, FlopCounterMode(display=False, custom_mapping=_FORMULAS) as counter:
            step()
    except Exception:  # noqa: BLE001 - a model's code may fail in many ways under a counter, and was measured already
        print("operations could not be counted:", file=sys.stderr)  # noqa: T201 - kept as evidence in the log
        traceback.print_exc()
        return None
    total = counter.get_total_flops()
    return None if watch.unseen or total == 0 else float(total)


@contextmanager
def _attention_in_parts() -> Iterator[None]:
    before = mha.get_fastpath_enabled()  # torch's fused attention kernels have no formula
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(before)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not annotate its base
    """Collects in `unseen` the names of operators whose missing formula makes the number of operations too low."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate it
        self.unseen: set[str] = set()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch does not say what it is
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        packet = func._overloadpacket
        if packet not in flop_registry and (func.namespace not in _OWN or _PRODUCTS.search(packet.__name__)):
            self.unseen.add(str(func))
        return func(*args, **(kwargs or {}))
