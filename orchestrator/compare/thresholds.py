"""Thresholds: limits from a file, each applied to each matching cell (a model or operator in one configuration).

A threshold is neither met nor missed in a cell that lacks its figure, or has a fault that makes it unusable.
"""

import enum
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from orchestrator.compare import cell_facts, limit_targets
from orchestrator.compare.baselines import Held
from orchestrator.compare.limit_targets import LIMITED, TARGETS, Cell
from orchestrator.config import yaml_file
from orchestrator.config.naming import plural
from orchestrator.config.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from orchestrator.figures.cells import Status
from orchestrator.figures.comparisons import Met, ThresholdResult
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.figures.keys import CellKey
from orchestrator.figures.operators import TimeName
from orchestrator.figures.parts import Part
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from protocol.cell import CompileMode, Mode, Precision, Workload

Count = Annotated[int, msgspec.Meta(ge=1)]
_SHOWS: Final = "`gpubench-orchestrate list-models` shows those that ship."
BLIND_BASELINE: Final = "throttling of the baseline unknown"
BLIND_SIBLINGS: Final = "throttling of its siblings unknown"
_BLIND: Final = {LimitName.OF_BASELINE: BLIND_BASELINE, LimitName.OF_SIBLINGS: BLIND_SIBLINGS}


class Bound(enum.StrEnum):
    """How a figure must compare with the limit of a threshold."""

    BELOW = "below"
    AT_MOST = "at_most"
    ABOVE = "above"
    AT_LEAST = "at_least"


_HOLDS: Final[Mapping[Bound, tuple[str, Callable[[float, float], bool]]]] = {
    Bound.BELOW: ("<", lambda actual, limit: actual < limit),
    Bound.AT_MOST: ("<=", lambda actual, limit: actual <= limit),
    Bound.ABOVE: (">", lambda actual, limit: actual > limit),
    Bound.AT_LEAST: (">=", lambda actual, limit: actual >= limit),
}


