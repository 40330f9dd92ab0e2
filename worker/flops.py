"""How many floating-point operations an iteration takes, by torch's own counter; never a number that misses some.

The counter knows matrix products, convolutions and attention by their shapes, and takes everything else for nothing. So
what runs is watched beside it: a kernel that by its name works in products but has no formula (recurrent layers, or a
fused attention that this version of torch does not know), or one from outside torch, and there is no number at all.
Multiplications and additions count one each. Attention counts in full where a causal mask leaves half of it out.
"""

import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

_LONGEST_MS: Final = 2_000.0
"""Counting takes one iteration more, at the speed of Python; on a CPU that may be minutes."""

_OWN: Final = frozenset({"aten", "prim", "prims", "profiler"})
"""Where torch's own operators live. What lies elsewhere is somebody's kernel, and may do anything."""
_PRODUCTS: Final = re.compile(
    r"m[mv](_|$)|matmul|conv|linear(_|$)|attention|transformer_encoder|rnn|lstm|gru(_|$)|fft|cdist|linalg_(?!vector_norm)"
)
"""Operators of torch that work in products, as one may tell by their names."""


def count(step: Callable[[], object], iteration_ms: float) -> float | None:
    """Operations of one iteration, None where not all of them are seen, or an iteration takes more than two seconds.

    step: one iteration, which is run once more. Whatever it raises here costs this number, and not what was measured.
    """
    if iteration_ms > _LONGEST_MS:
        return None
    watch = _Watch()
    try:
        with watch, FlopCounterMode(display=False) as counter:
            step()
    except Exception:  # noqa: BLE001 - a model's code may fail in many ways under a counter, and was measured already
        print("operations could not be counted:", file=sys.stderr)  # noqa: T201 - kept as evidence in the log
        traceback.print_exc()
        return None
    total = counter.get_total_flops()
    return None if watch.unseen or total == 0 else float(total)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not annotate its base
    """Notes every operator that really runs and that the counter has no formula for, but should have."""

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
