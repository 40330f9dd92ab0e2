"""The burn-in chapter of the report. GPUs with the same reasons share a finding."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Final

from orchestrator.analysis.root_cause import out_of_time
from orchestrator.config.naming import plural
from orchestrator.config.yaml_schema import listed
from orchestrator.figures.burn_in import (
    BurnInReport,
    CheckReport,
    Fate,
    GpuBurnIn,
    InjectedReport,
    ReasonReport,
)
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import GRAVEST_FIRST
from orchestrator.report.chapters import health
from orchestrator.report.device_labels import groups, label_of, labels
from orchestrator.report.numbers import duration
from orchestrator.report.sections import MOST_ROWS, SHOWN_REASONS, Badge, Column, Finding, Rank, Section, Table, Tone
from protocol.cell import Workload

COLUMNS: Final = ("GPU", "Verdict", "Load", "Rounds", "Compared", "Wrong", "FLOP", "Max C", "W")
_PRIORITIES: Final = {"FLOP": 2, "Rounds": 1}  # Columns that a narrow format drops. The JSON report has them
_LONGEST_TITLE: Final = 80
_MOST_AN_HOUR: Final = 1  # Only bounds up to this many errors per hour are shown. No GPU in use makes more


def burn_in(report: Report) -> Section | None:
    """Return the burn-in chapter; None for another kind of run."""
    result = report.burn_in
    if result is None:
        return None
    titles, *rows = zip(*_columns_of(result, report), strict=True)
    columns = tuple(
        Column(title, number=place > 1, priority=_PRIORITIES.get(title, 0)) for place, title in enumerate(titles)
    )
    verdicts = [(who, badge(gpu, result), *rest) for gpu, (who, _, *rest) in zip(result.gpus, rows, strict=True)]
    return Section(
        "burn-in",
        "Burn-in",
        (f"{requested_time(result)}. {meaning(result)}",),
        tables=(Table("Burn-in", columns, tuple(verdicts), name="burn-in"),),
        findings=tuple(_findings(result, report)),
    )


def _findings(result: BurnInReport, report: Report) -> Iterator[Finding]:
    kinds = (f"{labels(group.devices)}: {group.shown.gpu_name}" for group in groups(report))
    yield from _finding("What was tested", "", kinds)
    alike: dict[tuple[ReasonReport, ...], list[GpuBurnIn]] = {}
    for gpu in sorted(result.gpus, key=lambda gpu: GRAVEST_FIRST.index(gpu.verdict)):
        alike.setdefault(gpu.reasons, []).append(gpu)
    for reasons, gpus in alike.items():
        if reasons:
            yield Finding(
                badge(gpus[0], result),
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
    yield from _finding("What was injected", "injected", injected(result), Rank.GRAVEST)
    yield from _finding("What was checked", "", evidence(result, _tested_memory(report)))
    planned = any(gpu.unfinished for gpu in result.gpus)
    untested = Rank.GRAVEST if planned else Rank.TOLD
    yield from _finding("What was not tested", "not tested", not_tested(result, report), untested, SHOWN_REASONS)
    yield from _finding("What was not decided", "not decided", not_decided(result, report), Rank.GRAVEST, SHOWN_REASONS)
    yield from _finding("What the rates were judged by", "rates", _warming_up(result))
    yield from _finding("What the health signals say", "health", _health(report))
    yield from _finding("Launches without a result", "launches", _without_result(report))


def badge(gpu: GpuBurnIn, result: BurnInReport) -> Badge:
    """Return the badge of the verdict on a GPU. After injected faults it is "TEST FAIL" or the like, without colour."""
    return Badge(f"TEST {gpu.verdict}", Tone.PLAIN) if result.tainted else health.badge(gpu.verdict)


def _finding(
    title: str, label: str, lines: Iterable[str], first: Rank = Rank.TOLD, most: int = MOST_ROWS
) -> Iterator[Finding]:
    texts = tuple(lines)
    if texts:
        yield Finding(None, title, texts, opened=True, label=label, most=most, ranks=(first, Rank.TOLD))


def injected(result: BurnInReport) -> Iterator[str]:
    """Yield a line for each injected fault, in the order of Fate: those not found first, those found last."""
    by_fate = [(fate(fault), fault) for fault in result.injected]
    for known, fault in sorted(by_fate, key=lambda pair: list(Fate).index(pair[0])):
        yield f"{known.upper()}: {fault.fault}: {fault.outcome.removeprefix(f'{known}: ')}"


def fate(fault: InjectedReport) -> Fate:
    """Return the fate of an injected fault: FOUND or MISSED in reports of earlier versions, which only have `found`."""
    return fault.fate or (Fate.FOUND if fault.found else Fate.MISSED)


def _columns_of(result: BurnInReport, report: Report) -> Iterator[tuple[str, ...]]:
    every = zip(COLUMNS, *(_row(gpu, report) for gpu in result.gpus), strict=True)
    return (column for column in every if any(column[1:]))


def meaning(result: BurnInReport) -> str:
    """Return what PASS proves, as a text; after injected faults, that the verdicts say nothing about the GPUs."""
    if result.tainted:
        return "Faults were injected on purpose: the verdicts say nothing about the GPUs."
    return "PASS means that the checks below saw no error. It does not prove that there is none."


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


def requested_time(result: BurnInReport) -> str:
    """Describe the times of a burn-in: least to most hours at work of a GPU.

    Example: "Level full, 8 h 00 min requested, 7 h 54 min to 7 h 58 min at work".
    """
    served = sorted(gpu.served_seconds for gpu in result.gpus)
    at_work = " to ".join(dict.fromkeys(duration(seconds) for seconds in (*served[:1], *served[-1:])))
    return f"Level {result.level}, {duration(result.duration_seconds)} requested, {at_work} at work"


def short(seconds: float) -> str:
    """Format a duration for a narrow column: "42 s", "1:22 min", "12 min", "7:58 h"."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    if seconds < 600 and round(seconds) % 60:
        return f"{round(seconds) // 60}:{round(seconds) % 60:02} min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _who(gpus: Sequence[GpuBurnIn], report: Report) -> str:
    """Return GPUs of the same verdict and reasons, and the recommended action: "GPU 0, GPU 2: <action>".

    A single GPU also gets its serial and PCI address, each unless it makes the finding's title longer than
    _LONGEST_TITLE.
    """
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    alike = [devices[gpu.gpu_uuid] for gpu in gpus]
    todo = f": {gpus[0].action}" if gpus[0].action is not Action.NOTHING else ""
    board = {"serial": alike[0].serial, "at": alike[0].pci_address} if len(alike) == 1 else {}
    who = labels(alike)
    for fact in (f", {word} {fact}" for word, fact in board.items() if fact):
        who += fact if len(f"{gpus[0].verdict}: {who}{fact}{todo}") <= _LONGEST_TITLE else ""
    return f"{who}{todo}"


