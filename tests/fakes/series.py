"""Series of rates that never were measured: windows of ten seconds that hang together."""

import math
import random

AN_HOUR = 360
"""Windows of one."""


def correlated(chance: random.Random, count: int, autocorrelation: float, noise: float) -> list[float]:
    """An AR(1) series around zero with this standard deviation."""
    value, fresh = chance.gauss(0, noise), noise * math.sqrt(1 - autocorrelation**2)
    values = []
    for _ in range(count):
        values.append(value)
        value = autocorrelation * value + chance.gauss(0, fresh)
    return values
