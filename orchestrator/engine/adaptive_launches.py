"""Add launches (measurements in fresh processes) after the planned ones, while the results leave doubts about a GPU.

By default such a GPU is SUSPECT: perhaps slower than identical ones.
"""

import time
from typing import NamedTuple

from orchestrator.analysis import evidence
from orchestrator.config.run_configuration import Slot, StoredRun
from orchestrator.engine.kind import Kind
from orchestrator.engine.run_context import RunContext
from orchestrator.state import added_launches, archive
from orchestrator.state.added_launches import Look
from orchestrator.state.slots import RunState
from protocol.paths import RunPaths


class More(NamedTuple):
    """Launches to add, as (cell id, round); may be empty. suspects: UUIDs of the GPUs in doubt."""

    slots: tuple[Slot, ...]
    suspects: tuple[str, ...]


@evidence.collector_off()
def look(paths: RunPaths, stored: StoredRun, kind: Kind) -> Look:
    """Read all results, and return which GPUs they leave in doubt, and in which cells.

    Call it while no launch runs. Raises RunFolderError if a file of the run is damaged.
    """
    loaded = archive.load(paths, stored, alive=True)
    return kind.look(loaded, evidence.gather(loaded, goes_on=True))


class AdaptiveLaunches:
    """Decides which launches to add to one run."""

    def __init__(self, around: RunContext) -> None:
        self._around = around
        self._applies = around.kind.adds_launches(around.stored.configuration, around.stored.devices)

    def look(self, state: RunState) -> Look:
        """Return the doubts that the results leave, or an empty Look if no launch may be added. Reads all results."""
        around = self._around
        return look(around.paths, around.stored, around.kind) if self._may_add(state) else Look()

    def decide(self, state: RunState, look: Look) -> More:
        """Choose launches for the doubts in `look`, except doubts about quarantined GPUs.

        The answer has no launches if planned ones still wait, the run is stopping, or its time is used up. A cell that
        already has `look.most` launches gets no more. A mode (solo, loaded) gets none if its launches do not fit into
        the remaining time.
        """
        on_gpus = [doubt for doubt in look.doubts if not state.devices[doubt.gpu].quarantined]
        if not on_gpus or not self._may_add(state):
            return More((), ())
        seed, budget = self._around.stored.configuration.seed, self._around.budget
        suspects = tuple(dict.fromkeys(doubt.gpu for doubt in on_gpus))
        if budget is None:
            return More(added_launches.decide(state, on_gpus, seed=seed, most=look.most), suspects)
        left_s, expected_s = budget.ends - time.monotonic(), budget.expected_s
        slots = added_launches.decide(state, on_gpus, seed=seed, most=look.most, left_s=left_s, expected_s=expected_s)
        return More(slots, suspects)

    def _may_add(self, state: RunState) -> bool:
        budget = self._around.budget
        waits = any(device.queue and not device.quarantined for device in state.devices.values())
        late = budget is not None and time.monotonic() >= budget.ends
        return self._applies and not (waits or late or state.stopping)
