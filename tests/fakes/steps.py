"""Drives the state of a run without processes, clock or disk: each launch ends as a test decides."""

from collections.abc import Callable

from orchestrator.plan.batch_scan import Figures
from orchestrator.state import transitions
from orchestrator.state.slots import Ended, Freed, NextLaunch, RunState, Started
from orchestrator.store.journal_records import Segment, Start
from protocol.failure import Category, Failure, Phase

Decide = Callable[[NextLaunch], Failure | None]
SEGMENT = Segment(boot_id="b", driver_version=None, tool_version="0", pid=1, wall=0.0, monotonic_ns=0)


def failure(category: Category, phase: Phase = Phase.MEASURE) -> Failure:
    return Failure(category=category, message="m", phase=phase)


def begun(now: RunState, *launches: NextLaunch) -> RunState:
    """The state with these launches under way."""
    for one in launches:
        now = transitions.step(now, Started(one.launch, one.slot, one.device, one.cell.batch_size))
    return now


def freed(now: RunState, *devices: str) -> RunState:
    """The state with devices that are clean again."""
    for device in devices:
        now = transitions.step(now, Freed(device))
    return now


def ended(now: RunState, launch: NextLaunch, hurt: Failure | None = None, figures: Figures | None = None) -> RunState:
    """The state after the end of a launch, with its devices free."""
    return freed(transitions.step(now, Ended(launch.launch, hurt, figures)), *launch.cell.devices)


def record(launch: NextLaunch) -> Start:
    """The record of the start of a launch."""
    return Start(
        launch=launch.launch,
        cell=launch.planned,
        round=launch.slot[1],
        attempt=launch.attempt,
        batch_size=launch.cell.batch_size,
        device=launch.device,
        at_ns=0,
    )


def run(now: RunState, decide: Decide) -> tuple[RunState, list[NextLaunch]]:
    """Launch, let each end as `decide` says, until nothing is left. Devices work at the same pace."""
    made: list[NextLaunch] = []
    while True:
        now, following = transitions.next_launches(now)
        if not following:
            return now, made
        now = begun(now, *following)
        for one in following:
            now = ended(now, one, decide(one))
        made += following
