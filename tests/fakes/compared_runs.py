"""Pairs of runs that nobody measured: launches and sessions that scatter as specified, and the verdicts on them."""

import math
import random
from collections import Counter
from dataclasses import dataclass

from orchestrator.config import margins
from orchestrator.stats.two_runs import LEAST_LAUNCHES, ChangeVerdict, GroupMean, Judged, Pair, group_means, judge

_RUNS = margins.load().runs
FALSE = frozenset({ChangeVerdict.FASTER, ChangeVerdict.SLOWER, ChangeVerdict.PROBABLY_SLOWER})


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Two runs. spread: of launches; unequal: of its logarithm from cell to cell; session: of sessions; all of logs.

    bimodal: cells of which a fifth of the launches is 3 % faster. changed: cells of that speed in the second run.
    host: cells that are bound by the host. launches: of each side; of the first `lone` cells one.
    """

    cells: int = 68
    launches: tuple[int, int] = (3, 3)
    spread: float = 0.005
    unequal: float = 0.0
    bimodal: int = 0
    session: float = 0.0
    changed: int = 0
    speed: float = 1.0
    host: bool = False
    trusted: bool = True
    lone: int = 0


@dataclass(frozen=True, kw_only=True)
class PairVerdicts:
    """Verdicts on a pair of runs. changed: only those of the cells that changed."""

    cells: list[Judged]
    changed: list[Judged]
    mean: GroupMean

    @property
    def verdicts(self) -> Counter[ChangeVerdict]:
        """How many cells got which verdict."""
        return Counter(one.verdict for one in self.cells)

    @property
    def tells_a_change(self) -> bool:
        """Whether a verdict reports a change: of any cell, or of all together."""
        return self.mean.verdict is not None or bool(FALSE & {*self.verdicts})

    @property
    def finds_every_change(self) -> bool:
        """Whether the verdict on every cell that changed is "slower"."""
        return all(one.verdict in FALSE and one.ratio < 1 for one in self.changed)


def simulated(setting: Setting, seed: int) -> list[Pair]:
    """A pair of runs."""
    chance = random.Random(seed)
    few = min(setting.launches) < LEAST_LAUNCHES
    host = setting.host or (few and not setting.trusted)  # as cell_facts.measures_host
    sessions = [chance.gauss(0, setting.session) for _ in range(2)]
    found = []
    for number in range(setting.cells):
        own = setting.spread * math.exp(chance.gauss(0, setting.unequal))
        sides = []
        for side, planned in enumerate(setting.launches):
            launches = 1 if number < setting.lone else planned
            level = sessions[side] + (math.log(setting.speed) if side and number < setting.changed else 0.0)
            jump = 0.03 if number >= setting.cells - setting.bimodal else 0.0
            sides.append(
                [
                    math.exp(level + chance.gauss(0, own) + jump * (chance.random() < 0.2 and jump > 0))
                    for _ in range(launches)
                ]
            )
        found.append(
            Pair(
                before=sides[0],
                after=sides[1],
                margin=_RUNS.cell.share,
                prior=_RUNS.launch.of(host=host),
                session=_RUNS.session.of(host=host),
                trusted=setting.trusted,
            )
        )
    return found


def simulated_verdicts(setting: Setting, seed: int) -> PairVerdicts:
    """Return the verdicts on one simulated pair of runs."""
    pairs = simulated(setting, seed)
    cells = judge(pairs)
    (mean,) = group_means([pairs])
    return PairVerdicts(cells=cells, changed=cells[: setting.changed], mean=mean)
