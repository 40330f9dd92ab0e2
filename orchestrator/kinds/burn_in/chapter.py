"""The burn-in chapter of the report. GPUs with the same reasons share a finding."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Final

from orchestrator.analysis.root_cause import out_of_time
from orchestrator.config.naming import plural
from orchestrator.figures.burn_in import BurnInReport, CheckReport, Fate, GpuBurnIn, InjectedReport, ReasonReport
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import GRAVEST_FIRST
from orchestrator.report.chapters import health
from orchestrator.report.device_labels import groups, label_of, labels
from orchestrator.report.layout import Answer
from orchestrator.report.numbers import duration
from orchestrator.report.sections import MOST_ROWS, SHOWN_REASONS, Badge, Column, Finding, Rank, Section, Table
from protocol.cell import Workload

COLUMNS: Final = ("GPU", "Verdict", "Load", "Rounds", "Checks", "Wrong", "FLOP", "Max C", "W")
_PRIORITIES: Final = {"FLOP": 2, "Rounds": 1}
"""Columns that a narrow format drops. The JSON report has them."""
_LONGEST_TITLE: Final = 80
_MOST_AN_HOUR: Final = 1
"""Only bounds up to this many errors per hour are shown. No GPU in use makes more."""


def burn_in(report: Report) -> Section | None:
    """Return the burn-in chapter; None for another kind of run."""
    night = report.burn_in
    if night is None:
        return None
    titles, *rows = zip(*_columns_of(night, report), strict=True)
    columns = tuple(
        Column(title, number=place > 1, priority=_PRIORITIES.get(title, 0)) for place, title in enumerate(titles)
    )
    verdicts = [(who, health.badge(gpu.verdict), *rest) for gpu, (who, _, *rest) in zip(night.gpus, rows, strict=True)]
    return Section(
        "burn-in",
        "Burn-in",
        (f"{requested_time(night)}. {meaning(night)}",),
        tables=(Table("Burn-in", columns, tuple(verdicts), name="burn-in"),),
        findings=tuple(_findings(night, report)),
    )


def _findings(night: BurnInReport, report: Report) -> Iterator[Finding]:
    kinds = (f"{labels(group.devices)}: {group.shown.gpu_name}" for group in groups(report))
    yield from _finding("What was tested", "", kinds)
    alike: dict[tuple[ReasonReport, ...], list[GpuBurnIn]] = {}
    for gpu in sorted(night.gpus, key=lambda gpu: GRAVEST_FIRST.index(gpu.verdict)):
        alike.setdefault(gpu.reasons, []).append(gpu)
    for reasons, gpus in alike.items():
        if reasons:
            yield Finding(
                health.badge(gpus[0].verdict),
                _who(gpus, report),
                tuple(_reasons(reasons)),
                opened=True,
                listed=True,
                most=SHOWN_REASONS,
                ranks=(Rank.GRAVEST, Rank.MORE),
            )
    named = ((label_of(judged.gpu_uuid, report), judged.earlier) for judged in report.health.gpus)
    yield from _finding(
        "What earlier runs found", "earlier", (f"{who}: {earlier}" for who, earlier in named if earlier)
    )
    yield from _finding("What was injected", "injected", injected(night))
    yield from _finding("What was checked", "", evidence(night))
    planned = any(gpu.unfinished for gpu in night.gpus)
    untested = Rank.GRAVEST if planned else Rank.TOLD
    yield from _finding("What was not tested", "not tested", not_tested(night), untested, SHOWN_REASONS)
    yield from _finding("What the rates were judged by", "rates", _warming_up(night))
    yield from _finding("What the health signals say", "health", _health(report))
    yield from _finding("Launches without a result", "launches", _without_result(report))


def _finding(
    title: str, label: str, lines: Iterable[str], first: Rank = Rank.TOLD, most: int = MOST_ROWS
) -> Iterator[Finding]:
    told = tuple(lines)
    if told:
        yield Finding(None, title, told, opened=True, label=label, most=most, ranks=(first, Rank.TOLD))


def answer(report: Report) -> Answer | None:
    """Return the gravest verdict and its GPUs: "PASS: 3 of 3 GPUs", "FAIL: GPU 1 of 2"."""
    night = report.burn_in
    if night is None:
        return None
    gravest = {gpu.gpu_uuid for gpu in night.gpus if gpu.verdict is night.verdict}
    devices = [device for device in report.gpu_info if device.gpu_uuid in gravest]
    kind = "GPU" if all(device.kind == "cuda" for device in report.gpu_info) else "device"
    count = len(night.gpus)
    who = f"{count} of {plural(count, kind)}" if len(devices) == count else f"{labels(devices)} of {count}"
    injected = f", with faults injected{proven(night)}" if night.tainted else ""
    return Answer(Badge(f"{night.verdict}: {who}{injected}", health.TONES[night.verdict]), requested_time(night))


def profile(report: Report) -> str:
    """Return the profile of the run, for programs."""
    return report.test_configuration.profile if report.burn_in is None else f"burn-in, level {report.burn_in.level}"


def injected(night: BurnInReport) -> Iterator[str]:
    """Describe the injected faults, undetected ones first. Each line begins with its outcome, in case it is cut off."""
    told = [(_fate(one), one) for one in night.injected]
    for fate, one in sorted(told, key=lambda pair: list(Fate).index(pair[0])):
        yield f"{fate.upper()}: {one.fault}: {one.outcome.removeprefix(f'{fate}: ')}"


def proven(night: BurnInReport) -> str:
    """Return how many faults were injected and found, as a suffix of "injected on purpose"."""
    asked = len(night.injected)
    done = sum(_fate(one) is not Fate.UNDONE for one in night.injected)
    found = sum(one.found for one in night.injected)
    brought = f", {done} of {asked} BROUGHT ABOUT" if done < asked else ""
    if not done:
        return brought
    return f"{brought}, {found} of {done} found" if found == done else f"{brought}, NOT ALL FOUND: {found} of {done}"


def _fate(one: InjectedReport) -> Fate:
    return one.fate or (Fate.FOUND if one.found else Fate.MISSED)


def _columns_of(night: BurnInReport, report: Report) -> Iterator[tuple[str, ...]]:
    """Return title and values of each column. A column without values (temperature of a CPU) is dropped."""
    every = zip(COLUMNS, *(_row(gpu, report) for gpu in night.gpus), strict=True)
    return (column for column in every if any(column[1:]))


def meaning(night: BurnInReport) -> str:
    """Return what the verdicts prove."""
    if night.tainted:
        return f"Faults were injected on purpose{proven(night)}: this says nothing about the GPUs."
    return "PASS says that no error was seen in the checks below, never that there is none."


def _row(gpu: GpuBurnIn, report: Report) -> tuple[str, ...]:
    operations = sum(check.verified_operations for check in gpu.checks)
    return (
        label_of(gpu.gpu_uuid, report),
        gpu.verdict,
        short(gpu.under_load_seconds),
        str(gpu.rounds),
        f"{sum(check.checks for check in gpu.checks):,}",
        str(sum(check.mismatches for check in gpu.checks)),
        f"{operations:.1e}".replace("e+", "e"),
        "" if gpu.temperature_max_c is None else f"{gpu.temperature_max_c:.0f}",
        "" if gpu.average_power_draw_w is None else f"{gpu.average_power_draw_w:.0f}",
    )


def requested_time(night: BurnInReport) -> str:
    """Return the level, the requested time, and the shortest and longest time at work."""
    served = sorted(gpu.served_seconds for gpu in night.gpus)
    at_work = " to ".join(dict.fromkeys(duration(seconds) for seconds in (*served[:1], *served[-1:])))
    return f"Level {night.level}, {duration(night.duration_seconds)} asked for, {at_work} at work"


def short(seconds: float) -> str:
    """Return a duration that fits into a column: "42 s", "1:22 min", "12 min", "7:58 h"."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    if seconds < 600 and round(seconds) % 60:
        return f"{round(seconds) // 60}:{round(seconds) % 60:02} min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _who(gpus: Sequence[GpuBurnIn], report: Report) -> str:
    """Name these GPUs and the action; for a single GPU also serial and PCI address, as far as the line has room."""
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    alike = [devices[gpu.gpu_uuid] for gpu in gpus]
    todo = f": {gpus[0].action}" if gpus[0].action is not Action.NOTHING else ""
    board = {"serial": alike[0].serial, "at": alike[0].pci_address} if len(alike) == 1 else {}
    who = labels(alike)
    for fact in (f", {word} {fact}" for word, fact in board.items() if fact):
        who += fact if len(f"{gpus[0].verdict}: {who}{fact}{todo}") <= _LONGEST_TITLE else ""
    return f"{who}{todo}"


