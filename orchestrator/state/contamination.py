"""Find results contaminated by foreign processes that a killed orchestrator did not mark as such. Pure."""

from collections.abc import Iterable

from orchestrator.config.run_configuration import Plan
from orchestrator.gpu.telemetry.foreign_use import ForeignUse
from orchestrator.store.journal_records import Beside, End, Foreign, Left, Record, Segment, Start


def unmarked(plan: Plan, records: Iterable[Record]) -> dict[int, str]:
    """Return launch number → foreign process ("PID 4711 python"), for each contaminated result without a mark.

    The mark is a second End (the result is withdrawn) or a Beside record (the result is accepted).
    """
    devices = {cell.id: cell.devices for cell in plan.cells}
    use, running = ForeignUse(), dict[int, Start]()

    def other_process(start: Start) -> str:
        return use.beside(devices[start.cell], start.at_ns)

    contaminated: dict[int, str] = {}
    good: set[int] = set()
    for record in records:
        match record:
            case Segment():
                contaminated |= {launch: other_process(start) for launch, start in running.items()}
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
                contaminated[record.launch] = other_process(start)
    contaminated |= {launch: other_process(start) for launch, start in running.items()}
    return {launch: process for launch, process in contaminated.items() if process and launch in good}
