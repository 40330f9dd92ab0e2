"""Reports of large nodes for pages: what one GPU measured, told of eight, and readings as a long run has them."""

import math
import random
from typing import Any

import msgspec

from orchestrator.analysis.cross_gpu import side_by_side, spreads
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.timeline import DeviceTimeline, Span, Stretch, Timeline
from orchestrator.gpu.telemetry.traces import READINGS, Curve, points
from orchestrator.stats.stragglers import SiblingVerdict
from tests.fakes.runs import CREATED, gpus

SECONDS = 7200.0
SLOW = 2
"""The GPU that is slower than its siblings, by 7 %."""


def many(report: Report, count: int) -> Report:
    """A report of one GPU as one of `count`; they differ by half a percent, and one of them by more."""
    devices = gpus(count)

    def moved(part: object, number: int) -> object:
        """A part of the report, of another GPU: its UUID everywhere, and its own pace."""
        text = msgspec.json.encode(part).replace(devices[0].uuid.encode(), devices[number].uuid.encode())
        told = msgspec.json.decode(text)
        chance = random.Random(str(number))
        _paced(told, chance.gauss(1, 0.003) * (0.93 if number == SLOW else 1))
        told["gpu_id"] = number
        return msgspec.convert(told, type(part))

    def all_of(parts: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(moved(part, number) for number in range(count) for part in parts)

    results, probes = all_of(report.results), all_of(report.probes)
    return msgspec.structs.replace(
        report,
        gpu_info=all_of(report.gpu_info),
        results=results,
        probes=probes,
        cells=all_of(report.cells),
        failures=all_of(report.failures),
        health=msgspec.structs.replace(report.health, gpus=all_of(report.health.gpus)),
        cross_gpu=spreads(side_by_side(devices, results, probes)),  # type: ignore[arg-type]  # what they were made of
    )


def standing(device: GpuInfo, verdict: SiblingVerdict) -> Standing:
    """Return the verdict on a device compared with its siblings, without figures."""
    figures = dict.fromkeys(("percent", "low_percent", "high_percent", "p", "reason", "launches_wanted"))
    empty: dict[str, Any] = {"why": "", "reason_text": "", "next_step": "", "effects": (), "slowest_cells": ()}
    return Standing(
        gpu_uuid=device.gpu_uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.gpu_name,
        verdict=verdict,
        identical=4,
        not_comparable={},
        **figures,
        **empty,
    )


def _paced(told: object, pace: float) -> None:
    """Rates of a decoded part, changed by a factor, wherever they stand in it."""
    if isinstance(told, dict):
        for name, value in told.items():
            if name in {"throughput_samples_per_sec", "tokens_per_second"} and value is not None:
                told[name] = value * pace
            _paced(value, pace)


def timeline(report: Report, seconds: float = SECONDS) -> Timeline:
    """As many readings of each GPU as are ever kept, and 200 launches, one of them without a result."""
    count = points(len(report.gpu_info))
    at_s = tuple(seconds * place / count for place in range(count))
    devices = []
    for number, device in enumerate(report.gpu_info):
        chance = random.Random(number)
        curves = {}
        for name in READINGS:
            mean = tuple(600 + 90 * math.sin(at / 200) + chance.gauss(0, 9) for at in at_s)
            low, high = (tuple(value + way * chance.uniform(1, 40) for value in mean) for way in (-1, 1))
            curves[name] = Curve(low=low, mean=mean, high=high)
        work = ("inference", "training", "load")
        spans = tuple(
            Span(at, at + seconds / 220, work[place % 3], place == 150, f"resnet50 {work[place % 3]} fp32 b{place}")
            for place, at in enumerate(seconds * place / 200 for place in range(200))
        )
        devices.append(DeviceTimeline(device.gpu_uuid, spans, 0, (Stretch(at_s, curves),)))
    return Timeline(CREATED, tuple(devices))
