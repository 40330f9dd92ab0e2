"""The two sides of a gate's run so far, and their comparison. Pure, except for reading the baseline and margins.

Cells of the second side get the keys of their partners. The intended differences between the sides become facts of the
stack (software and settings of a run), for the title of the comparison.
"""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from orchestrator.analysis import report_builder
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.compare import comparison, references, run_figures
from orchestrator.compare.comparison import Comparison, SessionSpread
from orchestrator.compare.run_figures import Side, SideCell
from orchestrator.config import margins
from orchestrator.config.run_configuration import Gate
from orchestrator.errors import RunFolderError
from orchestrator.figures import keys
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import Report
from orchestrator.kinds.gate import planning
from orchestrator.state.archive import Archive
from protocol.cell import Cell

_VERSIONS: Final = {
    "torch": "torch",
    "CUDA": "cuda",
    "cuDNN": "cudnn",
    "torchvision": "torchvision",
    "transformers": "transformers",
    "python": "python",
}
"""Name of a version in the stack → field of the environment that a launch reports."""
ONE_SESSION: Final = SessionSpread(device=0.0, host=0.0)
THIS_RUN: Final = "this run"
SIDE: Final = "side"  # The fact of the stack that names a side


def compared(archive: Archive, evidence: Evidence, report: Report | None = None) -> tuple[Side, Side, Comparison]:
    """Return (first side, second side, their comparison) with the launches so far.

    The first side is the baseline, or side a of this run. The second side is this run, or its side b. report: that of
    the finished run; None while it runs. Raises UserError if the stored baseline is damaged.
    """
    report = report or report_builder.merge(archive, evidence, ReportTerms())
    gate = planning.requested(archive.stored.configuration)
    if gate.sides:
        session: SessionSpread | None = ONE_SESSION
        before, after = _measured(archive, evidence, report)
    else:
        against = references.stored(archive.paths)
        session = against.session
        before, after = _with_baseline(archive, report, against.baseline)
    named = names(archive)
    return before, after, comparison.compare(before, after, margins.load(), gate.percent, session, named=named)


def common(gate: Gate, cell: Cell) -> CellKey:
    """Return a cell's key with the original name of its model, without a side's label such as "(precision=bf16)"."""
    named = {
        own: model.name
        for side in gate.sides
        for own, model in zip(side.models, side.configuration.models, strict=True)
    }
    return replace(planning.key(cell), model_name=named.get(cell.model, cell.model))


def names(archive: Archive) -> dict[CellKey, str]:
    """Return key on the first side → name for the pair: "lstm inference fp32 -> bf16 b8"; {} with a baseline."""
    gate, cells = planning.requested(archive.stored.configuration), archive.cells
    pairs = planning.partners(gate, archive.stored.plan) if gate.sides else {}
    both = {common(gate, cells[one]): common(gate, cells[other]) for one, other in pairs.items()}
    return keys.names_of_both(both)


def _with_baseline(archive: Archive, report: Report, baseline: Side | None) -> tuple[Side, Side]:
    if baseline is None:
        raise RunFolderError(f"{archive.paths.compared_with}: missing, with the gate's baseline. Start a new gate.")
    planned = {planning.key(cell) for cell in archive.stored.plan.cells}
    cells = tuple(cell for cell in baseline.cells if cell.key in planned)
    return replace(baseline, cells=cells), run_figures.of_report(report, THIS_RUN)


def _measured(archive: Archive, evidence: Evidence, report: Report) -> tuple[Side, Side]:
    gate, plan = planning.requested(archive.stored.configuration), archive.stored.plan
    whole = run_figures.of_report(report, THIS_RUN)
    pairs = planning.partners(gate, plan)
    first, second = ({first: first for first in pairs}, {second: first for first, second in pairs.items()})
    sides = []
    for side, keys_of in zip(gate.sides, (first, second), strict=True):
        shared = {planning.key(archive.cells[own]): common(gate, archive.cells[of]) for own, of in keys_of.items()}
        sides.append(
            replace(
                whole,
                name=side.label,
                stack={**whole.stack, **dict(_versions(evidence, keys_of)), SIDE: side.label},
                cells=tuple(_renamed(cell, shared[cell.key]) for cell in whole.cells if cell.key in shared),
            )
        )
    return replace(sides[0], ended=""), sides[1]


def _renamed(cell: SideCell, key: CellKey) -> SideCell:
    as_requested = cell.ran_at == cell.key.batch_size
    return replace(cell, key=key, parameters=None, ran_at=key.batch_size if as_requested else cell.ran_at)


def _versions(evidence: Evidence, cells: Collection[str]) -> Iterator[tuple[str, str]]:
    launches = [evidence.launches[number] for cell in cells for number in evidence.outcomes[cell].valid_launches]
    for name, field in _VERSIONS.items():
        seen = dict.fromkeys(getattr(launch.result.environment, field) for launch in launches)
        if words := ", ".join(filter(None, seen)):
            yield name, words
