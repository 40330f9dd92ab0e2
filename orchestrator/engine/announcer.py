"""Show on the display what becomes of the run: ended launches, notices, snapshots (progress.py)."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Slot, StoredRun
from orchestrator.engine import progress
from orchestrator.engine.display_events import Display, Notice
from orchestrator.engine.launches.live import Live
from orchestrator.plan import estimate
from orchestrator.state.slots import RunState, SlotStatus
from orchestrator.state.time_budget import Time
from orchestrator.stats.siblings import MOST_LAUNCHES
from protocol.failure import Failure
from protocol.messages import Sample
from protocol.result import Result

COUNT_EVERY_S: Final = 5.0
"""Interval at which cells are counted by status: 10 ms for 20,000 of them."""


class Announcer:
    """For one run, which begins now. rounds: launches are added until its time is up."""

    def __init__(self, stored: StoredRun, display: Display, *, rounds: bool) -> None:
        self._display = display
        self._devices = {device.uuid: device for device in stored.devices}
        self._alike = progress.alike(stored.plan.cells)
        self._rounds = rounds
        self._expected_s = {
            cell.id: estimate.launch_s(cell, stored.configuration, self._devices[cell.devices[0]])
            for cell in stored.plan.cells
        }
        self._durations: dict[str, tuple[int, float]] = {}  # how many launches, how many seconds in all
        self._began = time.monotonic()
        self._counted = self._began - COUNT_EVERY_S
        self._cells: Mapping[SlotStatus, int] = {}

    def tell(self, level: str, message: str, event: str = "notice", **fields: Any) -> None:  # noqa: ANN401 - JSON values of a notice
        """Show a notice about the run as a whole. event, fields: as in Notice."""
        self._display.tell(Notice(level=level, message=message, event=event, fields=fields))

    def ended(self, state: RunState, live: Live, outcome: Result | Failure, lasted_s: float) -> None:
        """A launch is over, after `lasted_s` seconds. state: after its end."""
        for uuid in live.next.cell.devices:
            number, total_s = self._durations.get(uuid, (0, 0.0))
            self._durations[uuid] = number + 1, total_s + lasted_s
        self._display.tell(progress.ended(state, live, live.device, outcome, self._alike))

    def added(self, slots: Collection[Slot], suspects: Collection[str]) -> None:
        """Launches were added because these GPUs are SUSPECT."""
        who = ", ".join(self._devices[uuid].label for uuid in suspects)
        number, cells = len(slots), len({cell for cell, _ in slots})
        more = f"{plural(number, 'launch', 'launches')} of {plural(cells, 'cell')}"
        self.tell(
            "info",
            f"{who}: SUSPECT. {more} more, on all GPUs of that kind: up to {MOST_LAUNCHES} of each cell may settle it.",
            "launches_added",
            suspects=list(suspects),
            launches=number,
            cells=cells,
        )

    def show(
        self,
        state: RunState,
        live: Mapping[str, Live],
        samples: Mapping[str, Sample],
        *,
        limited: Time | None,
        stops_s: float | None,
        note: str,
    ) -> None:
        """Show a snapshot. limited: None without a time limit. stops_s, note: as in progress.snapshot."""
        now = time.monotonic()
        if now >= self._counted + COUNT_EVERY_S or not live:
            self._counted, self._cells = now, progress.cells(state)
        self._display.show(
            progress.snapshot(
                state,
                tuple(self._devices.values()),
                live,
                samples,
                self._alike,
                elapsed_s=now - self._began,
                launch_s={device: total_s / number for device, (number, total_s) in self._durations.items()},
                expected_s=self._expected_s,
                limited=limited,
                stops_s=stops_s,
                rounds=self._rounds,
                stands=self._cells,
                note=note,
            )
        )
