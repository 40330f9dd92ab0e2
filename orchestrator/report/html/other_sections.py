"""The chapters that a run has for a reason: a burn-in, thresholds and costs; and what its processes cost."""

from collections.abc import Iterator
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.comparisons import Met
from orchestrator.figures.parts import LaunchLedger
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.report.html.overview import TONES
from orchestrator.report.html.page_types import (
    Badge,
    Chart,
    Column,
    Entry,
    Finding,
    Section,
    Table,
    Tone,
    numbers,
    table,
    texts,
)
from orchestrator.report.html.plots import Bars, Kind, Series
from orchestrator.report.numbers import number
from orchestrator.report.text_burn_in import asked, columns_of, evidence, gravest_first, meaning, not_tested
from orchestrator.report.text_comparisons import actual, cell, cost_row, gravity, names, priced
from orchestrator.report.text_gpus import label_of
from orchestrator.report.text_injected import injected
from orchestrator.report.text_time import entry, launch_cost, ledgers_of, zygote

_MET: Final = {Met.MET: Tone.GOOD, Met.MISSED: Tone.BAD, Met.NOT_MEASURED: Tone.WARN}


def burn_in(report: Report) -> Section | None:
    """What each GPU did in the night, its verdict, every reason and the evidence; None for a run that was none."""
    night = report.burn_in
    if night is None:
        return None
    titles, *told = zip(*columns_of(night, report), strict=True)
    each: list[tuple[Entry, ...]] = [
        (who, Badge(gpu.verdict, TONES[gpu.verdict]), *rest)
        for gpu, (who, _, *rest) in zip(night.gpus, told, strict=True)
    ]
    columns = tuple(Column(title, number=place > 1) for place, title in enumerate(titles))
    findings = tuple(
        Finding(
            Badge(gpu.verdict, TONES[gpu.verdict]),
            f"{label_of(gpu.gpu_uuid, report)}" + (f": {gpu.action}" if gpu.action is not Action.NOTHING else ""),
            tuple(dict.fromkeys(f"{reason.verdict}: {reason.text}" for reason in gpu.reasons)),
            opened=True,
        )
        for gpu in gravest_first(night)
        if gpu.reasons
    )
    stands_on = {
        "What was checked": tuple(evidence(night)),
        "What was not tested": tuple(not_tested(night)),
        "What was injected": tuple(injected(night)),
    }
    findings += tuple(Finding(None, title, lines, opened=True) for title, lines in stands_on.items() if lines)
    words = (f"{asked(night)}.", meaning(night))
    return Section("burn-in", "Burn-in", words, tables=(table("Each device", columns, each),), findings=findings)


def held_against(report: Report) -> Section | None:
    """Thresholds, the gravest first, and costs; None where neither was asked for."""
    tables = tuple(_held(report))
    return Section("held-against", "Thresholds and costs", tables=tables) if tables else None


def _held(report: Report) -> Iterator[Table]:
    called = names(report)
    if report.thresholds:
        header = (*texts("Threshold", "Cell"), *numbers("Target", "Actual"), *texts("Status", "Why"))
        rows: list[tuple[Entry, ...]] = [
            (
                *(one.threshold, cell(one, called), one.target, actual(one)),
                Badge(one.status, _MET[one.status]),
                one.note,
            )
            for one in sorted(report.thresholds, key=gravity)
        ]
        yield table("Thresholds", header, rows)
    if report.costs:
        header = (*texts("Cell", "A million"), *numbers("Price", "Energy"))
        note = " ".join(priced(report))
        yield table("Costs", header, [cost_row(one, called) for one in report.costs], note)


def overhead(report: Report) -> Section | None:
    """What running each cell in a process of its own cost; None where no cell with figures was measured."""
    found = ledgers_of(report)
    if not found:
        return None
    entries = [name for name in LaunchLedger.__struct_fields__ if name != "overhead_ms"]
    names = (*entries, "overhead_ms")
    rows = [(_words(name), *(number(entry(ledgers, name)) for ledgers in found.values())) for name in names]
    series = tuple(Series(_words(name), tuple(entry(ledgers, name) for ledgers in found.values())) for name in entries)
    words = (
        f"Loading, warm-up and measuring aside, a launch cost {launch_cost(found)} (isolation "
        f"{report.overhead.isolation}).",
        *zygote(report),
    )
    chart = Chart(
        "overhead",
        "Where the time of a launch goes",
        Kind.STACKED,
        f"Medians over {plural(sum(map(len, found.values())), 'cell')}, in milliseconds, by what was done.",
        (Bars("launch", "ms", tuple(found), series),),
        table("Time of a launch, ms", (*texts("Part"), *numbers(*found)), rows),
    )
    return Section("overhead", "Time beside measuring", words, (chart,), wide=True)


def _words(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")
