"""Contents of charts as types: numbers and their captions, without colours and sizes."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Type of a chart. The scripts in html/static/ have a function for each."""

    BARS = "bars"
    STACKED = "stacked"
    HEAT = "heat"
    CURVES = "curves"
    RADAR = "radar"
    COURSE = "course"
    SPANS = "spans"
    RATIOS = "ratios"
    RUNS = "runs"
    ROOFLINE = "roofline"


@dataclass(frozen=True)
class Series:
    """Numbers under one name, None for a missing one."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Bars:
    """A bar for each category and series, side by side or stacked (STACKED). Also used for RADAR."""

    name: str
    unit: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Box:
    """A field of a heat map.

    value: decides the colour; None: no colour. marked: framed. hatched: grey, because it cannot judge the device.
    """

    column: int
    row: int
    value: float | None
    text: str
    says: str
    marked: bool = False
    hatched: bool = False


@dataclass(frozen=True)
class Heat:
    """A heat map. around: the neutral value, None where higher values only mean more."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    boxes: tuple[Box, ...]
    around: float | None = None


@dataclass(frozen=True)
class Line:
    """Points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curves:
    """Lines over a common x, both axes logarithmic."""

    name: str
    x: str
    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Reading:
    """A reading of a device over time: (seconds since the start, mean, lowest, highest), None for a gap."""

    title: str
    unit: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]


@dataclass(frozen=True)
class Bar:
    """One or several launches on a device. row: number of the device."""

    row: int
    start_s: float
    end_s: float
    kind: str
    failed: bool
    says: str


@dataclass(frozen=True)
class Course:
    """The readings of a device, one below the other, with its launches above. began_ms: whole ms since the epoch."""

    name: str
    began_ms: int
    readings: tuple[Reading, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Spans:
    """Launches of all devices over time."""

    name: str
    began_ms: int
    rows: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Ratio:
    """A relative speed with its interval and the margin around 1. word: in the legend. tone: for colour and shape."""

    name: str
    word: str
    tone: str
    ratio: float
    low: float | None
    high: float | None
    margin_low: float | None
    margin_high: float | None
    says: tuple[str, ...]


@dataclass(frozen=True)
class Ratios:
    """Ratios, one below the other."""

    name: str
    rows: tuple[Ratio, ...]


@dataclass(frozen=True)
class OfRun:
    """A figure in one run. counted: in the judged series. change: of the level, or "". stack: the stack changed."""

    name: str
    began: str
    value: float | None
    counted: bool
    change: str
    stack: bool
    says: tuple[str, ...]


@dataclass(frozen=True)
class OverRuns:
    """A figure over runs, oldest first."""

    name: str
    runs: tuple[OfRun, ...]


@dataclass(frozen=True)
class Roof:
    """The limits of a GPU in one precision: of matrix products, and of its memory in TB/s."""

    name: str
    tflops: float
    tb_per_sec: float


@dataclass(frozen=True)
class RoofPoint:
    """A measurement below its roof. intensity: operations per byte. open: drawn hollow."""

    name: str
    roof: str
    intensity: float
    tflops: float
    open: bool
    says: str


@dataclass(frozen=True)
class Roofline:
    """Measurements below the roofs of their precisions, both axes logarithmic."""

    name: str
    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]


Plot = Bars | Heat | Curves | Course | Spans | Ratios | OverRuns | Roofline
