"""Show events of a run on its display: ended launches (measurements), notices, and snapshots of its progress."""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from statistics import fmean
from typing import Any, Final

from msgspec.structs import replace

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Slot, StoredRun
from orchestrator.config.yaml_schema import listed
from orchestrator.engine import progress
from orchestrator.engine.display_events import CellEnded, Display, Notice
from orchestrator.engine.kind import Advise, Kind
from orchestrator.engine.launches.live import Live
from orchestrator.plan import estimate
from orchestrator.state.added_launches import Look
from orchestrator.state.slots import RunState, SlotStatus
from orchestrator.state.time_budget import Time
from protocol.failure import Failure
from protocol.messages import Sample
from protocol.result import Result, SeriesName

COUNT_EVERY_S: Final = 5.0
"""Interval at which cells are counted by status. Counting 20,000 cells takes 10 ms."""


class Announcer:
    """Sends the events of one run to its display. The elapsed time counts from the creation of this object."""

    def __init__(self, stored: StoredRun, display: Display, kind: Kind) -> None:
        self._stored = stored
        self._kind = kind
        self._display = display
        self._devices = {device.uuid: device for device in stored.devices}
        self._alike = progress.alike(stored.plan.cells)
        self._open_ended = stored.configuration.adds_rounds
        self._expected_s = {
            cell.id: estimate.launch_s(cell, stored.configuration, self._devices[cell.devices[0]])
            for cell in stored.plan.cells
        }
        self._durations: dict[str, tuple[int, float]] = {}  # number of launches, total seconds
        self._began = time.monotonic()
        self._launches_ms: dict[str, list[float]] = defaultdict(list)  # iterations of launches, by planned cell
        self._warned = False
        self._advised = False
        self._added = False
        self._messages: set[str] = set()
        self._counted = self._began - COUNT_EVERY_S
        self._cells: Mapping[SlotStatus, int] = {}

    def tell(self, level: str, message: str, event: str = "notice", **fields: Any) -> None:  # noqa: ANN401 - JSON values of a notice
        """Show a notice. level: "info", "warning" or "error". event, fields: kind and JSON values, for log readers."""
        self._display.tell(Notice(level=level, message=message, event=event, fields=fields))

    def ended(self, state: RunState, live: Live, outcome: Result | Failure, lasted_s: float) -> None:
        """Show that a launch has ended. state: of the run, after that. lasted_s: seconds since it was requested."""
        for uuid in live.next.cell.devices:
            number, total_s = self._durations.get(uuid, (0, 0.0))
            self._durations[uuid] = number + 1, total_s + lasted_s
        event = progress.ended(state, live, live.device, outcome, self._alike)
        if isinstance(outcome, Failure):
            event = replace(event, repeated=outcome.message in self._messages)
            self._messages.add(outcome.message)
        self._display.tell(event)
        if isinstance(outcome, Result) and outcome.mismatches:
            self._wrong(event, live, outcome.mismatches)
        if isinstance(outcome, Result) and self._kind.advise is not None and not self._advised:
            self._advise(self._kind.advise, live, outcome)

    def warned(self, warning: str, advice: str) -> None:
        """Show `warning` and `advice` as one notice. "" stands for no text.

        Only the first warning and the first advice of the run are shown. Later ones are ignored.
        """
        news = ("" if self._warned else warning, "" if self._advised else advice)
        self._warned, self._advised = self._warned or bool(warning), self._advised or bool(advice)
        if any(news):
            self.tell("warning", ": ".join(filter(None, news)))

    def added(self, slots: Collection[Slot], suspects: Collection[str], look: Look) -> None:
        """Show that the launches `slots` were added because of doubts about the GPUs `suspects` (UUIDs).

        look: has the verdict of these GPUs and the maximum number of launches of a cell, which are shown.
        """
        labels = ", ".join(self._devices[uuid].label for uuid in suspects)
        number, cells = len(slots), len({cell for cell, _ in slots})
        more = f"{plural(number, 'launch', 'launches')} of {plural(cells, 'cell')}"
        most = "" if self._added else f" A cell gets at most {look.most} launches."
        self._added = True
        self.tell(
            "info",
            f"{labels}: {look.word}. Adding {more}.{most}",
            "launches_added",
            suspects=list(suspects),
            launches=number,
            cells=cells,
        )

    def _wrong(self, event: CellEnded, live: Live, mismatches: int) -> None:
        more = f"More: `gpubench-orchestrate explain {self._stored.run_id}`"
        labels = [self._devices[uuid].label for uuid in live.next.cell.devices]
        found = plural(mismatches, "wrong result")
        if len(labels) > 1:
            found += ". The report says which device is probably at fault"
        text = f"{listed(labels, 'and')}, {event.cell}: {found}. {more}"
        self.tell("error", text, "wrong_results", device=live.device.uuid, cell=event.cell_id, wrong=mismatches)

    def _advise(self, advise: Advise, live: Live, result: Result) -> None:
        planned, times_ms = live.next.planned, result.times_ms(SeriesName.ITERATION)
        if any(times_ms) and live.next.cell.id == planned:  # a smaller batch has other times
            self._launches_ms[planned].append(fmean(times_ms))
            self.warned("", advise(self._stored, self._launches_ms))

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
        """Show a snapshot of the run. live: launch token → process. samples: UUID → newest reading.

        limited: seconds spent and left, None without a time limit. stops_s: seconds until a stop or the limit has ended
        all launches; None without either. note: what idle devices wait for, or "".
        """
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
                rounds=self._kind.next_rounds is not None,
                open_ended=self._open_ended,
                stands=self._cells,
                note=note,
            )
        )
