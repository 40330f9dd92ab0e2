"""Merge a stored run (archive) and the figures of its results (evidence) into one report about all its GPUs. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from orchestrator.analysis import compilation, exit_causes, summary
from orchestrator.analysis.attribution import attribute_failures
from orchestrator.analysis.batch_scans import batch_scans
from orchestrator.analysis.cross_gpu import side_by_side, spreads
from orchestrator.analysis.evidence import DeviceEvidence, Evidence
from orchestrator.analysis.full_node import full_node
from orchestrator.analysis.health import health
from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.analysis.results import cells, probes, results
from orchestrator.analysis.standings import doubts, standings
from orchestrator.config.run_configuration import Configuration
from orchestrator.figures.exit_code import run_verdict
from orchestrator.figures.parts import SettingReport
from orchestrator.figures.report import (
    SCHEMA_VERSION,
    ConfigurationReport,
    ExclusionReport,
    GpuInfo,
    Metadata,
    Report,
    SegmentReport,
)
from orchestrator.figures.sources import mb
from orchestrator.gpu.environment import EFFECTS
from orchestrator.state.added_launches import Doubt
from orchestrator.state.archive import Archive
from orchestrator.system.calendar_times import iso
from protocol.cell import Device
from protocol.result import Environment


def merge(archive: Archive, evidence: Evidence, terms: ReportTerms) -> Report:
    """Return the report of a run, which may still be running. terms: how its kind of run is reported.

    The comparison with a baseline, the thresholds and the costs are left empty.
    """
    measured_probes = probes(archive, evidence)
    merged = results(archive, evidence, measured_probes)
    faults = attribute_failures(archive, evidence)
    judged = health(archive, evidence, faults, terms.health_level)
    additions = terms.analyse(archive, evidence, judged)
    sides = side_by_side(archive.stored.devices, merged, measured_probes)
    summed = summary.summary(archive, evidence, merged)
    slow = standings(archive.stored.devices, sides, _added(archive)) if merged or measured_probes else ()
    report = Report(
        schema_version=SCHEMA_VERSION,
        metadata=_metadata(archive, evidence),
        gpu_info=tuple(
            _gpu_info(device, evidence.devices.get(device.uuid, DeviceEvidence()), archive.quarantined.get(device.uuid))
            for device in archive.stored.devices
        ),
        test_configuration=_configuration(archive, terms.as_reported(archive.stored)),
        results=merged,
        probes=measured_probes,
        batch_scans=tuple(batch_scans(archive, evidence)),
        cells=tuple(cells(archive, evidence, merged, measured_probes)),
        excluded=tuple(_exclusions(archive)),
        summary=summed,
        cross_gpu=spreads(sides),
        stragglers=slow,
        full_node=full_node(archive.stored.devices, merged, measured_probes),
        overhead=summary.overhead(archive, evidence),
        failures=tuple(summary.failures(archive, evidence, faults)),
        verdict=exit_causes.verdict(
            archive, evidence, judged, additions, slow, counts=summed.cells, short=terms.short_of_launches
        ),
        baseline_comparison=None,
        thresholds=(),
        costs=(),
        health=judged,
        burn_in=additions.burn_in,
        operators=additions.operators,
        study=additions.study,
    )
    causes = (*report.verdict.causes, *compilation.causes(report), *terms.judge(archive, evidence, report))
    return replace(report, verdict=run_verdict(causes, report.verdict.remarks))


def in_doubt(archive: Archive, evidence: Evidence) -> tuple[Doubt, ...]:
    """Return a Doubt for each pair of a SUSPECT GPU and a cell whose further launches should decide about this GPU."""
    measured_probes = probes(archive, evidence)
    sides = side_by_side(archive.stored.devices, results(archive, evidence, measured_probes), measured_probes)
    return tuple(doubts(archive.stored.devices, sides))


def _added(archive: Archive) -> Counter[str]:
    return Counter(archive.cells[slot[0]].devices[0] for slot in archive.added if slot not in archive.dropped)


def _metadata(archive: Archive, evidence: Evidence) -> Metadata:
    stored, finished = archive.stored, archive.finished

    def version(read: Callable[[Environment], str | None]) -> str | None:
        seen = dict.fromkeys(read(launch.result.environment) for launch in evidence.launches.values())
        return ", ".join(text for text in seen if text) or None

    started = Counter(attempt.segment for attempt in archive.attempts)
    drivers = dict.fromkeys(segment.driver_version for segment in archive.segments if segment.driver_version)
    return Metadata(
        tool_version=stored.tool_version,
        pytorch_version=version(lambda environment: environment.torch),
        cuda_version=version(lambda environment: environment.cuda),
        cudnn_version=version(lambda environment: environment.cudnn),
        torchvision_version=version(lambda environment: environment.torchvision),
        transformers_version=version(lambda environment: environment.transformers),
        python_version=version(lambda environment: environment.python),
        driver_version=", ".join(drivers) or None,
        test_date=iso(archive.header.created),
        hostname=archive.header.hostname,
        test_duration_seconds=sum(archive.durations_s),
        run_id=stored.run_id,
        command=stored.command,
        finished=finished is not None and not finished.interrupted,
        interrupted=finished is not None and finished.interrupted,
        running=evidence.goes_on,
        segments=tuple(
            SegmentReport(
                started=iso(segment.wall),
                duration_seconds=duration_s,
                driver_version=segment.driver_version,
                boot_id=segment.boot_id,
                tool_version=segment.tool_version,
                launches=started[segment],
                suspended_seconds=tuple(pause.seconds for pause in suspended),
            )
            for segment, duration_s, suspended in zip(
                archive.segments, archive.durations_s, archive.suspended, strict=True
            )
        ),
        zygote_start_ms=tuple(zygote.start_ms for zygote in archive.zygotes),
        telemetry_note=stored.telemetry_note,
        settings=tuple(
            SettingReport(name=name, value=value, effect=EFFECTS.get(name, "unknown to this version"))
            for name, value in dict.fromkeys(setting for segment in archive.segments for setting in segment.settings)
        ),
    )


def _gpu_info(device: Device, evidence: DeviceEvidence, quarantined: str | None) -> GpuInfo:
    return GpuInfo(
        gpu_id=device.gpu_id,
        gpu_uuid=device.uuid,
        gpu_name=device.name,
        kind=device.kind,
        shared_cores=device.shared_cores,
        slice_of=device.slice_of,
        slice_index=device.slice_index,
        shared_gpu=device.shared_gpu,
        gpu_memory_total_mb=mb(device.memory_total_bytes),
        driver_version=device.driver_version,
        cuda_version=device.cuda_driver_version,
        cuda_compute_capability=device.compute_capability,
        gpu_architecture=device.architecture,
        serial=device.serial,
        pci_address=device.pci_address,
        part_number=device.part_number,
        vbios_version=device.vbios_version,
        power_limit_w=device.power_limit_w,
        ecc_enabled=device.ecc_enabled,
        mig_enabled=device.mig_enabled,
        persistence_mode=device.persistence_mode,
        pcie_generation=device.pcie_generation,
        pcie_width=device.pcie_width,
        busy_with=device.busy_with,
        quarantined=quarantined,
        average_gpu_utilization_percent=evidence.utilization_percent,
        average_power_draw_w=evidence.power_w,
    )


def _exclusions(archive: Archive) -> Iterator[ExclusionReport]:
    for exclusion in archive.stored.plan.excluded:
        gpu_id = archive.devices[exclusion.device].gpu_id
        yield ExclusionReport(
            gpu_uuid=exclusion.device, gpu_id=gpu_id, model_name=exclusion.model, reason=exclusion.why
        )


def _configuration(archive: Archive, configuration: Configuration) -> ConfigurationReport:
    return ConfigurationReport(
        precision=",".join(configuration.precisions),
        precisions=configuration.precisions,
        warmup_iterations=configuration.measurement.warm_up_iterations,
        test_iterations=configuration.measurement.iterations,
        batch_sizes=configuration.batch_sizes,
        training_batch_sizes=configuration.training_batch_sizes,
        generation_batch_sizes=configuration.generation_batch_sizes,
        sequence_lengths=configuration.sequence_lengths,
        input_sizes=configuration.input_sizes,
        memory_format=configuration.memory_format,
        monitor_gpu_enabled=configuration.monitor,
        monitor_interval_ms=configuration.monitor_interval_ms,
        required_signals=configuration.required_signals,
        profile=configuration.profile,
        preset=configuration.preset,
        time_limit_seconds=configuration.time_limit_s,
        mode=",".join(dict.fromkeys(cell.mode for cell in archive.stored.plan.cells) or configuration.modes),
        seed=configuration.seed,
        isolation=configuration.isolation,
        launches=configuration.launches,
        target_relative_half_width=configuration.measurement.relative_half_width,
        models=tuple(model.name for model in configuration.models),
        workloads=configuration.workloads,
        allow_busy=configuration.allow_busy,
    )
