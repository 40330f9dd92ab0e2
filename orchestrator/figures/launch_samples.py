"""Values of single launches. Too many for a report, they are read from the run's folder when needed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.errors import RunFolderError

IN_ITS_FOLDER: Final = (
    "samples.csv needs every measured time. No report has these times; they are in launches/ of the run. "
    "Give its folder"
)


class Series(NamedTuple):
    """One series of times of a launch, such as "forward", in milliseconds.

    iterations: number of iterations that each value covers; None if a value is no whole iteration (a token) or comes
    from a probe's short trial run. usual_ms: range outside which a value is an outlier; None if the report has no
    statistics of the series, or the launch is excluded.
    """

    name: str
    times_ms: Sequence[float]
    iterations: int | None
    usual_ms: tuple[float, float] | None


class LaunchSamples(NamedTuple):
    """One launch with measurements.

    round: in the plan, from 0. devices: UUIDs, that of rank 0 first. excluded: why the launch does not count for its
    cell's figures; empty if it counts. series: empty if the result file is lost. value: figure by which cells are
    compared, such as samples/s. iterations: number of measured iterations behind `value`. Both are None without a valid
    result, and `value` also for operators and checks.
    """

    launch: int
    round: int
    batch_size: int
    devices: tuple[str, ...]
    excluded: str
    series: tuple[Series, ...] = ()
    value: float | None = None
    iterations: int | None = None


Samples = Callable[[str], Iterator[LaunchSamples]]
"""Function that takes the id of a cell and yields its launches, in the order of their start; none for an unknown id."""


def not_at_hand(_cell: str) -> Iterator[LaunchSamples]:
    """Raise RunFolderError. Takes the place of a function that reads launches, for a report without its run folder."""
    raise RunFolderError(f"{IN_ITS_FOLDER}: `gpubench-orchestrate report RUN -f samples.csv`")
