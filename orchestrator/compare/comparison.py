"""Compare two runs cell by cell: NOT COMPARABLE, INCONCLUSIVE, or the verdict of stats/two_runs.py. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from statistics import median
from typing import Final

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
SESSIONS: Final = (
    "one session a side: what changes from reboot to reboot and from day to day is in none of the intervals"
)


class ComparedCell(Part, frozen=True, kw_only=True):
    """A compared cell. ratio: of the rates, second over first, with 95 % (low, high) and 90 % intervals.

    before, after: medians over the launches. p: after Holm over the cells. reason: the fact that differs, or the doubt.
    launches_needed: per side for a verdict; null if none, or if 100 would not suffice (needed_beyond).
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


class LoneCell(Part, frozen=True, kw_only=True):
    """A cell without a partner in the other run. why: where the other run has it; "" if nowhere."""

    cell: str
    model_name: str
    gpu: str
    why: str


class StackChange(Part, frozen=True, kw_only=True):
    """A stack fact that differs. Null where it is unknown."""

    name: str
    before: str | None
    after: str | None


class Mean(Part, frozen=True, kw_only=True):
    """Geometric mean of the ratios."""

    ratio: float
    low: float | None
    high: float | None
    cells: int


class Comparison(Part, frozen=True, kw_only=True):
    """Two compared runs. before, after: their names as given; label_*: with id and date. title: what changed.

    runs_before, runs_after: ids; of a baseline all of its runs. only_*: cells without a partner.
    unheld: devices of the second run without a cell in the baseline.
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
    mean: Mean | None
    only_before: tuple[LoneCell, ...]
    only_after: tuple[LoneCell, ...]
    notes: tuple[str, ...]
    against_baseline: bool
    unheld: tuple[str, ...]


def compare(before: Side, after: Side, margins: Margins, percent: float | None = None) -> Comparison:
    """Compare `after` with `before`. percent: margin of every cell instead of configs/margins.yaml."""
    found = pairing.beside(before, after)
    places = found.pairs
    reasons = [cell_facts.difference(*pair) for pair in places]
    compared = [pair for pair, reason in zip(places, reasons, strict=True) if not reason]
    names = keys.names(one.cell.key for one in [*(first for first, _ in places), *found.only_before, *found.only_after])
    pairs = [_pair(one, other, margins, percent) for one, other in compared]
    doubts = [cell_facts.doubt(*pair) for pair in compared]
    # What gets no verdict is no test either: it neither lends its variance nor counts for Holm.
    sound = [pair for pair, doubt in zip(pairs, doubts, strict=True) if not doubt]
    judged = iter(two_runs.judge(sound))
    told = iter(
        _compared(pair, names, rates, next(judged) if not doubt else None, doubt)
        for pair, rates, doubt in zip(compared, pairs, doubts, strict=True)
    )
    cells = tuple(
        next(told) if not reason else _cell(*pair, names, ChangeVerdict.NOT_COMPARABLE, reason)
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
            StackChange(name=one.name, before=one.before or None, after=one.after or None) for one in changes
        ),
        cells=cells,
        counts=dict(Counter(cell.verdict for cell in cells)),
        mean=_mean(pairs),
        only_before=tuple(_lone(found.only_before, names, Other(after, is_first=False))),
        only_after=tuple(_lone(found.only_after, names, Other(before, is_first=True))),
        notes=tuple(_notes(before, after, found, changes, cells, boards=percent is None and _boards(compared))),
        against_baseline=before.is_baseline,
        unheld=tuple(device.label for device in found.alone_after) if before.is_baseline else (),
    )


def exit_code(comparisons: Sequence[Comparison], fail_on: Collection[ChangeVerdict]) -> ExitCode:
    """Return MISSED for a verdict of fail_on, INCOMPLETE without any verdict, else PASSED.

    A cell of the first run or a device without a partner is NOT COMPARABLE. New cells are allowed.
    """
    codes = {_exit_code(one, fail_on) for one in comparisons}
    return next((code for code in (ExitCode.MISSED, ExitCode.INCOMPLETE) if code in codes), ExitCode.PASSED)


def _exit_code(one: Comparison, fail_on: Collection[ChangeVerdict]) -> ExitCode:
    seen = {verdict for verdict, number in one.counts.items() if number}
    if one.only_before or one.unheld:
        seen.add(ChangeVerdict.NOT_COMPARABLE)
    if seen & set(fail_on):
        return ExitCode.MISSED
    return (
        ExitCode.PASSED
        if seen & {ChangeVerdict.FASTER, ChangeVerdict.SLOWER, ChangeVerdict.SAME}
        else ExitCode.INCOMPLETE
    )


def _pair(before: Place, after: Place, margins: Margins, percent: float | None) -> Pair:
    return Pair(
        before=before.cell.rates,
        after=after.cell.rates,
        margin=_margin(before, after, margins) if percent is None else percent / 100,
    )


def _margin(before: Place, after: Place, margins: Margins) -> float:
    """Return the margin, on another board with the spread between boards added."""
    key = before.cell.key
    share = (margins.runs.end_to_end if WORKLOADS[key.phase].end_to_end else margins.runs.cell).share
    if before.device.gpu_uuid == after.device.gpu_uuid:
        return share
    if work(key) is not Work.COMPUTE:
        return share + margins.siblings.bandwidth.share
    capped = before.cell.power_capped or after.cell.power_capped
    return share + (margins.siblings.power if capped else margins.siblings.clock).share


def _compared(pair: tuple[Place, Place], names: _Names, rates: Pair, judged: Judged | None, doubt: str) -> ComparedCell:
    unwatched = cell_facts.unwatched(*pair)
    if judged is None:
        judged = two_runs.without_verdict(rates, two_runs.LEAST_LAUNCHES if doubt == cell_facts.ONE_LAUNCH else 0)
    elif unwatched and judged.verdict is not ChangeVerdict.SLOWER:
        judged = replaced(judged, verdict=ChangeVerdict.INCONCLUSIVE, wanted=0)
    return replace(
        _cell(*pair, names, judged.verdict, doubt or unwatched),
        margin_percent=rates.margin * 100,
        ratio=judged.ratio,
        low=judged.low,
        high=judged.high,
        low_90=judged.low_90,
        high_90=judged.high_90,
        p=judged.p,
        launches_needed=judged.wanted or None,
        needed_beyond=judged.wanted is None,
    )


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
    )


def _lone(places: Sequence[Place], names: _Names, other: Other) -> Iterator[LoneCell]:
    for place in places:
        key = place.cell.key
        yield LoneCell(cell=names[key], model_name=key.model_name, gpu=place.device.label, why=other.why(place))


def _boards(compared: Sequence[tuple[Place, Place]]) -> bool:
    return any(
        one.device.gpu_uuid != other.device.gpu_uuid and other.device.kind != DeviceKind.CPU for one, other in compared
    )


def _mean(pairs: Sequence[Pair]) -> Mean | None:
    found = two_runs.together(pairs)
    return None if found is None else Mean(ratio=found.ratio, low=found.low, high=found.high, cells=found.cells)


def _title(changes: Sequence[Change]) -> str:
    words = [change.words for change in changes if change.name != "board"]
    boards = sum(change.name == "board" for change in changes)
    if boards:
        words.append("another board" if boards == 1 else f"{boards} other boards")
    return ", ".join(words) or "nothing of the stack differs"


def _notes(
    before: Side,
    after: Side,
    found: Beside,
    changes: Sequence[Change],
    cells: Sequence[ComparedCell],
    *,
    boards: bool,
) -> Iterator[str]:
    if len({change.name for change in changes}) > 1:
        yield "several facts of the stack differ: what is seen is their joint effect"
    if before.run_ids != after.run_ids and (both := before.run_ids & after.run_ids):
        yield f"both were made of {', '.join(sorted(both))}: its cells are compared with themselves"
    yield from (f"{side.name} ended as {side.ended}" for side in (before, after) if side.ended)
    for side, other, alone in ((before, after, found.alone_before), (after, before, found.alone_after)):
        if names := ", ".join(device.label for device in alone[:8]):
            have = "has" if len(alone) == 1 else "have"
            yield f"{plural(len(alone), 'device')} of {side.name} {have} no partner in {other.name}: {names}"
    if boards:
        yield "other boards of the same model: what healthy boards differ by was added to the margin"
    if any(cell.p is not None for cell in cells):
        yield SESSIONS
