"""Drives the state of a run without processes, clock or disk: each launch ends as a test decides."""

from collections.abc import Callable

from orchestrator.state import transitions
from orchestrator.state.slots import Ended, Freed, NextLaunch, RunState, Started
from protocol.failure import Category, Failure, Phase

Decide = Callable[[NextLaunch], Failure | None]


def failure(category: Category, phase: Phase = Phase.MEASURE) -> Failure:
    return Failure(category=category, message="m", phase=phase)


def run(now: RunState, decide: Decide) -> tuple[RunState, list[NextLaunch]]:
    """Launch, let each end as `decide` says, until nothing is left. Devices work at the same pace."""
    made: list[NextLaunch] = []
    while True:
        now, following = transitions.next_launches(now)
        if not following:
            return now, made
        for one in following:
            now = transitions.step(now, Started(one.launch, one.slot, one.device, one.cell.batch_size))
        for one in following:
            now = transitions.step(now, Ended(one.launch, decide(one)))
            for device in one.cell.devices:
                now = transitions.step(now, Freed(device))
        made += following
