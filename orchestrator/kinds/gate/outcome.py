"""The answer of a gate: its comparison in every format, with advice about undecided cells."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from orchestrator.analysis.evidence import Evidence
from orchestrator.compare.as_junit import to_junit
from orchestrator.compare.as_markdown import to_markdown
from orchestrator.compare.as_text import to_text
from orchestrator.compare.chapters import Ended, ended
from orchestrator.compare.comparison import FAIL_ON, ComparedCell, Comparison
from orchestrator.compare.run_figures import Side
from orchestrator.engine.kind import Outcome
from orchestrator.figures import keys
from orchestrator.figures.exit_code import COMPARED, CauseKind, RunVerdict
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import Report
from orchestrator.kinds.gate import noise, planning, sides, undecided
from orchestrator.report import markdown, text
from orchestrator.report.numbers import number
from orchestrator.report.sections import Section, numbers, table, texts
from orchestrator.state.archive import Archive

FORMATS: Final = ("text", "json", "md")
_Figures = Mapping[str, Mapping[str, tuple[float | None, float | None]]]


@dataclass(frozen=True)
class Answer(Outcome):
    """A gate's comparison and verdict.

    figures: name of a cell (with several GPUs: "GPU 0 <name>") → name of a figure → (value on the first side, value on
    the second); None if unknown.
    """

    verdict: RunVerdict
    comparison: Comparison
    figures: _Figures

    def render(self, kind: str) -> str:
        """Return the answer as a string. kind: "text", "json" or "md" (Markdown)."""
        if kind == "json":
            content = {"exit_code": self.verdict.exit_code, "comparison": self.comparison, "figures": self.figures}
            return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
        if kind == "md":
            compared = to_markdown([self.comparison], _ended(self.verdict)), ""
            return "\n".join((*compared, *markdown.lines(_section(self.figures), "####"))).rstrip()
        return self.text

    def junit(self) -> bytes:
        """Return the answer as JUnit XML.

        Causes of the exit code that come from no comparison, such as a hardware fault, are additional test cases.
        """
        of_run = tuple(cause for cause in self.verdict.causes if cause.kind not in COMPARED)
        return to_junit([self.comparison], FAIL_ON, of_run)


def answer(archive: Archive, evidence: Evidence, report: Report) -> Answer:
    """Return the comparison and verdict of a finished gate. Raises UserError if the stored baseline is damaged."""
    before, after, comparison = sides.compared(archive, evidence, report)
    gate = planning.requested(archive.stored.configuration)
    advice = noise.advice(gate, noise.variation(before, after))
    cells = tuple(_advised(cell, advice) if undecided.needs_launches(cell) else cell for cell in comparison.cells)
    comparison = replace(comparison, cells=cells)
    figures = dict(_figures(before, after, sides.names(archive)))
    shown = "\n".join((to_text([comparison], _ended(report.verdict)), "", *text.lines(_section(figures)))).rstrip("\n")
    return Answer(shown, report.verdict, comparison, figures)


def _ended(verdict: RunVerdict) -> Ended:
    regression = any(cause.kind in {CauseKind.SLOWER, CauseKind.WRONG} for cause in verdict.causes)
    return ended(verdict.exit_code, verdict.why, regression=regression)


def _advised(cell: ComparedCell, advice: str) -> ComparedCell:
    return replace(cell, reason="; ".join(filter(None, (cell.reason, advice))))


def _figures(
    before: Side, after: Side, named: Mapping[CellKey, str]
) -> Iterator[tuple[str, Mapping[str, tuple[float | None, float | None]]]]:
    """Yield (name, figure → its values on both sides) of each compared cell on each GPU. named: key → name to show."""
    first = {(cell.gpu_uuid, cell.key): cell for cell in before.cells}
    any_gpu: dict[CellKey, Mapping[str, float]] = {cell.key: cell.figures for cell in before.cells}
    labels = {device.gpu_uuid: device.label for device in after.devices}
    names = {**keys.names(cell.key for cell in after.cells), **named}
    for cell in after.cells:
        partner = first.get((cell.gpu_uuid, cell.key))
        old = any_gpu.get(cell.key) if partner is None else partner.figures
        if old is None or not (old or cell.figures):
            continue
        on = f"{labels[cell.gpu_uuid]} " if len(labels) > 1 else ""
        both = {name: (old.get(name), cell.figures.get(name)) for name in sorted({**old, **cell.figures}, key=_rank)}
        yield f"{on}{names[cell.key]}", both


def _rank(name: str) -> tuple[bool, str]:
    return not name.startswith("p9") and not name.startswith("p5"), name


def _section(figures: _Figures) -> Section | None:
    rows = [
        (cell, name, number(before), number(after))
        for cell, found in figures.items()
        for name, (before, after) in found.items()
    ]
    columns = (*texts("Cell", "Figure"), *numbers("First", "Second"))
    tables = (table("", columns, rows, elsewhere="--format json"),)
    return Section("figures", "Latency and memory of both sides", tables=tables) if rows else None
