"""Results that were measured beside another process, of which the journal says nothing. Pure."""

from collections.abc import Iterable

from orchestrator.config.run_configuration import Plan
from orchestrator.gpu.telemetry.foreign_use import ForeignUse
from orchestrator.store.records import Beside, End, Foreign, Left, Record, Segment, Start


def unmarked(plan: Plan, records: Iterable[Record]) -> dict[int, str]:
    """Launches with a result beside which the journal has seen another process without a word, and which process.

    The process that worked on the run was killed between the result and what it would have recorded. As there, a launch
    is looked at when its device is free again (Left); one whose device never was, at the end of its segment.
    """
    devices = {cell.id: cell.devices for cell in plan.cells}
    use, running = ForeignUse(), dict[int, Start]()

    def who(start: Start) -> str:
        return use.beside(devices[start.cell], start.at_ns)

    found: dict[int, str] = {}
    good: set[int] = set()
    for record in records:
        match record:
            case Segment():
                found |= {launch: who(start) for launch, start in running.items()}
                use, running = ForeignUse(), {}
            case Foreign():
                use.note(record.device, record.by, record.at_ns)
            case Start():
                running[record.launch] = record
            case End(failure=None):
                good.add(record.launch)
            case End() | Beside():
                good.discard(record.launch)
            case Left() if record.launch in running:
                start = running.pop(record.launch)
                found[record.launch] = who(start)
    found |= {launch: who(start) for launch, start in running.items()}
    return {launch: words for launch, words in found.items() if words and launch in good}