class Threshold(Part, frozen=True, kw_only=True):
    """A limit of one figure, in its unit: exactly one of `below`, `at_most`, `above` and `at_least` is set.

    It applies to cells of workload `phase` whose properties are in all tuples. An empty tuple allows every value.
    models: names of models or operators. implementations, shapes, times: only for operators. times: which time of a
    call, such as "pure" (on the device, without the host). samples_per_epoch: number of samples in an epoch, only for
    the figure epoch_time_s, else None.
    """

    name: str
    figure: LimitName
    phase: Workload
    below: float | None = None
    at_most: float | None = None
    above: float | None = None
    at_least: float | None = None
    models: tuple[str, ...] = ()
    batch_sizes: tuple[Count, ...] = ()
    precisions: tuple[Precision, ...] = ()
    implementations: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    times: tuple[TimeName, ...] = ()
    samples_per_epoch: Count | None = None

    @property
    def limit(self) -> tuple[Bound, float]:
        """The bound of the four that is set, and its value in the unit of the figure."""
        return next((bound, value) for bound in Bound if (value := getattr(self, bound)) is not None)

    def means(self, key: CellKey) -> bool:
        """Whether the threshold applies to a cell: the cell matches its phase and tuples, and can have its figure."""
        return (
            key.phase == self.phase
            and (not self.models or key.model_name in self.models)
            and (not self.batch_sizes or key.batch_size in self.batch_sizes)
            and (not self.precisions or key.precision in self.precisions)
            and (not self.implementations or key.implementation in self.implementations)
            and (not self.shapes or key.shape in self.shapes)
            and (not self.times or key.time in self.times)
            and (self.figure is not LimitName.OF_SOLO or key.mode == Mode.LOADED)
            and (self.figure is not LimitName.COLD_COMPILE or key.compile_mode != CompileMode.EAGER)
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: tuple[Threshold, ...]


def load(path: Path, models: Collection[str], probes: Collection[str]) -> tuple[Threshold, ...]:
    """Read a file of thresholds.

    Raises ConfigError with line and key for a threshold with a mistake or with a name that is not in `models`, and for
    a file without thresholds. probes: names for which the error says that thresholds do not apply to probes.
    """
    document = yaml_file.read(path)
    found = document.convert(_File).thresholds
    if not found:
        raise ConfigError(f"{path}: the file contains no threshold")
    for index, one in enumerate(found):
        problem = mistake(one) or pointless(one)
        if not problem and one.name in {other.name for other in found[:index]}:
            problem = f"{one.name} is given twice"
        if problem:
            raise ConfigError(f"{document.where(('thresholds', index))}: {problem}")
        for number, name in enumerate(one.models):
            if name not in models:
                where = document.where(("thresholds", index, "models", number))
                raise ConfigError(f"{where}: {_no_model(name, models, probes)}")
    return found


def _no_model(name: str, models: Collection[str], probes: Collection[str]) -> str:
    if name in probes:
        return f"{name} is a probe. A threshold applies to models only"
    return f"no model named '{name}'.{did_you_mean(name, models)} {_SHOWS}"


def mistake(threshold: Threshold) -> str:
    """Return what is wrong with a threshold whose fields have valid types; "" if nothing is."""
    given = [bound for bound in Bound if getattr(threshold, bound) is not None]
    if len(given) != 1:
        return f"expected one of {listed(Bound)}, got {listed(given, 'and') if given else 'none'}"
    if threshold.phase not in LIMITED:
        return f"phase: expected {listed(LIMITED)}, got {threshold.phase}"
    if threshold.phase is not Workload.OPERATOR and (threshold.implementations or threshold.shapes or threshold.times):
        return "only a threshold for operators may have implementations, shapes and times"
    if (threshold.figure is LimitName.EPOCH_TIME) != (threshold.samples_per_epoch is not None):
        return "epoch_time_s needs samples_per_epoch, and no other figure may have it"
    return ""


def pointless(threshold: Threshold) -> str:
    """Return why a valid threshold can never be missed, or never be judged; "" if neither is so."""
    return _another_phase(threshold) or _never_missed(threshold)


def _another_phase(threshold: Threshold) -> str:
    if threshold.phase in TARGETS[threshold.figure].phases:
        return ""
    there = [figure for figure, target in TARGETS.items() if threshold.phase in target.phases]
    phases = listed(TARGETS[threshold.figure].phases, "and")
    near = did_you_mean(threshold.figure, there)
    return f"{threshold.figure} is a figure of {phases}. Figures of {threshold.phase}: {listed(there, 'and')}.{near}"


def _never_missed(threshold: Threshold) -> str:
    bound, limit = threshold.limit
    target = TARGETS[threshold.figure].limit
    if not all(_HOLDS[bound][1](end, limit) for end in (target.least, target.most)):
        return ""
    ends = f"{target.least:g} or more" if math.isinf(target.most) else f"{target.least:g} to {target.most:g}"
    return f"{bound}: {limit:g} can never be missed, because {threshold.figure} is always {ends}. Choose another limit"


def judge(report: Report, thresholds: Sequence[Threshold], held: Held | None) -> Iterator[ThresholdResult]:
    """Yield the result of each threshold in each matching cell; one result without a cell if no cell matches.

    held: comparison of the report with a baseline; None without a baseline.
    """
    cells = list(limit_targets.cells(report, held)) if thresholds else []
    for threshold in thresholds:
        meant = [cell for cell in cells if threshold.means(cell.key)]
        if not meant:
            yield _result(threshold, None, None, "no cell of the run matches this threshold")
        for cell in meant:
            note = _why_not(threshold, cell)
            actual = None if note else TARGETS[threshold.figure].read(cell, threshold.samples_per_epoch)
            yield _result(threshold, cell, actual, note)


_COUNTS: Final = {
    Met.MISSED: (CauseKind.MISSED, "missed"),
    Met.NOT_MEASURED: (CauseKind.NOT_HELD, "could not be judged"),
}


def causes(results: Sequence[ThresholdResult]) -> Iterator[Cause]:
    """Yield one cause of the exit code for all missed thresholds, and one for all that could not be judged."""
    for status, (kind, words) in _COUNTS.items():
        found = [result for result in results if result.status is status]
        if found:
            names = list(dict.fromkeys(f'"{result.threshold}"' for result in found))
            cells = len({result.cell for result in found} - {None})
            of = f" ({plural(cells, 'cell')} concerned)" if cells else ""
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            text = f"{plural(len(names), 'threshold')} {words}{of}: {', '.join(names[:3])}{more}"
            yield Cause(kind=kind, text=f"{text}{_whys(found)}")


def _whys(results: Sequence[ThresholdResult]) -> str:
    notes = list(dict.fromkeys(result.note for result in results if result.actual is None))
    rest = len(notes) - 2
    more = [f"{plural(rest, 'more reason')} in the tables of the thresholds"] if rest > 0 else []
    reasons = "; ".join((*notes[:2], *more))
    return f". {'Reasons' if len(notes) > 1 else 'Reason'}: {reasons}" if notes else ""


def _why_not(threshold: Threshold, cell: Cell) -> str:
    metric = cell.metric
    if metric.status == Status.OK:
        return cell.advice if TARGETS[threshold.figure].limit.of_time else ""
    return f"ran at batch size {metric.batch_size}" if metric.degraded else f"no result: {metric.status}"


def _result(threshold: Threshold, cell: Cell | None, actual: float | None, note: str) -> ThresholdResult:
    bound, limit = threshold.limit
    sign, holds = _HOLDS[bound]
    unit = TARGETS[threshold.figure].limit.unit
    status = Met.NOT_MEASURED if actual is None else Met.MET if holds(actual, limit) else Met.MISSED
    return ThresholdResult(
        threshold=threshold.name,
        figure=threshold.figure,
        target=f"{sign} {limit:g} {unit}",
        actual=actual,
        unit=unit,
        status=status,
        note=note or (_doubt(threshold, cell, actual) if cell else ""),
        cell=cell.metric.cell if cell else None,
        gpu_id=cell.gpu.gpu_id if cell else None,
        gpu_uuid=cell.gpu.gpu_uuid if cell else None,
        model_name=cell.key.model_name if cell else None,
        phase=cell.key.phase if cell else None,
        precision=cell.key.precision if cell else None,
        batch_size=cell.key.batch_size if cell else None,
        implementation=(cell.key.implementation or None) if cell else None,
        shape=(cell.key.shape or None) if cell else None,
        time=(cell.key.time or None) if cell else None,
    )


def _doubt(threshold: Threshold, cell: Cell, actual: float | None) -> str:
    relative = cell.relative.get(threshold.figure)
    if actual is None:
        other = cell.metric.telemetry_note or "not among the figures of this cell"
        return other if relative is None else relative.why_not
    blind = _BLIND.get(threshold.figure, "") if relative is not None and relative.blind else ""
    unwatched = cell_facts.not_watched(cell.gpu.kind, cell.metric.throttled)
    return ", ".join(filter(None, (cell.fault, cell_facts.UNWATCHED if unwatched else "", blind)))
