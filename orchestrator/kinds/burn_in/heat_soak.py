"""When a GPU has done warming up: what its rates say before that is no fault of it, and is not judged. Pure.

    hottest so far      ╭──────────────      steady: it has risen by no more than `rise_c` over the last `windows`
                    ╭───╯├── windows ──┤     cap:    it was not after so long, and is judged from there on
                ────╯                        neither: temperatures that cannot be read, or work that ended before

The hottest window so far is followed, not the last one: a round has heavy cells and light
ones, and the light ones cool. Wrong bits are judged from the first product on.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.kinds.burn_in.levels import HeatSoakRule
from orchestrator.stats.windows import WINDOW_NS


class Ending(enum.StrEnum):
    """What ended the heat soak."""

    STEADY = "the temperature was steady"
    CAP = "it had taken as long as it may"
    WORK_ENDED = "the work ended before the temperature was steady"
    FIRST_ROUND = "the first round was over; no temperature could be read"


@dataclass(frozen=True)
class HeatSoak:
    """The first part of the work of one GPU, which is not judged. Windows are counted as in stats/windows.py.

    begin: its first window. until: the first that is judged; None where no temperature could be read, so that the first
    round is left out. reached_c: the hottest window in it, in degrees Celsius; None like until.
    """

    begin: int
    until: int | None
    ending: Ending
    reached_c: float | None = None

    def leaves_out(self, round_: int, at_ns: int) -> bool:
        """Whether what a launch of a round did at this moment, monotonic in nanoseconds, is not judged."""
        return round_ == 0 if self.until is None else at_ns < self.until * WINDOW_NS

    @property
    def seconds(self) -> float | None:
        """How long it lasted, in whole windows."""
        return None if self.until is None else (self.until - self.begin) * WINDOW_NS / 1e9


def heat_soak(work: Sequence[Climate], begin: int, end: int, asked_s: float, rule: HeatSoakRule) -> HeatSoak:
    """The heat soak of one GPU that was at work from window `begin` to window `end`, both included.

    work: its windows, in order; those without a temperature are passed over. asked_s: what the burn-in is to last, of
    which the heat soak takes a share at most.
    """
    readings = [
        (one.number, one.temperature_c) for one in work if begin <= one.number <= end and one.temperature_c is not None
    ]
    if not readings:
        return HeatSoak(begin, None, Ending.FIRST_ROUND)
    cap = begin + rule.most_windows(asked_s)
    hottest: list[float] = []
    for number, temperature_c in readings:
        if number >= cap:
            return HeatSoak(begin, cap, Ending.CAP, hottest[-1] if hottest else temperature_c)
        hottest.append(max([temperature_c, *hottest[-1:]]))
        if len(hottest) > rule.windows and hottest[-1] - hottest[-1 - rule.windows] <= rule.rise_c:
            return HeatSoak(begin, number + 1, Ending.STEADY, hottest[-1])
    return HeatSoak(begin, end + 1, Ending.WORK_ENDED, hottest[-1])
