"""The data of charts as types: numbers and captions, without colours and sizes. Chapters fill them."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a chart. The scripts in html/static/ have a function for each type."""

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
    """A named series of numbers; None stands for a missing number."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Bars:
    """A bar chart: a bar for each category and series, side by side, stacked (STACKED) or as a radar (RADAR)."""

    name: str
    unit: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Box:
    """A field of a heat map.

    value: decides the colour; None: no colour. says: text of the tooltip. marked: has a frame. hatched: grey, because
    the cell cannot judge the device.
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
    """A heat map. around: the value with the neutral colour; None if larger values only get a stronger colour."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    boxes: tuple[Box, ...]
    around: float | None = None


@dataclass(frozen=True)
class Line:
    """A named line through points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curves:
    """A chart of lines over the same x axis. Both axes are logarithmic."""

    name: str
    x: str
    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Reading:
    """One sensor of a device over time: points (seconds since the start, mean, lowest, highest), None for a gap."""

    title: str
    unit: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]


@dataclass(frozen=True)
class Bar:
    """A bar in a timeline: one launch of a device or several. row: number of the device. says: text of the tooltip."""

    row: int
    start_s: float
    end_s: float
    kind: str
    failed: bool
    says: str


@dataclass(frozen=True)
class Course:
    """A chart of one device over time: a curve for each sensor, its launches above. began_ms: ms since the epoch."""

    name: str
    began_ms: int
    readings: tuple[Reading, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Spans:
    """A chart of the launches on all devices over time. rows: names of devices. began_ms: ms since the epoch."""

    name: str
    began_ms: int
    rows: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Ratio:
    """A relative speed with its interval and the margin around 1. word: text in the legend. tone: colour and symbol."""

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
    """A chart of relative speeds, one below the other."""

    name: str
    rows: tuple[Ratio, ...]


@dataclass(frozen=True)
class OfRun:
    """A figure in one run of several. counted: the run is judged. stack: its software differs from the run before.

    change: describes a change of the figure's level; "" without one.
    """

    name: str
    began: str
    value: float | None
    counted: bool
    change: str
    stack: bool
    says: tuple[str, ...]


@dataclass(frozen=True)
class OverRuns:
    """A chart of one figure over several runs, the oldest first."""

    name: str
    runs: tuple[OfRun, ...]


@dataclass(frozen=True)
class Roof:
    """The limits of a GPU in one precision: TFLOP/s of matrix products, and TB/s of its memory."""

    name: str
    tflops: float
    tb_per_sec: float


@dataclass(frozen=True)
class RoofPoint:
    """A measurement in a roofline chart. roof: name of its Roof. intensity: operations per byte. open: drawn hollow."""

    name: str
    roof: str
    intensity: float
    tflops: float
    open: bool
    says: str


@dataclass(frozen=True)
class Roofline:
    """A roofline chart: measurements below the limits of their precisions. Both axes are logarithmic."""

    name: str
    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]


Plot = Bars | Heat | Curves | Course | Spans | Ratios | OverRuns | Roofline