def _reasons(reasons: Sequence[ReasonReport]) -> Iterator[str]:
    told = Counter(f"{reason.verdict}: {reason.text}" for reason in reasons)
    return (text if count == 1 else f"{text} ({count} times)" for text, count in told.items())


def _warming_up(night: BurnInReport) -> Iterator[str]:
    soaks = [gpu.heat_soak for gpu in night.gpus if gpu.heat_soak is not None]
    if not soaks:
        return
    seconds = sorted(soak.left_out_seconds for soak in soaks if soak.left_out_seconds is not None)
    spans = dict.fromkeys(short(length) for length in (*seconds[:1], *seconds[-1:]))
    first = ["the first round"] if len(seconds) < len(soaks) else []
    left_out = " and ".join([*([" to ".join(spans)] if spans else []), *first])
    why = ", or ".join(dict.fromkeys(ending for soak in soaks for ending in soak.ended_because))
    yield f"judged without {left_out} of warming up, until {why}"


def _health(report: Report) -> Iterator[str]:
    """Return the health verdicts. The signals behind a WARN or FAIL are among the reasons."""
    told: dict[str, list[str]] = {}
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    for one in report.health.gpus:
        if one.applicable:
            told.setdefault(health.words(one), []).append(one.gpu_uuid)
    if not told:
        return
    parts = [f"{labels([devices[uuid] for uuid in uuids])}: {words}" for words, uuids in told.items()]
    yield "; ".join([*parts, f"the machine: {report.health.node.verdict}"])


