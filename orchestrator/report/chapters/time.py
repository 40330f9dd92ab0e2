"""What running each cell in a process of its own cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from orchestrator.config.naming import plural
from orchestrator.figures.cells import CellReport
from orchestrator.figures.parts import LaunchLedger
from orchestrator.figures.report import Report
from orchestrator.report.charts import Bars, Kind, Series
from orchestrator.report.numbers import number
from orchestrator.report.sections import Chart, Section, numbers, table, texts

Ledgers = Mapping[str, Sequence[LaunchLedger]]


def time(report: Report) -> Section | None:
    """What a launch cost beside measuring; None where no cell with figures was measured."""
    found = ledgers_of(report)
    if not found:
        return None
    entries = [name for name in LaunchLedger.__struct_fields__ if name != "overhead_ms"]
    names = (*entries, "overhead_ms")
    rows = [(_words(name), *(number(entry(ledgers, name)) for ledgers in found.values())) for name in names]
    series = tuple(Series(_words(name), tuple(entry(ledgers, name) for ledgers in found.values())) for name in entries)
    summary = (
        f"Loading, warm-up and measuring aside, a launch cost {launch_cost(found)} (isolation "
        f"{report.overhead.isolation}). Start, import, context, build, count, record and teardown belong to that "
        "overhead.",
        *zygote(report),
    )
    chart = Chart(
        "overhead",
        "Where the time of a launch goes",
        Kind.STACKED,
        f"Medians over {plural(sum(map(len, found.values())), 'cell')}, in milliseconds, by what was done.",
        (Bars("launch", "ms", tuple(found), series),),
        "overhead",
    )
    of_parts = table("Medians, ms", (*texts("Part"), *numbers(*found)), rows, name="overhead")
    return Section("overhead", "Time beside measuring", summary, (chart,), (of_parts,), wide=True)


def _words(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def launch_cost(ledgers: Ledgers) -> str:
    """By workload: one median over all would be of a mixture."""
    medians = {phase: median(ledger.overhead_ms for ledger in found) for phase, found in ledgers.items()}
    words = [f"{number(medians[phase])} ms ({phase})" for phase in sorted(medians, key=lambda phase: medians[phase])]
    return words[0] if len(words) == 1 else f"from {words[0]} to {words[-1]}"


def zygote(report: Report) -> Iterator[str]:
    """What the shared start-up cost, and when it pays; nothing without one."""
    overhead = report.overhead
    if overhead.zygote_start_ms is None:
        return
    pays = overhead.pays_from_launches
    when = "does not pay" if pays is None else f"pays from {pays} launches on"
    yield f"The zygote took {number(overhead.zygote_start_ms)} ms to start, and {when} ({overhead.note})."


def ledgers_of(report: Report) -> dict[str, list[LaunchLedger]]:
    """Where the time of every measured cell's launches went, by workload."""
    found: dict[str, list[LaunchLedger]] = {}
    for phase, metric in _measured(report):
        if metric.ledger:
            found.setdefault(phase, []).append(metric.ledger)
    return found


def _measured(report: Report) -> Iterator[tuple[str, CellReport]]:
    """Every cell with its workload, workload by workload."""
    yield from (("load", result.load_metrics) for result in report.results if result.load_metrics)
    yield from (("inference", metric) for result in report.results for metric in result.inference_metrics.values())
    yield from (("training", metric) for result in report.results for metric in result.training_metrics.values())
    yield from (("generation", metric) for result in report.results for metric in result.generation_metrics.values())
    yield from (("probe", probe) for probe in report.probes)


def entry(ledgers: Iterable[LaunchLedger], name: str) -> float | None:
    """The median of one entry, in milliseconds; None where no launch has it."""
    known = [value for ledger in ledgers if (value := getattr(ledger, name)) is not None]
    return median(known) if known else None
