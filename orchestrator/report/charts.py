"""Contents of charts as types: numbers and their captions, without colours and sizes."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Type of a chart. charts.js, over_time.js, over_runs.js and ratios.js have a function for each."""

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
    """A field of a heat map. value: decides the colour, None for none. marked: framed."""

    column: int
    row: int
    value: float | None
    text: str
    says: str
    marked: bool = False


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
    """The readings of a device, one below the other, with its launches above. began_ms: since the epoch, whole."""

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
    """A speed relative to another, with its interval, and the margin around 1 that counts as equal.

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
    """Ratios, one below the other."""

    name: str
    rows: tuple[Ratio, ...]


@dataclass(frozen=True)
class OfRun:
    """A figure in one run, None without one. counted: part of the judged series.

    change: of the level from this run on, in words. stack: the software stack differs from the run before.
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
