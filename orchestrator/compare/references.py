"""What a run is compared with (baseline, thresholds, price), kept in its folder for `report` and `resume`.

Options of `report` replace it for that call only.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from orchestrator.compare import baselines, costs, run_figures, thresholds
from orchestrator.compare.run_figures import Side
from orchestrator.compare.strict_json import contents, decode
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.figures.comparisons import BaselineComparison, ThresholdResult
from orchestrator.figures.parts import Part
from orchestrator.figures.report import Report, RunVerdict, Summary
from orchestrator.store.journal import write_durably
from protocol.exit_codes import MEANING, ExitCode
from protocol.paths import RunPaths

MISSED: Final = "threshold missed"
MOST_PRICE: Final = 1e9
"""Per hour, in any currency. Keeps derived numbers printable."""
_WITHOUT: Final = "Without the file, the run is held against nothing."


class Against(Part, frozen=True, kw_only=True):
    """References of a run. Null or empty where nothing was requested."""

    baseline: Side | None = None
    thresholds: tuple[Threshold, ...] = ()
    price_per_hour: Annotated[float, msgspec.Meta(gt=0, le=MOST_PRICE)] | None = None

    def __bool__(self) -> bool:
        return self != NOTHING

    def beside(self, given: "Against") -> "Against":
        """Return the references with those of `given` in their place."""
        return Against(
            baseline=given.baseline or self.baseline,
            thresholds=given.thresholds or self.thresholds,
            price_per_hour=given.price_per_hour or self.price_per_hour,
        )


NOTHING: Final = Against()


def store(against: Against, paths: RunPaths) -> None:
    """Write the references into the run folder, if there are any. Raises StorageError."""
    if against:
        write_durably(paths.held_against, msgspec.json.format(msgspec.json.encode(against), indent=2) + b"\n")


def stored(paths: RunPaths) -> Against:
    """Read the references from the run folder. Raises RunFolderError for a damaged file."""
    if not paths.held_against.exists():
        return NOTHING
    try:
        found = decode(contents(paths.held_against), Against, str(paths.held_against))
    except ConfigError as error:
        raise RunFolderError(f"{error}. {_WITHOUT}") from error
    for one in found.thresholds:
        if problem := thresholds.mistake(one):
            raise RunFolderError(f"{paths.held_against}: {one.name}: {problem}. {_WITHOUT}")
    return found


def hold(report: Report, against: Against) -> Report:
    """Add the comparison with the references to the report."""
    if not against:
        return report
    held = baselines.hold(run_figures.of_report(report, "this run"), against.baseline) if against.baseline else None
    results = tuple(thresholds.judge(report, against.thresholds, held))
    price = against.price_per_hour
    return replace(
        report,
        baseline_comparison=held.comparison if held else None,
        summary=_scored(report.summary, held.comparison) if held else report.summary,
        thresholds=results,
        costs=() if price is None else tuple(costs.costs(report, price)),
        verdict=_verdict(report.verdict, results),
    )


def _scored(summary: Summary, found: BaselineComparison) -> Summary:
    cells = plural(found.cells, "cell")
    if found.overall_score is None:
        why = ", and ".join(found.not_comparable) or "it measured nothing"
        note = f"no cell of this run compares with the baseline {found.baseline}: {why}"
    else:
        note = baselines.DEFINITION.format(cells=cells, baseline=found.baseline, gpu=found.baseline_gpu)
    return replace(summary, overall_score=found.overall_score, score_note=note)


def _verdict(verdict: RunVerdict, results: Sequence[ThresholdResult]) -> RunVerdict:
    """Combine the verdict of the run with its thresholds. Graver outcomes (hardware fault, internal error) stay."""
    told = tuple(thresholds.missed(results))
    if not told:
        return verdict
    code = ExitCode(verdict.exit_code)
    if code in (ExitCode.PASSED, ExitCode.INCOMPLETE):
        code = thresholds.exit_code(results)
    word = {ExitCode.MISSED: MISSED, ExitCode.INCOMPLETE: "incomplete"}.get(code, verdict.word)
    reasons = (*told, *verdict.reasons) if code in (ExitCode.MISSED, ExitCode.INCOMPLETE) else (*verdict.reasons, *told)
    return RunVerdict(exit_code=int(code), word=word, meaning=MEANING[code], reasons=reasons)
