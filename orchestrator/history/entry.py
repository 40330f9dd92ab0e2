"""Reduce a report to its history entry. Pure."""

import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.compare import cell_facts, run_figures
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import Side
from orchestrator.config.naming import kind_of_run
from orchestrator.figures import keys
from orchestrator.figures.burn_in import GpuBurnIn
from orchestrator.figures.health import DeviceHealth
from orchestrator.figures.report import Report
from orchestrator.figures.table import Metric
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.history.records import CellRecord, DeviceRecord, RunLine, RunRecord

OFFENCES: Final = frozenset({HealthVerdict.FAIL, HealthVerdict.WARN})


def of_report(report: Report, folder: Path, *, tainted: bool) -> RunRecord:
    """Return the history entry of a report. folder: of the run. tainted: True if faults were injected into the run."""
    reduced = run_figures.of_report(report, report.metadata.run_id)
    devices = tuple(_devices(report, reduced))
    counts = Counter(one.device.gpu_name for one in devices)
    settings, burn_in = report.test_configuration, report.burn_in
    line = RunLine(
        run_id=report.metadata.run_id,
        test_date=report.metadata.test_date,
        folder=os.fsencode(folder.absolute()).decode(errors="replace"),
        hostname=report.metadata.hostname,
        profile=kind_of_run(settings.profile, settings.preset, None if burn_in is None else burn_in.level),
        seconds=report.metadata.test_duration_seconds,
        verdict=report.verdict.word,
        exit_code=report.verdict.exit_code,
        finished=report.metadata.finished,
        tainted=tainted,
        health=report.health.verdict,
        burn_in="" if burn_in is None else burn_in.verdict,
        planned=report.summary.cells.planned,
        ok=report.summary.cells.ok,
        stack=reduced.stack,
        devices=tuple(f"{number} x {name}" for name, number in counts.items()),
    )
    return RunRecord(run=line, devices=devices, cells=tuple(_cells(report, reduced)))


def _devices(report: Report, reduced: Side) -> Iterator[DeviceRecord]:
    health = {one.gpu_uuid: one for one in report.health.gpus}
    burn_ins = {one.gpu_uuid: one for one in report.burn_in.gpus} if report.burn_in is not None else {}
    for device in reduced.devices:
        judged, burn_in = health.get(device.gpu_uuid), burn_ins.get(device.gpu_uuid)
        yield DeviceRecord(
            device=device,
            health="" if judged is None else judged.verdict,
            health_words="" if judged is None else _why_of_health(judged),
            burn_in="" if burn_in is None else burn_in.verdict,
            burn_in_words="" if burn_in is None else _why_of_burn_in(burn_in),
        )


def _why_of_health(judged: DeviceHealth) -> str:
    if judged.verdict not in OFFENCES:
        return ""
    return "; ".join(one.text for one in judged.signals if one.state.name == judged.verdict.name)


def _why_of_burn_in(burn_in: GpuBurnIn) -> str:
    """Return the reasons for a burn-in's verdict on a GPU. Unless it is FAIL or WARN, numbers of comparisons follow."""
    reasons = dict.fromkeys(one.text for one in burn_in.reasons if one.verdict is burn_in.verdict)
    if burn_in.verdict in OFFENCES or not burn_in.checks:
        return "; ".join(reasons)
    checks = ", ".join(f"{one.check} {one.checks:,}" for one in burn_in.checks)
    wrong = sum(one.mismatches for one in burn_in.checks)
    return "; ".join((*reasons, f"checks: {checks}; {wrong:,} wrong"))


def _cells(report: Report, reduced: Side) -> Iterator[CellRecord]:
    metrics: list[Metric] = [metric for result in report.results for _, metric in keys.of_model(result)]
    metrics += report.probes
    metrics += [metric for _, _, metric in keys.of_operators(report)]
    devices = {device.gpu_uuid: device for device in reduced.devices}
    for cell, metric in zip(reduced.cells, metrics, strict=True):
        place = Place(devices[cell.gpu_uuid], cell)
        unwatched = cell_facts.not_watched(place.device.kind, cell.throttled)
        yield CellRecord(
            gpu_uuid=cell.gpu_uuid,
            key=cell.key,
            status=cell.status,
            doubt=cell_facts.fault(place) or (cell_facts.UNWATCHED if unwatched else ""),
            metric=cell.metric,
            launches=cell.values,
            figures=_figures(metric),
        )


def _figures(metric: Metric) -> dict[str, float]:
    values = {name: getattr(metric, name) for name in metric.__struct_fields__}
    return {name: value for name, value in values.items() if isinstance(value, float) and math.isfinite(value)}
