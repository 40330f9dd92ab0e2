"""The burn-in: rounds of checks until its time is up, and a verdict on each GPU."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis, ReportTerms
from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan, Slot, StoredRun
from orchestrator.engine.kind import Kind, LaunchTerms, TelemetryTerms
from orchestrator.figures.burn_in import BurnInReport, Fate
from orchestrator.figures.health import HealthReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.telemetry.overheating import TemperatureStop
from orchestrator.kinds.burn_in import brief, busy_time, chapter, injections, levels, more_rounds, planning
from orchestrator.kinds.burn_in.analysis import analyse
from orchestrator.kinds.burn_in.levels import requested
from orchestrator.report.chapters.brief import limits
from orchestrator.report.chapters.comparisons import costs, thresholds
from orchestrator.report.chapters.devices import devices
from orchestrator.report.layout import Layout
from orchestrator.state.archive import Archive
from protocol.cell import Cell, Device

HANGS_S: Final = 60.0  # Allowed time of a phase beyond twice the length of its cell
_SHOWN_REASONS: Final = 3


def plan(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan of a burn-in. Raises ConfigError if the round of an injected fault is not planned."""
    return planning.make(configuration, devices, levels.load())


def launch_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Return the terms of a launch: its length, deadlines, injected fault and load steps.

    slot: (cell id, round) of the launch. Its round decides which faults are injected.
    """
    burn_in, own = requested(configuration), configuration.deadlines
    cell_s = burn_in.cell_s[device.kind]
    most_s = 2 * cell_s + HANGS_S
    return LaunchTerms(
        measurement=msgspec.structs.replace(configuration.measurement, min_s=cell_s, max_s=cell_s),
        deadlines=msgspec.structs.replace(
            own, build=min(own.build, most_s), warm_up=min(own.warm_up, most_s), measure=min(own.measure, most_s)
        ),
        injection=injections.for_launch(burn_in.injections, device.uuid, slot[1], cell.workload),
        steps=burn_in.steps.get(device.uuid),
    )


def telemetry_terms(configuration: Configuration) -> TelemetryTerms:
    """Return the temperature limit and the injected temperatures for the telemetry process."""
    burn_in = requested(configuration)
    return TelemetryTerms(TemperatureStop(celsius=burn_in.max_temperature_c), injections.hot(burn_in.injections))


def as_reported(stored: StoredRun) -> Configuration:
    """Return the configuration for the report, with only the models and batch sizes of planned cells."""
    cells, models = stored.plan.cells, stored.configuration.by_name
    return msgspec.structs.replace(
        stored.configuration,
        models=tuple(models[name] for name in dict.fromkeys(cell.model for cell in cells)),
        batch_sizes=tuple(sorted({cell.batch_size for cell in cells})),
        training_batch_sizes=(),
        generation_batch_sizes=(),
    )


def analysed(archive: Archive, evidence: Evidence, health: HealthReport) -> KindAnalysis:
    """Return the burn-in's part of the report, and reasons for the exit code.

    The reasons are verdicts on its GPUs, and injected faults that never took effect.
    """
    report = analyse(archive, evidence, health)
    labels = {device.uuid: device.label for device in archive.stored.devices}
    return KindAnalysis(
        burn_in=report,
        unproven=() if evidence.goes_on else tuple(_unproven(report)),
        unknown=tuple(_reasons(report, HealthVerdict.UNKNOWN, labels)),
        faults=tuple(_reasons(report, HealthVerdict.FAIL, labels)),
        warnings=tuple(_reasons(report, HealthVerdict.WARN, labels)),
    )


def _unproven(report: BurnInReport) -> Iterator[str]:
    fates = [fault.fate for fault in report.injected]
    if undone := fates.count(Fate.UNDONE):
        it = "it" if undone == 1 else "them"
        yield (
            f"{undone} of {plural(len(fates), 'injected fault')} never took effect, so the burn-in does not show that "
            f"its checks find {it}. Inject {it} into a longer burn-in"
        )


def _reasons(report: BurnInReport, verdict: HealthVerdict, labels: Mapping[str, str]) -> Iterator[str]:
    named: dict[str, list[str]] = {}
    for gpu in report.gpus:
        if gpu.verdict is verdict:
            first = gpu.reasons[0].text if gpu.reasons else "no reason was recorded"
            named.setdefault(first, []).append(labels[gpu.gpu_uuid])
    if len(named) > _SHOWN_REASONS:
        named = {"each for its own reasons": [name for names in named.values() for name in names]}
    for first, names in named.items():
        yield f"{verdict} in the burn-in of {', '.join(names)}: {first}"


BURN_IN: Final = Kind(
    name="burn-in",
    plan=plan,
    launch_terms=launch_terms,
    # On two cores that others used too, two waiting threads that spun took 1.9 to 2.3 ms for a product of bf16, and 0.1
    # to 0.3 ms where they slept.
    worker_environment=lambda _: {"OMP_WAIT_POLICY": "PASSIVE"},
    telemetry_terms=telemetry_terms,
    next_rounds=more_rounds.more,
    remaining=busy_time.remaining,
    works_around_pauses=True,
    report=ReportTerms(
        health_level="burn-in",
        as_reported=as_reported,
        short_of_launches="measured at least once, but not in every planned round",
        analyse=analysed,
    ),
    layout=Layout(
        text=(chapter.burn_in,),
        brief=(brief.each_gpu, limits),
        next_steps=brief.next_steps,
        markdown=(chapter.burn_in,),
        html=(chapter.burn_in, thresholds, costs, devices),
        title="Burn-in",
        answer=brief.answer,
        one_page=True,
        checks=True,
        judges_gpus=True,
        profile=brief.profile,
    ),
)
