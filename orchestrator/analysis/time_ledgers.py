"""Where the time of launches went, phase by phase (a ledger), and what one process per launch cost.

    START ── start │ import │ … │ warm_up │ measure │ count ── record ── END ── teardown ── free
             └──── reported by the worker (Ledger) ───────┘

START and END are records of the journal. `record` is the time before END that the worker does not report.
"""

from collections.abc import Sequence
from operator import attrgetter
from statistics import median
from typing import Final

import msgspec

from orchestrator.figures.parts import LaunchLedger
from orchestrator.state.attempts import Attempt
from protocol.result import Ledger

_MEASURING: Final = frozenset({"compile_ms", "load_ms", "warm_up_ms", "measure_ms"})
_OVERHEAD: Final = attrgetter(*(name for name in Ledger.__struct_fields__ if name not in _MEASURING))


def ledger(launches: Sequence[tuple[Ledger, Attempt]]) -> LaunchLedger | None:
    """Return the median time of each phase over the launches, in ms; None without launches."""
    if not launches:
        return None
    entries = {name: median(getattr(spent, name) for spent, _ in launches) for name in Ledger.__struct_fields__}
    records = [ms for spent, attempt in launches if (ms := record_ms(spent, attempt)) is not None]
    teardowns = [attempt.left.teardown_ms for _, attempt in launches if attempt.left is not None]
    return LaunchLedger(
        **entries,
        record_ms=median(records) if records else None,
        teardown_ms=median(teardowns) if teardowns else None,
        overhead_ms=median(overhead_ms(spent, attempt) for spent, attempt in launches),
    )


def record_ms(spent: Ledger, attempt: Attempt) -> float | None:
    """Return the ms from START to END that are not in `spent`; None if the starting session recorded no END."""
    return None if attempt.lasted_ms is None else attempt.lasted_ms - sum(msgspec.structs.astuple(spent))


def overhead_ms(spent: Ledger, attempt: Attempt) -> float:
    """Return the ms in which a launch did not compile, load, warm up or measure; unknown entries count as 0."""
    teardown_ms = attempt.left.teardown_ms if attempt.left else 0.0
    return float(sum(_OVERHEAD(spent)) + (record_ms(spent, attempt) or 0.0) + teardown_ms)
