"""Whether times are steady: medians of the last blocks agree and do not drift. One disturbed block is ignored."""

import itertools
from collections.abc import Sequence
from statistics import median
from typing import Final

WINDOW: Final = 8
"""Number of last blocks that must agree: 0.4 s under the quick profile, 2 s under other profiles.

With 8 blocks, a drift of 0.2 % a block never counted as steady, and noise of 1 % between blocks did at the second
check. With 6, a drift of 0.1 % counted as steady at the first [sim]."""
HALVES_LIMIT: Final = 0.01
SLOPE_LIMIT: Final = 0.005


def is_steady(medians_ms: Sequence[float], retries: Sequence[int]) -> bool:
    """Whether the last WINDOW blocks are steady; False if there are fewer. ValueError if the lists differ in length.

    Steady: the medians of the window's two halves differ by less than 1 %, it drifts by less than 0.5 % from its first
    block to its last (Theil-Sen), and the allocator had no retries after its first block. medians_ms: median iteration
    time of each block. retries: number of allocator retries up to the end of each block.
    """
    if len(medians_ms) != len(retries):
        raise ValueError(f"{len(medians_ms)} medians, but {len(retries)} counts of retries")
    if len(medians_ms) < WINDOW:
        return False
    window = medians_ms[-WINDOW:]
    if retries[-1] != retries[-WINDOW]:
        return False
    level = median(window)
    earlier, later = median(window[: WINDOW // 2]), median(window[WINDOW // 2 :])
    drift = theil_sen_slope(window) * (WINDOW - 1)
    return abs(later - earlier) < HALVES_LIMIT * level and abs(drift) < SLOPE_LIMIT * level


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median slope, per index, over all pairs of `values`. Raises ValueError for fewer than two values."""
    if len(values) < 2:
        raise ValueError(f"a slope needs at least two values, got {len(values)}")
    pairs = itertools.combinations(enumerate(values), 2)
    return median((b - a) / (j - i) for (i, a), (j, b) in pairs)