def _reasons(reasons: Sequence[ReasonReport]) -> Iterator[str]:
    counts = Counter(f"{reason.verdict}: {reason.text}" for reason in reasons)
    return (text if count == 1 else f"{text} ({count} times)" for text, count in counts.items())


def _warming_up(result: BurnInReport) -> Iterator[str]:
    soaks = [gpu.heat_soak for gpu in result.gpus if gpu.heat_soak is not None]
    if not soaks:
        return
    seconds = sorted(soak.excluded_seconds for soak in soaks if soak.excluded_seconds is not None)
    spans = dict.fromkeys(short(length) for length in (*seconds[:1], *seconds[-1:]))
    first = ["the first round"] if len(seconds) < len(soaks) else []
    excluded = " and ".join([*([" to ".join(spans)] if spans else []), *first])
    endings = dict.fromkeys(ending for soak in soaks for ending in soak.ended_because)
    why = ", or ".join(endings)
    yield f"the warm-up of {excluded} does not count; it ended because {why}"


def _health(report: Report) -> Iterator[str]:
    by_verdict: dict[str, list[str]] = {}
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    for gpu in report.health.gpus:
        if gpu.applicable:
            by_verdict.setdefault(health.verdict_text(gpu), []).append(gpu.gpu_uuid)
    if not by_verdict:
        return
    parts = [f"{labels([devices[uuid] for uuid in uuids])}: {words}" for words, uuids in by_verdict.items()]
    yield "; ".join([*parts, f"the machine: {report.health.node.verdict}"])


def _without_result(report: Report) -> Iterator[str]:
    ended = sum(map(out_of_time, report.failures))
    if ended:
        yield f"ended by the time limit: {ended}"
    if failed := len(report.failures) - ended:
        yield f"without a result: {failed} (the JSON report has the paths of their logs)"


def _tested_memory(report: Report) -> str:
    return "planned memory" if all(device.kind == "cpu" for device in report.gpu_info) else "free memory"


def evidence(result: BurnInReport, memory: str = "free memory") -> Iterator[str]:
    """Yield a line for each kind of check, with sums over all GPUs, then a line for the rates of each check of links.

    If the table's column Wrong differs from the number of wrong transfers of the checks of links, a further line after
    that of the checks says why. memory: what the tested share of memory is a share of, in words.
    """
    for kind in dict.fromkeys(check.check for gpu in result.gpus for check in gpu.checks):
        reports = [check for gpu in result.gpus for check in gpu.checks if check.check == kind]
        wrong = sum(check.mismatches for check in reports)
        transfers = result.wrong_transfers if kind == Workload.LINKS else wrong
        checks = sum(check.checks for check in reports)
        found = f", {wrong:,} wrong" if wrong or transfers else _bound(reports)
        if transfers != wrong:
            found = f", {plural(transfers, 'wrong transfer')}"
        shares = [check.covered_share for check in reports if check.covered_share is not None]
        moved = sum(check.verified_bytes for check in reports) / 1e9
        least = "at least " if len(set(shares)) > 1 else ""
        covered = f", {least}{100 * min(shares):.0f} % of {memory}, {moved:,.1f} GB verified" if shares else ""
        # A launch of links is shared by its devices.
        launches = sum(counted.launches for counted in (result.links if kind == Workload.LINKS else reports))
        yield f"{kind}: {checks:,} comparisons in {plural(launches, 'launch', 'launches')}{found}{covered}"
        if transfers > wrong:
            yield f"of these {transfers:,} transfers, the column Wrong counts {wrong:,}; the others sent wrong numbers"
        elif transfers < wrong:
            yield f"of these {transfers:,} transfers, some count for both devices: {wrong:,} in the column Wrong"
    yield from _links(result)


