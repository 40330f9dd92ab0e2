"""A display that keeps events for the metrics, and forwards them to the user's display."""

import threading
import time
from collections import Counter, defaultdict, deque
from typing import Final

import msgspec

from orchestrator.config.naming import kind_of_run
from orchestrator.config.run_configuration import Configuration, StoredRun
from orchestrator.engine.display_events import CellEnded, Display, Notice, Snapshot
from orchestrator.figures.report import Report
from orchestrator.metrics.run_view import Figure, RunState, View
from protocol.failure import Category

_KEPT: Final = 8  # figures of a cell: the newest counts, older ones replace a withdrawn one


class Follower:
    """Display that keeps the state of one run for the threads of exporters. cells: planned cells by id.

    The engine's loop calls `show` and `tell`, the exporters call `view`.
    """

    def __init__(self, stored: StoredRun, display: Display) -> None:
        self._display = display
        self._lock = threading.Lock()
        self.cells = {cell.id: cell for cell in stored.plan.cells}
        self._figures: defaultdict[str, deque[Figure]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._failures: Counter[Category] = Counter()
        self._retries = 0
        now = time.time()
        self._view = View(
            run_id=stored.run_id,
            tool_version=stored.tool_version,
            profile=_profile(stored.configuration),
            devices=stored.devices,
            began=now,
            at=now,
            boot=now - time.monotonic(),
        )

    def view(self) -> View:
        """Return the state of the run now. The caller may keep it: collections are copied."""
        with self._lock:
            newest = {cell: good[-1] for cell, good in self._figures.items() if good}
            return msgspec.structs.replace(
                self._view, figures=newest, failures=dict(self._failures), retries=self._retries
            )

    def show(self, snapshot: Snapshot) -> None:
        """Store the snapshot for the metrics, and pass it on to the user's display."""
        self._know(snapshot=snapshot)
        self._display.show(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        """Keep or withdraw a result, count a failure, or note the end of the run. Pass the event on to the display."""
        with self._lock:
            if isinstance(event, CellEnded):
                self._ended(event)
            elif event.event == "result_withdrawn":
                self._take_back(event.fields["cell_id"])
                self._failed(event.fields["category"], again=event.fields["again"])
        if isinstance(event, Notice) and event.event == "run_ended":
            broken = event.fields["verdict"] is None
            state = RunState.BROKEN_OFF if broken else RunState.OVER
            self._know(state=state, exit_code=event.fields["exit_code"])
        self._display.tell(event)

    def judged(self, report: Report) -> None:
        """Store the verdicts of the run's report for the metrics."""
        burn_in_gpus = () if report.burn_in is None else report.burn_in.gpus
        self._know(
            health={gpu.gpu_uuid: gpu.verdict for gpu in report.health.gpus},
            node=report.health.node.verdict,
            burn_in={gpu.gpu_uuid: gpu.verdict for gpu in burn_in_gpus},
        )

    def close(self) -> None:
        """Close the user's display. The view of the run stays available."""
        self._display.close()

    def _know(self, **changes: object) -> None:
        now = time.time()
        with self._lock:
            self._view = msgspec.structs.replace(self._view, at=now, boot=now - time.monotonic(), **changes)

    def _ended(self, event: CellEnded) -> None:
        if event.failure is not None:
            self._failed(event.failure.category, again=event.again)
            return
        cell = self.cells.get(event.cell_id or "")
        if cell is None:
            return
        figure = Figure(
            label=event.label,
            uuid=cell.devices[0],
            model=cell.model,
            workload=cell.workload,
            precision=cell.precision,
            mode=cell.mode,
            batch_size=event.batch_size,
            iteration_s=None if event.iteration_ms is None else event.iteration_ms / 1e3,
            items_per_second=event.items_per_second,
        )
        self._figures[cell.id].append(figure)

    def _take_back(self, cell: str) -> None:
        if self._figures[cell]:
            self._figures[cell].pop()

    def _failed(self, category: Category, *, again: bool) -> None:
        self._failures[category] += 1
        self._retries += again


def _profile(configuration: Configuration) -> str:
    return kind_of_run(
        configuration.profile,
        configuration.preset,
        None if configuration.burn_in is None else configuration.burn_in.level,
    )
