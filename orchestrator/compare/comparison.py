"""Compare two runs cell by cell (model and configuration): NOT COMPARABLE, or a verdict of stats/two_runs.py. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from statistics import geometric_mean, median
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from orchestrator.analysis.sibling_cells import work
from orchestrator.compare import cell_facts, pairing
from orchestrator.compare.cell_facts import Change, Place
from orchestrator.compare.pairing import Beside
from orchestrator.compare.run_figures import Side
from orchestrator.compare.unpaired_cells import Other
from orchestrator.config.margins import Margins
from orchestrator.config.naming import plural
from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures import keys
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import Part
from orchestrator.stats import two_runs
from orchestrator.stats.sibling_reasons import Work
from orchestrator.stats.two_runs import ChangeVerdict, Judged, Pair
from protocol.cell import DeviceKind
from protocol.exit_codes import ExitCode

_Names = Mapping[CellKey, str]
FAIL_ON: Final = frozenset({ChangeVerdict.WRONG, ChangeVerdict.SLOWER, ChangeVerdict.PROBABLY_SLOWER})
MISSING: Final = "missing cells"
REGRESSIONS: Final = frozenset({ChangeVerdict.WRONG, ChangeVerdict.SLOWER, ChangeVerdict.PROBABLY_SLOWER})
UNJUDGED: Final = frozenset({ChangeVerdict.PROBABLY_SLOWER, ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE})


class SessionSpread(NamedTuple):
    """How much the mean of a cell varies between runs on one machine: standard deviations as shares of the mean.

    device, host: of cells limited by the device, and by the host. runs: number of runs learned from; 0 for defaults.
    """

    device: float
    host: float
    runs: int = 0


class ComparedCell(Part, frozen=True, kw_only=True):
    """A compared cell. ratio: rate of the second run / rate of the first (above 1: the second run is faster).

    low, high: 95 % interval of the ratio; low_90, high_90: 90 % interval. gpu_before, gpu_after: label of the device in
    each run, "GPU 0". before, after: the figure `metric` of each run, a median over the launches; null without a
    result. margin_percent: tolerated change; null if not compared. p: p-value of a change beyond this margin,
    Holm-corrected over the cells. launches_before, launches_after: numbers of launches with this figure. cell: name for
    people. phase: workload. mode: "solo" or "loaded". reason: why the cells are not comparable, or a remark on the
    verdict. launches_needed: launches that each run needs for a verdict. It is null if the verdict is not INCONCLUSIVE,
    if more launches do not help, or if 100 would not suffice; needed_beyond is true only in the last case.
    excluded_percent: a larger slow-down is excluded with 95 % confidence; null unless SAME or NO CHANGE SEEN.
    implementation, shape: of operators and studies, else "". time: which time of an operator, such as "pure" (without
    the host), else "". figures: figures without a verdict, such as "p95, ms" → values in both runs.
    """

    cell: str
    model_name: str
    phase: str
    precision: str
    mode: str
    input_size: int | None
    batch_size: int
    gpu_before: str
    gpu_after: str
    metric: str
    verdict: ChangeVerdict
    reason: str
    before: float | None
    after: float | None
    launches_before: int
    launches_after: int
    margin_percent: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    low_90: float | None = None
    high_90: float | None = None
    p: float | None = None
    launches_needed: int | None = None
    needed_beyond: bool = False
    excluded_percent: float | None = None
    implementation: str = ""
    shape: str = ""
    time: str = ""
    figures: dict[str, tuple[float | None, float | None]] = msgspec.field(default_factory=dict)

    @property
    def must_be_judged(self) -> bool:
        """Whether the cell must get a verdict: the first run has a result for it."""
        return self.before is not None


class LoneCell(Part, frozen=True, kw_only=True):
    """A cell that one run has alone. why: the device or mode (solo, loaded) in which the other run has it, or "".

    cell: name for people. gpu: label of the device, "GPU 0".
    """

    cell: str
    model_name: str
    gpu: str
    why: str


class StackChange(Part, frozen=True, kw_only=True):
    """A version or setting of software, host or device that differs between runs.

    before, after: null if not set (variables), adaptive (iterations) or unknown.
    """

    name: str
    before: str | None
    after: str | None


class Mean(Part, frozen=True, kw_only=True):
    """Geometric mean of the ratios of a workload's cells but those NOT COMPARABLE or WRONG. Above 1: second run faster.

    phase: the workload. low, high: 95 % interval of `ratio`; null if unknown. cells: number of these cells. verdict:
    SLOWER or FASTER as a whole; null if neither.
    """

    phase: str
    ratio: float
    low: float | None
    high: float | None
    cells: int
    verdict: ChangeVerdict | None = None


class Comparison(Part, frozen=True, kw_only=True):
    """Two compared runs. before, after: names as given; label_*: names with id and date.

    title: `changes` as text, such as "torch 2.7 -> 2.8". runs_before, runs_after: ids of the run, or of all runs of a
    baseline. counts: verdict → number of cells. means: one for each workload. only_*: cells without a partner.
    notes: sentences on limits of the comparison. unheld: devices of the second run without a cell in the baseline.
    against_baseline: whether the first run is a baseline.
    """

    before: str
    after: str
    label_before: str
    label_after: str
    runs_before: tuple[str, ...]
    runs_after: tuple[str, ...]
    title: str
    changes: tuple[StackChange, ...]
    cells: tuple[ComparedCell, ...]
    counts: dict[ChangeVerdict, int]
    means: tuple[Mean, ...]
    only_before: tuple[LoneCell, ...]
    only_after: tuple[LoneCell, ...]
    notes: tuple[str, ...]
    against_baseline: bool
    unheld: tuple[str, ...]


def compare(
    before: Side,
    after: Side,
    margins: Margins,
    percent: float | None = None,
    session: SessionSpread | None = None,
    *,
    named: Mapping[CellKey, str] = MappingProxyType({}),
) -> Comparison:
    """Compare the run `after` with the run or baseline `before`. percent: margin of every cell in place of `margins`.

    session: spread between runs of a machine, in place of that of `margins`. named: key of a cell → name to show.
    """
    found = pairing.beside(before, after)
    places = found.pairs
    reasons = [cell_facts.difference(*pair) for pair in places]
    compared = [pair for pair, reason in zip(places, reasons, strict=True) if not reason]
    of_keys = keys.names(
        one.cell.key for one in [*(first for first, _ in places), *found.only_before, *found.only_after]
    )
    names = {**of_keys, **named}
    spread = session or SessionSpread(margins.runs.session.device.share, margins.runs.session.host.share)
    pairs = [_pair(one, other, margins, percent, spread) for one, other in compared]
    judged = iter(
        _compared(pair, names, rates, verdict)
        for pair, rates, verdict in zip(compared, pairs, two_runs.judge(pairs), strict=True)
    )
    cells = tuple(
        next(judged) if not reason else _not_comparable(pair, names, reason)
        for pair, reason in zip(places, reasons, strict=True)
    )
    changes = tuple(cell_facts.changes(before, after, found.devices))
    return Comparison(
        before=before.name,
        after=after.name,
        label_before=before.label,
        label_after=after.label,
        runs_before=tuple(sorted(before.run_ids)),
        runs_after=tuple(sorted(after.run_ids)),
        title=_title(changes),
        changes=tuple(
            StackChange(name=change.name, before=change.before or None, after=change.after or None)
            for change in changes
        ),
        cells=cells,
        counts=dict(Counter(cell.verdict for cell in cells)),
        means=tuple(_means(compared, pairs)),
        only_before=tuple(_lone(found.only_before, names, Other(after, before, is_first=False))),
        only_after=tuple(_lone(found.only_after, names, Other(before, after, is_first=True))),
        notes=tuple(_notes(before, after, found, changes, spread, boards=percent is None and _boards(compared))),
        against_baseline=before.is_baseline,
        unheld=tuple(device.label for device in found.alone_after) if before.is_baseline else (),
    )


def exit_code(comparisons: Sequence[Comparison], fail_on: Collection[ChangeVerdict]) -> ExitCode:
    """Return MISSED if `failing` finds anything, else INCOMPLETE or PASSED. fail_on: verdicts that fail the comparison.

    INCOMPLETE if one of these is true of any comparison:

        no compared cell has a result in the first run
        a compared cell with such a result is PROBABLY SLOWER, INCONCLUSIVE or NOT COMPARABLE
        a cell with a result in the first run has no partner
        a device of the second run has no cell in the baseline
    """
    if failing(comparisons, fail_on):
        return ExitCode.MISSED
    return ExitCode.PASSED if all(map(_all_judged, comparisons)) else ExitCode.INCOMPLETE


def failing(comparisons: Sequence[Comparison], fail_on: Collection[ChangeVerdict]) -> list[str]:
    """Return the verdicts in `fail_on` that a cell or a mean has, each once; empty if nothing fails.

    Cells without a result in the first run do not count. If NOT COMPARABLE is in `fail_on`, and a cell of the first run
    has no partner, or a device has no cell in the baseline, "missing cells" is one of the verdicts.
    """
    found = {
        verdict
        for comparison in comparisons
        for verdict in (*_judgements(comparison), *(mean.verdict for mean in comparison.means))
    }
    missing = ChangeVerdict.NOT_COMPARABLE in fail_on and any(map(_lacks_cells, comparisons))
    return [*(verdict for verdict in ChangeVerdict if verdict in found & set(fail_on)), *([MISSING] if missing else [])]


def _all_judged(comparison: Comparison) -> bool:
    found = _judgements(comparison)
    return bool(found) and not found & UNJUDGED and not _lacks_cells(comparison)


def _judgements(comparison: Comparison) -> set[ChangeVerdict]:
    return {cell.verdict for cell in comparison.cells if cell.must_be_judged}


def _lacks_cells(comparison: Comparison) -> bool:
    return bool(comparison.only_before or comparison.unheld)


def _pair(before: Place, after: Place, margins: Margins, percent: float | None, session: SessionSpread) -> Pair:
    host = cell_facts.measures_host(before, after)
    return Pair(
        before=before.cell.rates,
        after=after.cell.rates,
        margin=_margin(before, after, margins) if percent is None else percent / 100,
        prior=margins.runs.launch.of(host=host),
        session=session.host if host else session.device,
        trusted=not cell_facts.doubt(before, after),
    )


def _margin(before: Place, after: Place, margins: Margins) -> float:
    """Return the tolerated slow-down as a share. Between two boards it includes the spread between boards."""
    key = before.cell.key
    share = (margins.runs.end_to_end if WORKLOADS[key.phase].end_to_end else margins.runs.cell).share
    if before.device.gpu_uuid == after.device.gpu_uuid:
        return share
    if work(key) is not Work.COMPUTE:
        return share + margins.siblings.bandwidth.share
    capped = before.cell.power_capped or after.cell.power_capped
    return share + (margins.siblings.power if capped else margins.siblings.clock).share


def _compared(pair: tuple[Place, Place], names: _Names, rates: Pair, judged: Judged) -> ComparedCell:
    unwatched = cell_facts.unwatched(*pair)
    if unwatched and judged.verdict not in FAIL_ON:
        judged = replaced(judged, verdict=ChangeVerdict.INCONCLUSIVE, wanted=0)
    remarks = (cell_facts.doubt(*pair), cell_facts.few_launches(*pair), unwatched)
    excluded = judged.verdict in (ChangeVerdict.SAME, ChangeVerdict.NO_CHANGE) and judged.low is not None
    return replace(
        _cell(*pair, names, judged.verdict, ", ".join(filter(None, remarks))),
        margin_percent=rates.margin * 100,
        ratio=judged.ratio,
        low=judged.low,
        high=judged.high,
        low_90=judged.low_90,
        high_90=judged.high_90,
        p=judged.p,
        launches_needed=judged.wanted or None,
        needed_beyond=judged.wanted is None,
        excluded_percent=(1 - judged.low) * 100 if excluded and judged.low is not None else None,
    )


def _not_comparable(pair: tuple[Place, Place], names: _Names, reason: str) -> ComparedCell:
    """Return a cell without a verdict on its speed: WRONG if only the second result is wrong, else NOT COMPARABLE.

    pair: the cell in the first and in the second run. names: key of a cell → name to show. reason: why it is NOT
    COMPARABLE.
    """
    before, after = pair
    if after.cell.wrong and before.cell.values and not before.cell.wrong:
        return _cell(*pair, names, ChangeVerdict.WRONG, after.cell.wrong)
    cell = _cell(*pair, names, ChangeVerdict.NOT_COMPARABLE, reason)
    if not cell_facts.is_same_work(*pair):
        return cell
    return replace(cell, ratio=geometric_mean(after.cell.rates) / geometric_mean(before.cell.rates))


def _cell(before: Place, after: Place, names: _Names, verdict: ChangeVerdict, reason: str) -> ComparedCell:
    key = before.cell.key
    return ComparedCell(
        cell=names[key],
        model_name=key.model_name,
        phase=key.phase,
        precision=key.precision,
        mode=key.mode,
        input_size=key.input_size,
        batch_size=key.batch_size,
        gpu_before=before.device.label,
        gpu_after=after.device.label,
        metric=before.cell.metric,
        verdict=verdict,
        reason=reason,
        before=median(before.cell.values) if before.cell.values else None,
        after=median(after.cell.values) if after.cell.values else None,
        launches_before=len(before.cell.values),
        launches_after=len(after.cell.values),
        implementation=key.implementation,
        shape=key.shape,
        time=key.time,
        figures={
            name: (before.cell.figures.get(name), after.cell.figures.get(name))
            for name in {**before.cell.figures, **after.cell.figures}
        },
    )


def _lone(places: Sequence[Place], names: _Names, other: Other) -> Iterator[LoneCell]:
    for place in places:
        key = place.cell.key
        yield LoneCell(cell=names[key], model_name=key.model_name, gpu=place.device.label, why=other.why(place))


def _boards(compared: Sequence[tuple[Place, Place]]) -> bool:
    return any(
        one.device.gpu_uuid != other.device.gpu_uuid and other.device.kind != DeviceKind.CPU for one, other in compared
    )


def _means(compared: Sequence[tuple[Place, Place]], pairs: Sequence[Pair]) -> Iterator[Mean]:
    phases: dict[str, list[int]] = {}
    for index, (place, _) in enumerate(compared):
        phases.setdefault(place.cell.key.phase, []).append(index)
    found = two_runs.group_means([[pairs[index] for index in of_phase] for of_phase in phases.values()])
    for (phase, of_phase), one in zip(phases.items(), found, strict=True):
        unwatched = any(cell_facts.unwatched(*compared[index]) for index in of_phase)
        verdict = None if unwatched and one.verdict is ChangeVerdict.FASTER else one.verdict
        yield Mean(phase=phase, ratio=one.ratio, low=one.low, high=one.high, cells=one.cells, verdict=verdict)


def _title(changes: Sequence[Change]) -> str:
    words = [change.text for change in changes if change.name != "board"]
    boards = sum(change.name == "board" for change in changes)
    if boards:
        words.append("another board" if boards == 1 else f"{boards} other boards")
    return "; ".join(words) or "nothing of the stack differs"


def _notes(
    before: Side,
    after: Side,
    paired: Beside,
    changes: Sequence[Change],
    session: SessionSpread,
    *,
    boards: bool,
) -> Iterator[str]:
    if len({change.name for change in changes}) > 1:
        yield "several facts of the stack differ, so a change may be their joint effect"
    if before.run_ids != after.run_ids and (both := before.run_ids & after.run_ids):
        yield f"both sides contain the run {', '.join(sorted(both))}: its cells are compared with themselves"
    yield from (f"the run {side.name} itself ended with: {side.ended}" for side in (before, after) if side.ended)
    for side, other, alone in ((before, after, paired.alone_before), (after, before, paired.alone_after)):
        if names := ", ".join(device.label for device in alone[:8]):
            have = "has" if len(alone) == 1 else "have"
            yield f"{plural(len(alone), 'device')} of {side.name} {have} no partner in {other.name}: {names}"
    if boards:
        yield "other boards of the same model: the usual difference between healthy boards was added to the margin"
    if session.runs:
        spread = f"{session.device * 100:.2g} % ({session.host * 100:.2g} % where the host is the limit)"
        yield f"spread between sessions: {spread}, learned from {session.runs} runs of this machine"
