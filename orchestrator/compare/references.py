"""What a run is compared with (baseline, thresholds, price), kept in its folder for `report` and `resume`."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from orchestrator.analysis import exit_causes
from orchestrator.compare import baselines, board_baselines, costs, run_figures, thresholds
from orchestrator.compare.comparison import SessionSpread
from orchestrator.compare.run_figures import Side
from orchestrator.compare.strict_json import contents, decode
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.figures.comparisons import BaselineComparison, ThresholdResult
from orchestrator.figures.exit_code import RunVerdict, run_verdict
from orchestrator.figures.parts import Part
from orchestrator.figures.report import Report, Summary
from orchestrator.store.journal import write_durably
from protocol.paths import RunPaths

MOST_PRICE: Final = 1e9
"""Highest price per device hour, in any currency. It keeps numbers derived from it printable."""
_WITHOUT: Final = "Delete the file to compare the run with nothing. A gate cannot go on without it: start a new one."


class Against(Part, frozen=True, kw_only=True):
    """What a run is compared with; null or empty if not given. session: spread between runs, set by `gate`.

    price_per_hour: of one device, in any currency.
    """

    baseline: Side | None = None
    session: SessionSpread | None = None
    thresholds: tuple[Threshold, ...] = ()
    price_per_hour: Annotated[float, msgspec.Meta(gt=0, le=MOST_PRICE)] | None = None

    def __bool__(self) -> bool:
        return self != NOTHING

    def beside(self, given: "Against") -> "Against":
        """Return a copy in which each field that `given` has, such as a baseline, replaces the one of this object."""
        return Against(
            baseline=given.baseline or self.baseline,
            session=given.session or self.session,
            thresholds=given.thresholds or self.thresholds,
            price_per_hour=given.price_per_hour or self.price_per_hour,
        )


NOTHING: Final = Against()


def store(against: Against, paths: RunPaths) -> None:
    """Write `against` into the folder of the run; nothing if it is empty. Raises StorageError if that fails."""
    if against:
        write_durably(paths.compared_with, msgspec.json.format(msgspec.json.encode(against), indent=2) + b"\n")


def stored(paths: RunPaths) -> Against:
    """Read what `store` wrote into the run's folder; NOTHING without a file. Raises RunFolderError if it is damaged."""
    if not paths.compared_with.exists():
        return NOTHING
    try:
        found = decode(contents(paths.compared_with), Against, str(paths.compared_with))
    except ConfigError as error:
        raise RunFolderError(f"{error}. {_WITHOUT}") from error
    for one in found.thresholds:
        if problem := thresholds.mistake(one):
            raise RunFolderError(f"{paths.compared_with}: {one.name}: {problem}. {_WITHOUT}")
    return found


def hold(report: Report, against: Against, shipped: Sequence[Side] = ()) -> Report:
    """Return a copy of the report with score, thresholds and costs by `against`, and verdict and exit code to match.

    shipped: baselines of gpubench, which judge the GPUs that the user's baseline does not judge.
    """
    run = run_figures.of_report(report, "this run") if against.baseline or shipped else None
    if run is not None:
        report = _beside_baselines(report, run, [one for one in (against.baseline, *shipped) if one is not None])
    if not against:
        return report
    held = baselines.hold(run, against.baseline) if run is not None and against.baseline else None
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


def _beside_baselines(report: Report, run: Side, sides: Sequence[Side]) -> Report:
    found = board_baselines.judge(report.stragglers, run, sides)
    if found == report.stragglers:
        return report
    before = set(exit_causes.describe_slow_gpus(report.stragglers))
    reasons = [reason for reason in report.verdict.reasons if reason not in before]
    verdict = replace(report.verdict, reasons=(*reasons, *exit_causes.describe_slow_gpus(found)))
    return replace(report, stragglers=found, verdict=verdict)


def _scored(summary: Summary, scored: BaselineComparison) -> Summary:
    cells = plural(scored.cells, "cell")
    if scored.overall_score is None:
        why = ", and ".join(scored.not_comparable) or "it measured nothing"
        note = f"no cell of this run compares with the baseline {scored.baseline}: {why}"
    else:
        note = baselines.DEFINITION.format(cells=cells, baseline=scored.baseline, gpu=scored.baseline_gpu)
    return replace(summary, overall_score=scored.overall_score, score_note=note)


def _verdict(verdict: RunVerdict, results: Sequence[ThresholdResult]) -> RunVerdict:
    """Return `verdict` with causes added for missed and for unjudged thresholds. The gravest cause still decides."""
    return run_verdict((*verdict.causes, *thresholds.causes(results)), verdict.remarks)
