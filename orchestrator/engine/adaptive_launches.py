"""Add launches once all others have been made and leave a GPU SUSPECT.

    journal, results, telemetry ─▶ look: doubts of a report made now ─▶ over: added_launches.decide ─▶ slots, suspects

The thin step between the disk and added_launches.py, at a moment at which no launch runs that it could disturb: 0.15 s
on one core for 288 launches with their telemetry.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.analysis import evidence, report_builder
from orchestrator.config.run_configuration import Slot, StoredRun
from orchestrator.engine.run_context import RunContext
from orchestrator.state import added_launches, archive
from orchestrator.state.slots import RunState
from protocol.paths import RunPaths


class More(NamedTuple):
    """Launches to add, may be none. suspects: the GPUs that are SUSPECT."""

    slots: tuple[Slot, ...]
    suspects: tuple[str, ...]


@evidence.collector_off()
def doubts(paths: RunPaths, stored: StoredRun) -> tuple[added_launches.Doubt, ...]:
    """Return the cells that leave a GPU SUSPECT so far, while no launch is at work. Raises RunFolderError."""
    loaded = archive.load(paths, stored, alive=True)
    return report_builder.in_doubt(loaded, evidence.gather(loaded, goes_on=True))


class AdaptiveLaunches:
    """The adaptive launches of one run."""

    def __init__(self, around: RunContext) -> None:
        self._around = around
        self._applies = added_launches.applies(around.stored.configuration, around.stored.devices)

    def look(self, state: RunState) -> tuple[added_launches.Doubt, ...]:
        """Return the doubts where launches may be added. Slow: merges the run. Raises RunFolderError."""
        return doubts(self._around.paths, self._around.stored) if self._may_add(state) else ()

    def over(self, state: RunState, found: Sequence[added_launches.Doubt]) -> More:
        """Decide what to add for these doubts, nothing for quarantined GPUs. state: the newest."""
        on_gpus = [doubt for doubt in found if not state.devices[doubt.gpu].quarantined]
        if not on_gpus or not self._may_add(state):
            return More((), ())
        seed, budget = self._around.stored.configuration.seed, self._around.budget
        suspects = tuple(dict.fromkeys(doubt.gpu for doubt in on_gpus))
        if budget is None:
            return More(added_launches.decide(state, on_gpus, seed=seed), suspects)
        left_s = budget.ends - time.monotonic()
        return More(
            added_launches.decide(state, on_gpus, seed=seed, left_s=left_s, expected_s=budget.expected_s), suspects
        )

    def _may_add(self, state: RunState) -> bool:
        budget = self._around.budget
        waits = any(device.queue and not device.quarantined for device in state.devices.values())
        late = budget is not None and time.monotonic() >= budget.ends
        return self._applies and not (waits or late or state.stopping)
