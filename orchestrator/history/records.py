"""Types of the history. Units are in the names of figures, as in the report."""

from typing import Annotated, Final

import msgspec

from orchestrator.compare.run_figures import SideDevice
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import Part

LONGEST_S: Final = 1e11
"""Most seconds of a recorded run, three thousand years. Without a limit SQLite would store even infinity."""


class RunLine(Part, frozen=True, kw_only=True):
    """Summary of a run.

    test_date: its start, ISO 8601, UTC. folder: absolute path. profile: kind of run, such as "standard" or "burn-in
    quick". seconds: its duration. verdict: in a word, such as "complete" (figures/exit_code.py). finished: False if the
    run was interrupted or killed, or was still running. planned, ok: numbers of cells. tainted: faults were injected.
    health: worst health verdict of all GPUs and the machine. burn_in: worst verdict of a burn-in on a device, "" in
    other runs. stack: name → version or setting. devices: ("8 x NVIDIA H200",).
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
    """A device in a run. health, burn_in: verdict, or "" if there is none.

    health_words: reasons if health is FAIL or WARN, else "". burn_in_words: reasons for the burn-in's verdict and,
    unless it is FAIL or WARN, numbers of comparisons.
    """

    device: SideDevice
    health: str
    health_words: str
    burn_in: str
    burn_in_words: str


class CellRecord(Part, frozen=True, kw_only=True):
    """A cell (model and configuration) on one device.

    metric: name of its main figure. launches: the value of `metric` in each launch (process). doubt: why the cell is
    not judged, or "". figures: name, with unit → value in the report, mostly a median over the launches; only
    floating-point values. status: value of figures.cells.Status.
    """

    gpu_uuid: str
    key: CellKey
    status: str
    doubt: str
    metric: str
    launches: tuple[float, ...]
    figures: dict[str, float]


class RunRecord(Part, frozen=True, kw_only=True):
    """Everything that the history keeps of a run."""

    run: RunLine
    devices: tuple[DeviceRecord, ...]
    cells: tuple[CellRecord, ...]


class Point(Part, frozen=True, kw_only=True):
    """The result of a cell (model and configuration) in one run.

    test_date: start of the run, ISO 8601, UTC. tainted: faults were injected into the run. stack: name → version or
    setting.
    """

    run_id: str
    test_date: str
    hostname: str
    tainted: bool
    stack: dict[str, str]
    device: SideDevice
    cell: CellRecord


class Offence(Part, frozen=True, kw_only=True):
    """A run in which a GPU had the verdict FAIL or WARN for its health or its burn-in.

    test_date: start of the run, ISO 8601, UTC. health, burn_in: verdict, or "" if there is none. health_words: reasons
    if health is FAIL or WARN, else "". burn_in_words: reasons for the burn-in's verdict and, unless it is FAIL or WARN,
    numbers of comparisons.
    """

    run_id: str
    test_date: str
    gpu_uuid: str
    health: str
    health_words: str
    burn_in: str
    burn_in_words: str


class Filter(Part, frozen=True, kw_only=True):
    """Filter for the `limit` newest runs that match all other fields. None: no condition, or no limit.

    run_id: an id or its beginning. gpu: beginning of a UUID or part of a name. model: whole name. since: earliest start
    of a run, ISO 8601. verdict: that of the run, of its health or of its burn-in, in upper or lower case.
    """

    run_id: str | None = None
    gpu: str | None = None
    model: str | None = None
    since: str | None = None
    verdict: str | None = None
    limit: int | None = None
