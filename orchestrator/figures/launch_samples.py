"""Values of single launches: too many for a report, and read from the run's folder when needed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.errors import RunFolderError

IN_ITS_FOLDER: Final = (
    "samples.csv holds every single time that was measured, and a report none of them: they are in launches/ of the "
    "run's folder. Name that folder"
)


class Series(NamedTuple):
    """One series of a launch, in milliseconds, as measured.

    iterations: that each value covers; None where a value is no whole iteration (a token, a burst that was tried).
    usual_ms: range without the report's outliers; None where it counted none.
    """

    name: str
    times_ms: Sequence[float]
    iterations: int | None
    usual_ms: tuple[float, float] | None


class LaunchSamples(NamedTuple):
    """One launch with measurements.

    launch, round: as in the report. devices: UUIDs, the leader first. left_out: why its cell's figures exclude it,
    empty where they do not. series: empty where its result is lost. value: the figure that cells are compared by, over
    `iterations`; None where it has none.
    """

    launch: int
    round: int
    batch_size: int
    devices: tuple[str, ...]
    left_out: str
    series: tuple[Series, ...] = ()
    value: float | None = None
    iterations: int | None = None


Samples = Callable[[str], Iterator[LaunchSamples]]
"""The launches of a cell, by its id, in the order in which they were started."""


def not_at_hand(_cell: str) -> Iterator[LaunchSamples]:
    """Samples of a report without its run. Raises RunFolderError."""
    raise RunFolderError(f"{IN_ITS_FOLDER}: `gpubench-orchestrate report RUN -f samples.csv`")