def _without_result(report: Report) -> Iterator[str]:
    ended = sum(map(out_of_time, report.failures))
    if ended:
        yield f"ended by the time limit: {ended}"
    if failed := len(report.failures) - ended:
        yield f"without a result: {failed}; where their logs are is in the JSON report"


def evidence(night: BurnInReport) -> Iterator[str]:
    """Describe the checks, over all GPUs, and the rates of the links."""
    for kind in dict.fromkeys(check.check for gpu in night.gpus for check in gpu.checks):
        told = [check for gpu in night.gpus for check in gpu.checks if check.check == kind]
        wrong = sum(check.mismatches for check in told)
        transfers = night.wrong_transfers if kind == Workload.LINKS else wrong
        checks = sum(check.checks for check in told)
        found = f", {wrong:,} wrong" if wrong or transfers else _bound(told)
        if transfers != wrong:  # a copy may count against both ends, what follows from another one against none
            follow = ", some of which follow from others" if transfers > wrong else ""
            found += f" by device ({plural(transfers, 'wrong transfer')}{follow})"
        shares = [check.covered_share for check in told if check.covered_share is not None]
        moved = sum(check.verified_bytes for check in told) / 1e9
        least = "at least " if len(set(shares)) > 1 else ""
        covered = f", {moved:,.1f} GB, {least}{100 * min(shares):.0f} % of it covered" if shares else ""
        # A launch of links is shared by its devices.
        launches = sum(one.launches for one in (night.links if kind == Workload.LINKS else told))
        yield f"{kind}: {checks:,} checks in {plural(launches, 'launch', 'launches')}{covered}{found}"
    yield from _links(night)


def _bound(told: Sequence[CheckReport]) -> str:
    """Return the error rate that the least checked GPU excludes; per hour only after at least three hours."""
    each = [check.error_bound for check in told if check.error_bound is not None]
    hourly = [check.error_bound_per_hour for check in told if check.error_bound_per_hour is not None]
    if not each:
        return ""
    by_the_hour = f", {max(hourly):.2g} an hour" if hourly and max(hourly) <= _MOST_AN_HOUR else ""
    return f"; excluded with 95 %: errors > {max(each):.1e} a check{by_the_hour}"


def not_tested(night: BurnInReport) -> list[str]:
    """Return what was not tested and why, planned checks first. Checks with the same reason share a line."""
    unfinished = {what for gpu in night.gpus for what in gpu.unfinished}
    alike: dict[tuple[bool, str], set[str]] = {}
    for gpu in night.gpus:
        for what, why in gpu.not_tested.items():
            alike.setdefault((what not in unfinished, why), set()).add(what)
    told = sorted((impossible, f"{_joined(sorted(whats))}: {why}") for (impossible, why), whats in alike.items())
    return [words for _, words in told]


def _joined(names: Sequence[str]) -> str:
    """Join names and write their common first words once: "memory: pattern modulo 20, random"."""
    begin = commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 - cut back to whole words below
    begin = begin[: begin.rfind(" ") + 1]
    return begin + ", ".join(name.removeprefix(begin) for name in names)


def _links(night: BurnInReport) -> Iterator[str]:
    for one in night.links:
        rates = {
            "copies": one.copies_gb_per_second,
            "all-reduce": one.all_reduce_gb_per_second,
            "on the bus": one.all_reduce_bus_gb_per_second,
            "to the host": one.to_host_gb_per_second,
            "from the host": one.to_device_gb_per_second,
        }
        told = ", ".join(f"{what} {rate:.3g} GB/s" for what, rate in rates.items() if rate is not None)
        if told:
            among = f"links of {plural(len(one.gpu_uuids), 'device')}, {one.precision}"
            yield f"{among}, each: {told}; {one.connection}"
