"""Where the time of launches went, and what of it a process of its own for each of them cost."""

from collections.abc import Sequence
from statistics import median

from orchestrator.disk.records import Left
from orchestrator.report.parts import LaunchLedger
from protocol.result import Ledger


def ledger(launches: Sequence[tuple[Ledger, Left | None]]) -> LaunchLedger | None:
    """Medians of what the launches spent, None where there is none. A launch that nobody saw leave has no teardown."""
    if not launches:
        return None
    entries = {name: median(getattr(spent, name) for spent, _ in launches) for name in Ledger.__struct_fields__}
    teardowns = [left.teardown_ms for _, left in launches if left is not None]
    return LaunchLedger(
        **entries,
        teardown_ms=median(teardowns) if teardowns else None,
        overhead_ms=median(overhead_ms(spent, left) for spent, left in launches),
    )


def overhead_ms(spent: Ledger, left: Left | None) -> float:
    """What a launch cost beyond loading, warm-up and measuring, as far as it was seen."""
    seen = spent.start_ms + spent.import_ms + spent.context_ms + spent.build_ms
    return seen + (left.teardown_ms if left else 0.0)
