"""How far a product may be from the exact one by rounding alone: beyond it, something is broken.

For a dot product of k terms, added up in any order with unit roundoff u, Higham (Accuracy and Stability of Numerical
Algorithms, 2nd edition, section 3.1) has

    |found - exact| <= gamma · Σ |a_i| |b_i|,   gamma = k u / (1 - k u)

u is 2^-24 where fp32 numbers are multiplied and added in fp32. Tensor cores cut off instead of rounding (Fasi, Higham,
Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science, 2021), which doubles it: 2^-23.
Storing the sum in fewer bits adds half a unit of its last place. The bound always holds, and is far from reached: a
wrong low bit is within it. So an element beyond it is proof of a fault, and one within it is no proof of anything.
"""

import math
from typing import Final

import torch

from protocol.cell import Precision

_UNIT: Final = {Precision.FP32: 2.0**-24}
_UNIT_OF_TENSOR_CORES: Final = 2.0**-23
_STORED: Final = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def bound(precision: Precision, terms: int, exact: float, magnitude: float, stored: torch.dtype) -> float:
    """Largest difference from `exact` that rounding explains, for finite outputs of type `stored`.

    magnitude: the sum of the absolute values of the terms. The operands must be representable in `precision`.
    """
    reach = terms * _UNIT.get(precision, _UNIT_OF_TENSOR_CORES)
    summed = reach / (1 - reach) * magnitude
    return summed + _STORED[stored] * (abs(exact) + summed) + torch.finfo(stored).tiny


def is_beyond(found: float, exact: float, allowed: float) -> bool:
    """Whether `found` is further from `exact` than `allowed`; what is not finite always is."""
    return not math.isfinite(found) or abs(found - exact) > allowed