def _bound(reports: Sequence[CheckReport]) -> str:
    """Return ", 0 wrong (error rate below 1.0e-05 per comparison and 0.3 per hour, 95 % confidence)"; "" if unknown.

    reports: one kind of check without errors, one report per GPU. Each limit is the highest of the GPUs. The limit per
    hour is omitted if it exceeds 1.
    """
    each = [check.error_bound for check in reports if check.error_bound is not None]
    hourly = [check.error_bound_per_hour for check in reports if check.error_bound_per_hour is not None]
    if not each:
        return ""
    by_the_hour = f" and {max(hourly):.2g} per hour" if hourly and max(hourly) <= _MOST_AN_HOUR else ""
    return f", 0 wrong (error rate below {max(each):.1e} per comparison{by_the_hour}, 95 % confidence)"


def not_tested(result: BurnInReport, report: Report) -> list[str]:
    """Return lines "checks on devices: why not tested", planned checks first. Checks of one reason share a line."""
    found = _untested(result, report, decided=True)
    lines = sorted((not planned, f"{words}: {why}") for planned, words, why in found)
    return [words for _, words in lines]


def not_decided(result: BurnInReport, report: Report) -> list[str]:
    """Return lines about comparisons of speed with siblings that left a doubt: what is not ruled out.

    Checks with the same doubt on the same devices share a line. A change over time that is inconclusive is in
    `not_tested`. Example: 'speed in the check "truth" on GPU 1: a slow-down of more than 5% is not ruled out'.
    """
    return [f"{words}: {why}" for _, words, why in _untested(result, report, decided=False)]


def _untested(result: BurnInReport, report: Report, *, decided: bool) -> Iterator[tuple[bool, str, str]]:
    """Yield (unfinished, checks and devices, reason) of what was not tested. Equal devices and reason share a tuple.

    unfinished: True for planned checks that were not completed, False for the rest. decided: False
    yields only the rates in GpuBurnIn.not_decided, True everything else that was not tested.
    """
    unfinished = {what for gpu in result.gpus for what in gpu.unfinished}
    devices: dict[tuple[str, str], set[str]] = {}
    for gpu in result.gpus:
        for what, why in gpu.not_tested.items():
            if (what not in gpu.not_decided) is decided:
                devices.setdefault((what, why), set()).add(gpu.gpu_uuid)
    alike: dict[tuple[bool, str, str], list[str]] = {}
    for (what, why), uuids in devices.items():
        named = labels([device for device in report.gpu_info if device.gpu_uuid in uuids])
        where = f" on {named}" if len(uuids) < len(result.gpus) else ""
        alike.setdefault((what in unfinished, where, why), []).append(what)
    for (planned, where, why), whats in alike.items():
        yield planned, f"{_parts(sorted(whats))}{where}", why


def _parts(names: Sequence[str]) -> str:
    """Return names of untested things as one text: "NaN and sign of zero (gemm truth bf16); link".

    names: "gemm truth bf16: sign of zero" is a check and what it did not test. A name without ": " is a whole check.
    Names with the same end share an entry, and so do ends of the same checks.
    """
    checks: dict[str, list[str]] = {}
    for check, _, part in (name.rpartition(": ") for name in names):
        checks.setdefault(part, []).append(check)
    parts: dict[str, list[str]] = {}
    for part, names_of_checks in checks.items():
        parts.setdefault(_joined(names_of_checks), []).append(part)
    return "; ".join(f"{_joined(of_check)}{f' ({check})' if check else ''}" for check, of_check in parts.items())


def _joined(names: Sequence[str]) -> str:
    """Join names, their common first words once: "pattern 0 and 1" for "pattern 0" and "pattern 1"."""
    begin = commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 - cut back to whole words below
    begin = begin[: begin.rfind(" ") + 1]
    return begin + listed((name.removeprefix(begin) for name in names), "and")


def _links(result: BurnInReport) -> Iterator[str]:
    for link in result.links:
        rates = {
            "copies": link.copies_gb_per_second,
            "all-reduce": link.all_reduce_gb_per_second,
            "on the bus": link.all_reduce_bus_gb_per_second,
            "to the host": link.to_host_gb_per_second,
            "from the host": link.to_device_gb_per_second,
        }
        texts = ", ".join(f"{what} {rate:.3g} GB/s" for what, rate in rates.items() if rate is not None)
        if texts:
            among = f"links of {plural(len(link.gpu_uuids), 'device')}, {link.precision}"
            yield f"{among}: per device, {texts}; {link.connection}"
