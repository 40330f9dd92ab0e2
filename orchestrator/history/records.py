"""What the history holds, as types. Units are in the names of figures, as in the report."""

from typing import Annotated, Final

import msgspec

from orchestrator.compare.run_figures import SideDevice
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import Part

LONGEST_S: Final = 1e11
"""Three thousand years: SQLite keeps also what is infinite."""


class RunLine(Part, frozen=True, kw_only=True):
    """A run in a line. devices: how many of each, "8 x NVIDIA H200". burn_in: its verdict, empty for other runs.

    test_date: ISO 8601, UTC. tainted: faults were injected on purpose, so nothing of it is a measurement.
    planned, ok: cells.
    """

    run_id: str
    test_date: str
    folder: str
    hostname: str
    profile: str
    seconds: Annotated[float, msgspec.Meta(le=LONGEST_S)]
    verdict: str
    exit_code: int
    finished: bool
    tainted: bool
    health: str
    burn_in: str
    planned: int
    ok: int
    stack: dict[str, str]
    devices: tuple[str, ...] = ()


class DeviceRecord(Part, frozen=True, kw_only=True):
    """A device in a run, and what was said of it. *_words: why; health_words are empty but for FAIL and WARN."""

    device: SideDevice
    health: str
    health_words: str
    burn_in: str
    burn_in_words: str


class CellRecord(Part, frozen=True, kw_only=True):
    """A cell on one device. metric: the figure that runs are compared by; launches: it, of each launch.

    figures: every figure of the report, medians over the launches. doubt: why it is no measurement of the device as it
    should be (throttled, or nobody knows; contaminated, a smaller batch), empty for a sound one.
    """

    gpu_uuid: str
    key: CellKey
    status: str
    doubt: str
    metric: str
    launches: tuple[float, ...]
    figures: dict[str, float]


class RunRecord(Part, frozen=True, kw_only=True):
    """All that is kept of a run."""

    run: RunLine
    devices: tuple[DeviceRecord, ...]
    cells: tuple[CellRecord, ...]


class Point(Part, frozen=True, kw_only=True):
    """A cell of one run on its device, for trends."""

    run_id: str
    test_date: str
    hostname: str
    tainted: bool
    stack: dict[str, str]
    device: SideDevice
    cell: CellRecord


class Offence(Part, frozen=True, kw_only=True):
    """That a run said FAIL or WARN of a device, by its health or by a burn-in. words: why."""

    run_id: str
    test_date: str
    gpu_uuid: str
    health: str
    health_words: str
    burn_in: str
    burn_in_words: str


class Filter(Part, frozen=True, kw_only=True):
    """Which runs are listed; None: all. run_id: how it begins. since: as test_date.

    gpu: the beginning of a UUID, or a part of a name. verdict: of the run, of its health, or of its burn-in.
    """

    run_id: str | None = None
    gpu: str | None = None
    model: str | None = None
    since: str | None = None
    verdict: str | None = None
    limit: int | None = None
