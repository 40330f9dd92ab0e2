"""The data of charts as types: numbers and captions, without colours and sizes. Fields named `says` hold tooltips."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a chart, which selects the function in html/static/ that draws it.

    BARS, STACKED and RADAR draw Bars. HEAT: Heat. CURVES: Curves. COURSE: a Course, one device over time. SPANS: Spans,
    launches over time. RATIOS: Ratios, relative speeds. RUNS: OverRuns, a figure over runs. ROOFLINE: Roofline.
    """

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
    """A named series of numbers, one for each category of its chart; None: the number is missing."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Bars:
    """A bar chart: for each category a value of each series. Chart.kind: BARS (side by side), STACKED or RADAR.

    name: what the values are, or the choice that a reader makes to see these bars. unit: of the values, or "".
    """

    name: str
    unit: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Box:
    """A field of a heat map. column, row: its indices. value: decides the colour; None: no colour. text: shown in it.

    says: tooltip. marked: has a frame. hatched: grey in place of the colour, because the cell cannot judge the device.
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
    """A heat map. around: value that gets the neutral colour; None if larger values just get a stronger colour."""

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
    """A chart of lines over the same x axis. x: its title. unit: of the y axis. Both axes are logarithmic."""

    name: str
    x: str
    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Reading:
    """One sensor of a device over time. points: (seconds since the run began, mean, lowest, highest); None: a gap."""

    title: str
    unit: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]


@dataclass(frozen=True)
class Bar:
    """A bar in a timeline: one or several launches (measuring processes). start_s, end_s: since the start of the run.

    row: index of the device. kind: workload of the launches or "several", decides the colour. failed: without a result,
    unless the time limit ended it. says: tooltip.
    """

    row: int
    start_s: float
    end_s: float
    kind: str
    failed: bool
    says: str


@dataclass(frozen=True)
class Course:
    """A chart of one device over time: a curve for each sensor, and launches as bars. began_ms: start, Unix time."""

    name: str
    began_ms: int
    readings: tuple[Reading, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Spans:
    """A chart of the launches on all devices over time. Launches close together share a bar.

    rows: names of the devices. began_ms: start, Unix time.
    """

    name: str
    began_ms: int
    rows: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Ratio:
    """A row of a chart: speed of a device / median of its siblings, or speed of a cell / speed in the first run.

    ratio: above 1 is faster. word: verdict, in the legend. tone: a Tone or "mean" (of several cells), decides colour
    and symbol. low, high: confidence interval of the ratio, 90 % for a device and 95 % for cells of two runs.
    margin_low, margin_high: limits of the ratios that count as equal. Each is None if unknown. says: lines of the
    tooltip.
    """

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
    """A chart of relative speeds, one below the other. name: its title among several charts of one chapter."""

    name: str
    rows: tuple[Ratio, ...]


@dataclass(frozen=True)
class OfRun:
    """A figure in one of several runs. name: id and date of the run. began: its date, with the time if dates repeat.

    value: None if the run lacks the figure. counted: False for an excluded run, such as a throttled one. stack: whether
    its software differs from the run before. change: "-5.0 %" if the figure's level changed with this run, else "".
    says: lines of the tooltip.
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
    """The limits of a GPU in one precision: TFLOP/s of matrix products, and TB/s of memory. name: the precision."""

    name: str
    tflops: float
    tb_per_sec: float


@dataclass(frozen=True)
class RoofPoint:
    """A cell in a roofline chart. roof: name of its Roof. intensity: operations per byte. open: hollow (host-bound).

    tflops: achieved TFLOP/s.
    """

    name: str
    roof: str
    intensity: float
    tflops: float
    open: bool
    says: str


@dataclass(frozen=True)
class Roofline:
    """A roofline chart: cells below the limits of their GPU. Both axes are logarithmic."""

    name: str
    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]


Plot = Bars | Heat | Curves | Course | Spans | Ratios | OverRuns | Roofline
