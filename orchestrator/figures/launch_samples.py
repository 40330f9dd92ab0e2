"""What single launches measured, value by value: too much for a report, and read from the run's folder one by one.

The report's other formats are made of figures alone. A format that shows every sample is given a `Samples`, which reads
the launches of a cell when they are asked for; who has a report and not its folder has none.
"""

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
    usual_ms: from where to where the report counts no outliers; None where it has counted none.
    """

    name: str
    times_ms: Sequence[float]
    iterations: int | None
    usual_ms: tuple[float, float] | None


class LaunchSamples(NamedTuple):
    """One launch that measured something.

    launch, round: as the report has them. devices: UUIDs, the leader first. left_out: why its cell's figures are not
    made of it too, empty where they are. series: none where its result is lost.
    value: the figure that cells are compared by; None where it has none. iterations: that the value is of.
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
    """Of a report without its run. Raises RunFolderError."""
    raise RunFolderError(f"{IN_ITS_FOLDER}: `gpubench-orchestrate report RUN -f samples.csv`")
