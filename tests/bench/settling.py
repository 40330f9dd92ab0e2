"""How often launches are called unsettled, and how far off they read: the real loop and profiles in simulated time.

    python -m tests.bench.settling 200

prints the table of docs/method-reference.md, "Warm-up", in minutes. A falling clock loses 5 % with a time constant.
`right` is the share of launches that are called unsettled or read within 1 % of the settled rate.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import pytest

from orchestrator.stats.launch import block_medians
from protocol import floats, settling
from protocol.result import SteadyState
from tests.fakes.simulation import LEVEL_MS, Series, autocorrelated, falling, measured, profile, spikes, white

PROFILES: Final = ("quick", "triage", "standard", "rigorous")
STEADY: Final[Mapping[str, Series]] = {
    "independent, 0.5 %": white(0.005),
    "autocorrelation 0.9, 1 %": autocorrelated(0.01, 0.9),
    "spikes, 2 of 100": spikes(0.02, 0.5),
}
FALLING: Final[Mapping[str, Series]] = {
    f"clock falls, {constant_s} s, noise {noise} %": falling(0.05, constant_s, noise / 100)
    for constant_s in (2, 10, 60)
    for noise in (0.01, 0.1, 0.5)
}
_WITHIN: Final = 0.01


@dataclass(frozen=True)
class Shares:
    """Of seeded launches. off: the mean reading above the settled rate. seconds: median of warm-up and measurement."""

    unsettled: float
    right: float
    off: float
    seconds: float


def shares(series: Series, name: str, seeds: int) -> Shares:
    """Warm up and measure `seeds` times."""
    how, unsettled, right, off, seconds = profile(name), 0, 0, [], []
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(seeds):
            warm_up, found = measured(series, seed, how, patch)
            times_ms = floats.unpack(found.series["iteration"])
            course_ms = floats.unpack(warm_up.course)
            measured_ms = block_medians(found.blocks, times_ms, found.group)
            change = settling.lasting_change(course_ms, warm_up.settled_blocks, measured_ms)
            flagged = warm_up.steady_state is SteadyState.NONE or change is not None
            excess = LEVEL_MS / fmean(times_ms) - 1
            unsettled += flagged
            right += flagged or abs(excess) <= _WITHIN
            off.append(excess)
            seconds.append(found.blocks[-1].end_ns / 1e9)
    return Shares(unsettled / seeds, right / seeds, fmean(off), median(seconds))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seeds", type=int, nargs="?", default=100)
    seeds = parser.parse_args().seeds
    print(f"| times | {' | '.join(PROFILES)} |\n|---|{'---|' * len(PROFILES)}")
    for words, series in {**STEADY, **FALLING}.items():
        found = [shares(series, name, seeds) for name in PROFILES]
        cells = (
            f"{one.unsettled:.0%} unsettled, {one.right:.0%} right, {one.off:+.1%}, {one.seconds:.1f} s"
            for one in found
        )
        print(f"| {words} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
