"""Format numbers for people: significant digits, units, N/A for unknown values."""

from typing import Final

NOT_AVAILABLE: Final = "N/A"


def number(value: float | None) -> str:
    """Format a number with three decimals below 1, two below 10, else one: "0.123", "8.25", "4500.8"; None: "N/A"."""
    if value is None:
        return NOT_AVAILABLE
    size = round(abs(value), 2)
    return f"{value:.{3 if size < 1 else 2 if size < 10 else 1}f}"


def unit(value: float | None, name: str, digits: int | None = None) -> str:
    """Format a number and its unit: "8.25 ms", or "N/A" for None.

    digits: decimals; None: three below 1, two below 10, else one.
    """
    if value is None:
        return NOT_AVAILABLE
    return f"{number(value) if digits is None else f'{value:.{digits}f}'} {name}"


def share(percent: float | None) -> str:
    """Format a percentage: "98.5%", or "N/A" for None."""
    return NOT_AVAILABLE if percent is None else f"{percent:.1f}%"


def difference(percent: float) -> str:
    """Format a signed percentage: "+1.5%", "-0.3%", never "-0.0%"."""
    return f"{percent:+z.1f}%"


def count(value: int) -> str:
    """Format a whole number in short: "110M", "25.6M", "5.2K"; below 1000 in full."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f}{letter}" if scaled >= 100 else f"{scaled:.1f}{letter}"
    return str(value)


def duration(seconds: float) -> str:
    """Format a duration: "42 seconds", "2 min 30 s", "3 minutes", "12 minutes", "7 h 58 min"."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 600 and round(seconds) % 60:
        return f"{round(seconds) // 60} min {round(seconds) % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def interval(half_width: float | None) -> str:
    """Format an interval, given half its width as a fraction of the mean: "+/- 0.25%" for 0.0025, "N/A" for None."""
    return interval_percent(None if half_width is None else half_width * 100)


def interval_percent(half_width: float | None) -> str:
    """Format an interval, given half its width in percent of the mean: "+/- 0.25%" for 0.25, "N/A" for None."""
    return NOT_AVAILABLE if half_width is None else f"+/- {half_width:.2f}%"
