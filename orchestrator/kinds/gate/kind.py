"""The gate: rounds of launches until more do not help the comparison, or its time is up."""

from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.config.run_configuration import Configuration, Slot
from orchestrator.engine.kind import Kind, LaunchTerms, Outcome
from orchestrator.figures.exit_code import Cause
from orchestrator.figures.report import Report
from orchestrator.kinds.gate import noise, planning, sides, undecided, verdict
from orchestrator.state.archive import Archive
from protocol.cell import Cell, Device


def launch_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Return the run's measurement settings and deadlines, and the Python of the cell's side ("": gpubench's own).

    They do not depend on the device and the slot (cell id, round).
    """
    both = planning.requested(configuration).sides
    python = next((side.python for side in both if cell.model in side.models), "")
    return LaunchTerms(configuration.measurement, configuration.deadlines, python=python)


def worker_environment(configuration: Configuration) -> Mapping[str, str]:
    """Return {"OMP_WAIT_POLICY": "PASSIVE"}, so that threads sleep, if the run measures both sides; else {}."""
    # On two cores beside other work, launches of a small network varied by 24 % so, and by 110 % where threads spun.
    return {"OMP_WAIT_POLICY": "PASSIVE"} if planning.requested(configuration).sides else {}


def judge(archive: Archive, evidence: Evidence, report: Report) -> Iterable[Cause]:
    """Return the causes of the exit code from the comparison of a finished run. Empty while it still runs.

    Raises UserError if the stored baseline is damaged.
    """
    return () if evidence.goes_on else verdict.causes(sides.compared(archive, evidence, report)[2])


def outcome(archive: Archive, evidence: Evidence, report: Report) -> Outcome:
    """Return the comparison and verdict of a finished gate, for output in every format."""
    from orchestrator.kinds.gate.outcome import answer  # imports rich, which --dry-run can do without

    return answer(archive, evidence, report)


GATE: Final = Kind(
    name="gate",
    plan=planning.make,
    launch_terms=launch_terms,
    worker_environment=worker_environment,
    adds_launches=lambda *_: True,
    look=undecided.look,
    advise=noise.advise,
    report=ReportTerms(judge=judge),
    outcome=outcome,
)
