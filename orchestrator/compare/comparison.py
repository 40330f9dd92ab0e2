"""Two runs, cell by cell: what is said of each, and of all together. Pure.

Side, Side ── pairs ─┬─ an identity fact differs ──────────▶ NOT COMPARABLE
                     ├─ something stands against a verdict ─▶ INCONCLUSIVE, with the ratio and the reason
                     └─ stats/two_runs.py ─────────────────▶ FASTER | SLOWER | SAME | INCONCLUSIVE
                          └─ nobody watched for throttling ▶ SLOWER | INCONCLUSIVE, with that as the reason
"""

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
    """One cell. cell: its name, like that of no other cell of a device: "resnet50 training bf16 b64 solo".

    ratio: of the rates, the second over the first; low, high: its 95 % interval; low_90, high_90: 90 %.

    before, after: medians over the launches, in the unit of the metric. margin_percent: what was counted as the same.
    p: after Holm over the cells. reason: the fact that differs, or what stands against a verdict; empty else.
    launches_needed: a side, for a verdict; null where none is needed, or a hundred would not do (needed_beyond).
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
    """A cell of one run without a partner in the other. gpu: the label of its device.

    why: where the other has it, or in which mode; empty where that has not measured it at all.
    """

    cell: str
    model_name: str
    gpu: str
    why: str


class StackChange(Part, frozen=True, kw_only=True):
    """A fact of the stack that differs. Null where it is unknown on that side."""

    name: str
    before: str | None
    after: str | None


class Mean(Part, frozen=True, kw_only=True):
    """The geometric mean of the ratios of all cells that compare, with its 95 % interval where there is one."""

    ratio: float
    low: float | None
    high: float | None
    cells: int


class Comparison(Part, frozen=True, kw_only=True):
    """Two runs. title: what changed. only_before, only_after: cells that have no partner in the other run.

    before, after: what people called them; label_before, label_after: with id and date, for whoever keeps this.
    runs_before, runs_after: the id of each, and of a baseline of all runs that it was made of.
    against_baseline: the first is a baseline, whose cells stand beside those of every device of the second.
    unheld: devices of the second of which it has no cell, so that they were held against nothing.
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
    """Hold `after` against `before`. percent: the margin of every cell, in place of those of configs/margins.yaml."""
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
    """The gravest over the comparisons: 1 for a verdict that is not allowed, 4 where one said nothing, else 0.

    A cell of the first run, or a device beside a baseline, without a partner is NOT COMPARABLE. A new cell is no loss.
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
    """Of another board of the same model, the spread between boards joins the margin."""
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
    """Whether any cell is compared on another GPU of the same model."""
    return any(
        one.device.gpu_uuid != other.device.gpu_uuid and other.device.kind != DeviceKind.CPU for one, other in compared
    )


def _mean(pairs: Sequence[Pair]) -> Mean | None:
    found = two_runs.together(pairs)
    return None if found is None else Mean(ratio=found.ratio, low=found.low, high=found.high, cells=found.cells)


def _title(changes: Sequence[Change]) -> str:
    """What changed, in a line. Several boards are one change."""
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
