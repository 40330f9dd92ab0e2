"""Types of a run's timeline for pages that draw it: readings of each GPU, and launches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.gpu.telemetry.traces import Curve


@dataclass(frozen=True)
class Span:
    """One launch, or several successful ones that are too close together to be drawn separately.

    start_s, end_s: seconds since the run began; equal for one launch whose end is unknown. workload: "" if the launches
    have several. words: cell, or number of launches with their workloads.
    """

    start_s: float
    end_s: float
    workload: str
    failed: bool
    words: str


@dataclass(frozen=True)
class Stretch:
    """Readings of a GPU in one boot. at_s: seconds of points since the run began. curves: "power_w", ... → Curve."""

    at_s: tuple[float, ...]
    curves: Mapping[str, Curve]


@dataclass(frozen=True)
class DeviceTimeline:
    """Timeline of one device. spans: by start, at most 100 failed ones. unseen: number of further failed launches.

    stretches: its readings (power, temperature, ...), one for each boot of the machine, oldest first.
    """

    gpu_uuid: str
    spans: tuple[Span, ...]
    unseen: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Timeline:
    """Timeline of a run. began: its start, in seconds since the epoch."""

    began: float
    devices: tuple[DeviceTimeline, ...]


NOTHING_KEPT: Final = Timeline(began=0.0, devices=())
"""Empty timeline for a report without a run folder."""
