"""What happened when, for pages that draw it: the readings of each GPU over the run, and its launches. Types alone.

Kept apart from the Report, which is what programs read: a curve for the eye is no figure to compute with. A Report can
be rendered without one, and then the page says that nothing was kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.gpu.telemetry.traces import Curve


@dataclass(frozen=True)
class Span:
    """One launch, or several good ones that lie too close together to be told apart by the eye.

    start_s, end_s: since the run began. workload: empty where those taken together have several. failed: without a
    result. words: which cell, or how many launches.
    """

    start_s: float
    end_s: float
    workload: str
    failed: bool
    words: str


@dataclass(frozen=True)
class Stretch:
    """The readings of a GPU during one boot of its host. at_s: since the run began. curves: of
    gpu/telemetry/traces.py.
    """

    at_s: tuple[float, ...]
    curves: Mapping[str, Curve]


@dataclass(frozen=True)
class DeviceTimeline:
    """One device. spans: its launches in the order they began. unseen: failed launches beyond those in spans."""

    gpu_uuid: str
    spans: tuple[Span, ...]
    unseen: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Timeline:
    """The run. began: seconds since the epoch."""

    began: float
    devices: tuple[DeviceTimeline, ...]


NOTHING_KEPT: Final = Timeline(began=0.0, devices=())
"""For a report of which the run's folder is not at hand."""
