"""The noise of a machine (variation between launches of a gate's cells), and advice. Pure.

    launches of a cell, by side ── standard deviation of the logarithm within a side ── median over cells ── advice

Launches are compared only within a side, so that a difference between the sides is not counted as noise.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from orchestrator.compare.run_figures import Side
from orchestrator.config.run_configuration import Gate, StoredRun
from orchestrator.figures.keys import CellKey
from orchestrator.kinds.gate import planning
from orchestrator.stats import pooled

TOO_NOISY: Final = 0.1
"""Largest standard deviation between launches, as a share, without a warning. 0.03 gives none [sim, docs/gate.md]."""
LEAST_DEGREES: Final = 2
"""Least degrees of freedom that show a cell's noise. Two launches of both sides, or three of one, have them."""
HELP: Final = "What helps: end other programs, fixed cores (taskset), more time (--time-limit)"
_LESS_NOISE: Final = "a larger batch (-b) or one device at a time (--solo)"
"""Advice to reduce noise. Batch and mode of a gate are those of its baseline, so it needs a new baseline for this."""


def advise(stored: StoredRun, launches_ms: Mapping[str, Sequence[float]]) -> str:
    """Return a warning about a noisy machine, with advice; "" if the noise is at most TOO_NOISY or not known yet.

    launches_ms: id of a planned cell → milliseconds of an iteration in each of its launches.
    """
    gate = planning.requested(stored.configuration)
    cells = {cell.id: cell for cell in stored.plan.cells}
    several = [pair for pair in planning.compared(gate, stored.plan) if planning.shows_noise(cells[pair[0]])]
    varies = spread([[launches_ms.get(cell, ()) for cell in pair] for pair in several])
    return advice(gate, varies) if varies is not None and varies > TOO_NOISY else ""


def spread(pairs: Iterable[Sequence[Sequence[float]]]) -> float | None:
    """Return the standard deviation between launches within a side, as a share: 0.03 is 3 %. Median over the pairs.

    pairs: for each pair of compared cells, the times or rates (above 0) of each side's launches. None while no pair has
    at least LEAST_DEGREES degrees of freedom (launches less one per side).
    """
    logs = ([[math.log(value) for value in launches] for launches in pair if launches] for pair in pairs)
    variances = [one for pair in logs if (one := pooled.of_launches(pair)) and one.degrees >= LEAST_DEGREES]
    return math.sqrt(median(one.value for one in variances)) if variances else None


def variation(*measured: Side) -> float | None:
    """Return the `spread` (0.03 is 3 %) of the cells that one or two sides measured; None with too few launches."""
    rates: dict[tuple[str, CellKey], list[Sequence[float]]] = defaultdict(list)
    for cell in (cell for side in measured for cell in side.cells):
        rates[cell.gpu_uuid, cell.key].append(cell.rates)
    return spread(rates.values())


def advice(gate: Gate, varies: float | None) -> str:
    """Say how much launches vary on this machine, and what helps. varies: from `spread`; None omits the first part."""
    variation_text = "" if varies is None else f"this machine varies by {varies:.1%} from launch to launch. "
    more = _LESS_NOISE if gate.sides else f"a new baseline with more launches (--launches), {_LESS_NOISE}"
    return f"{variation_text}{HELP}, {more}"
