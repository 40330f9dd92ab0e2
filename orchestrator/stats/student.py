"""Student's t for any degrees of freedom and far tails, without scipy (DLMF 8.17.22, Lentz's method)."""

import functools
import math
import statistics
from typing import Final

_TINY: Final = 1e-300
_TERMS: Final = 500
_PRECISION: Final = 1e-12


def tail(t: float, degrees: float) -> float:
    """Return the probability that Student's t is above `t`. Raises ValueError unless the degrees of freedom are > 0."""
    if not degrees > 0:
        raise ValueError(f"Student's t needs degrees of freedom above zero, got {degrees}")
    whole = degrees + t * t
    half = _incomplete_beta(degrees / whole, t * t / whole, degrees / 2, 0.5) / 2
    return half if t >= 0 else 1 - half


@functools.lru_cache(maxsize=1024)
def quantile(share: float, degrees: float) -> float:
    """Return the quantile of Student's t: the value below which `share` of all values lie.

    degrees: degrees of freedom. Raises ValueError unless 0.5 <= share < 1.
    """
    if not 0.5 <= share < 1:
        raise ValueError(f"expected a share from 0.5 to less than 1, got {share}")
    # The tail falls and is convex, and t is never less than the normal value: Newton's steps come from below, and stay.
    t = statistics.NormalDist().inv_cdf(share)
    for _ in range(_TERMS):
        step = (tail(t, degrees) - (1 - share)) / _density(t, degrees)
        t += step
        if step <= _PRECISION * t:
            break
    return t


def _density(t: float, degrees: float) -> float:
    logarithm = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    return math.exp(logarithm - (degrees + 1) / 2 * math.log1p(t * t / degrees))


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, 0 <= x <= 1. rest: 1 - x, exact for x near 1."""
    if 0.0 in (x, rest):
        return 1.0 if x else 0.0
    if x > (a + 1) / (a + b + 2):  # beyond, the fraction converges slowly; its mirror image quickly
        return 1 - _incomplete_beta(rest, x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(logarithm) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or _TINY)
            c = 1 + term / c or _TINY
            value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return value
