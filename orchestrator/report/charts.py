"""What the script draws, as types: numbers and the words beside them, no colours and no sizes."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a chart is drawn; charts.js, over_time.js, over_runs.js and ratios.js have a function for each."""

    BARS = "bars"
    STACKED = "stacked"
    HEAT = "heat"
    CURVES = "curves"
    RADAR = "radar"
    COURSE = "course"
    SPANS = "spans"
    RATIOS = "ratios"
    RUNS = "runs"


@dataclass(frozen=True)
class Series:
    """Numbers under one name; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Bars:
    """A bar for each category and series, side by side or (STACKED) one on the other. Also of RADAR."""

    name: str
    unit: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Box:
    """A field of a heat map. value: decides the colour, None for none. text: what stands in it. marked: stands out."""

    column: int
    row: int
    value: float | None
    text: str
    says: str
    marked: bool = False


@dataclass(frozen=True)
class Heat:
    """around: the value that is neither good nor bad; None where a higher one is just more."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    boxes: tuple[Box, ...]
    around: float | None = None


@dataclass(frozen=True)
class Line:
    """Points by x."""

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
    """One reading of a device over time: (seconds since the beginning, mean, lowest, highest), None for a gap."""

    title: str
    unit: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]


@dataclass(frozen=True)
class Bar:
    """A launch, or several, on a device. row: which device."""

    row: int
    start_s: float
    end_s: float
    kind: str
    failed: bool
    says: str


@dataclass(frozen=True)
class Course:
    """The readings of one device, below each other, and its launches above them."""

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
    """A speed beside another, with its interval, and the band around 1 that counts as the same; None without one.

    word: decides colour and shape.
    """

    name: str
    word: str
    ratio: float
    low: float | None
    high: float | None
    margin_low: float | None
    margin_high: float | None
    says: tuple[str, ...]


@dataclass(frozen=True)
class Ratios:
    """A row for each, below each other."""

    name: str
    rows: tuple[Ratio, ...]


@dataclass(frozen=True)
class OfRun:
    """A figure in one run, None where it has none. counted: it is a part of the series that is judged.

    change: of the level from this run on, in words, empty without one. stack: it differs from the run before.
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
    """A figure over runs, oldest first."""

    name: str
    runs: tuple[OfRun, ...]


Plot = Bars | Heat | Curves | Course | Spans | Ratios | OverRuns
