"""Lines for logs and for terminals that cannot be redrawn."""

from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.system.plain_text import plain
from orchestrator.terminal.log_display import LogDisplay
from orchestrator.terminal.wording import duration, event_lines, is_loud, launch_words, progress_line


class Plain(LogDisplay):
    """Prints lines that begin with the time since the display was made, such as "[1:05]" for 65 seconds."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Print the event. If quiet, print only warnings, errors and failed launches, but not stopped ones."""
        if is_loud(event) or not self._quiet:
            for line in event_lines(event, verbose=self._verbose):
                self._print(line)

    def _write_phase(self, line: DeviceLine) -> None:
        words = launch_words(line.cell or "", line.batch_size, line.attempt, verbose=True)
        self._print(f"{plain(line.label)}  {words}: {line.phase}")

    def _write_progress(self, snapshot: Snapshot) -> None:
        self._print(progress_line(snapshot))

    def _print(self, text: str) -> None:
        self._outlet.write(f"[{duration(self._now() - self._began)}] {text}\n")
        self._outlet.flush()
