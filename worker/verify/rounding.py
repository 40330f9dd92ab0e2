"""Largest error of a product by rounding alone. A larger one shows a fault.

For a dot product of k terms, added up in any order with unit roundoff u, Higham (Accuracy and Stability of Numerical
Algorithms, 2nd edition, section 3.1) gives

    |output - exact| <= gamma · Σ |a_i| |b_i|,   gamma = k u / (1 - k u)

u is 2^-24 where fp32 numbers are multiplied and added in fp32, and 2^-23 on tensor cores, which truncate (Fasi, Higham,
Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science, 2021). Storing the sum in fewer
bits adds half a unit of its last place. An element within the bound may still be wrong.
"""

import math
from typing import Final

import torch

from protocol.cell import Precision

_UNIT: Final = {Precision.FP32: 2.0**-24}
_UNIT_OF_TENSOR_CORES: Final = 2.0**-23
_STORED: Final = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def bound(precision: Precision, terms: int, exact: float, magnitude: float, stored: torch.dtype) -> float:
    """Return the largest difference of a product's element from `exact` by rounding alone.

    exact: exact value, a sum of `terms` products. magnitude: sum of their absolute values. stored: type of the output.
    """
    reach = terms * _UNIT.get(precision, _UNIT_OF_TENSOR_CORES)
    summed = reach / (1 - reach) * magnitude
    return summed + _STORED[stored] * (abs(exact) + summed) + torch.finfo(stored).tiny


def is_beyond(value: float, exact: float, allowed: float) -> bool:
    """Whether `value` is farther from `exact` than `allowed`, or not finite."""
    return not math.isfinite(value) or abs(value - exact) > allowed
