"""The chapter of the time that launches (processes that measure) spend, such as on start-up and warm-up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.figures.parts import LaunchLedger
from orchestrator.figures.report import Report
from orchestrator.report.charts.types import Bars, Kind, Series
from orchestrator.report.numbers import number
from orchestrator.report.sections import Chart, Section, numbers, table, texts
from protocol.cell import Workload

Ledgers = Mapping[str, Sequence[LaunchLedger]]


def time(report: Report) -> Section | None:
    """Return the times (ms) of the parts of a launch, as medians over the cells of each workload; None if unknown."""
    found = _ledgers_of(report)
    if not found:
        return None
    entries = [
        name
        for name in LaunchLedger.__struct_fields__
        if name != "overhead_ms" and any(_entry(ledgers, name) for ledgers in found.values())
    ]
    names = (*entries, "overhead_ms")
    rows = [(_part_name(name), *(number(_entry(ledgers, name)) for ledgers in found.values())) for name in names]
    series = tuple(
        Series(_part_name(name), tuple(_entry(ledgers, name) for ledgers in found.values())) for name in entries
    )
    summary = (
        f"Besides loading, warm-up and measuring, a launch took {_launch_cost(found)} (isolation "
        f"{report.overhead.isolation}). This overhead is the sum of start, import, context, build, count, record and "
        "teardown.",
        *_zygote(report),
    )
    chart = Chart(
        "overhead",
        "Where the time of a launch goes",
        Kind.STACKED,
        f"Medians over {plural(sum(map(len, found.values())), 'cell')}, in milliseconds, for each part of a launch.",
        (Bars("launch", "ms", tuple(found), series),),
        "overhead",
    )
    of_parts = table("Medians, ms", (*texts("Part"), *numbers(*found)), rows, name="overhead")
    return Section("overhead", "Time besides measuring", summary, (chart,), (of_parts,), wide=True)


def _part_name(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def _launch_cost(ledgers: Ledgers) -> str:
    medians = {phase: median(ledger.overhead_ms for ledger in found) for phase, found in ledgers.items()}
    phases = sorted(medians, key=lambda phase: medians[phase])
    least, most = (f"{number(medians[phase])} ms" for phase in (phases[0], phases[-1]))
    return least if least == most else f"from {least} ({phases[0]}) to {most} ({phases[-1]})"


def _zygote(report: Report) -> Iterator[str]:
    overhead = report.overhead
    if overhead.zygote_start_ms is None:
        return
    pays = overhead.pays_from_launches
    saves = "no time" if pays is None else f"time in runs of {plural(pays, 'launch', 'launches')} or more"
    took = f"The zygote took {number(overhead.zygote_start_ms / 1000)} s to start. It saves {saves} ({overhead.note})."
    yield f"Launches are forked from the zygote, a process that has already imported torch. {took}"


def _ledgers_of(report: Report) -> dict[str, list[LaunchLedger]]:
    measured = [(key.phase, metric) for result in report.results for key, metric in keys.of_model(result)]
    measured += [(Workload.PROBE, probe) for probe in report.probes]
    found = {phase.value: [metric.ledger for of, metric in measured if of is phase] for phase in Workload}
    return {phase: known for phase, ledgers in found.items() if (known := list(filter(None, ledgers)))}


def _entry(ledgers: Iterable[LaunchLedger], name: str) -> float | None:
    known = [value for ledger in ledgers if (value := getattr(ledger, name)) is not None]
    return median(known) if known else None
