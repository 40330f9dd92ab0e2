"""A run whose clock is set in the middle: the time of day comes from a file, everything else is real."""

from pathlib import Path

from orchestrator.store.journal_records import ClockSet, End
from tests.fakes import faults
from tests.fakes.injection import inject
from tests.fakes.node import start

DAY_S = 86_400.0
INJECTED = """
import time
from pathlib import Path
_real, _by = time.time, Path({file!r})
time.time = lambda: _real() + float(_by.read_text())
"""


def test_a_clock_that_jumps_is_written_down_and_ends_nothing(tmp_path: Path) -> None:
    """A day back, then two days on: every cell is measured, no deadline is missed, and the journal tells both."""
    by = tmp_path / "by"
    by.write_text("0")
    models = faults.model("one", seconds=2.5), faults.model("two", seconds=2.5)
    injected = inject(tmp_path / "injected", INJECTED.format(file=str(by)))
    node = start(tmp_path / "run", *models, environment=injected)
    for times, offset_s in ((1, -DAY_S), (2, DAY_S)):
        node.until(lambda times=times: len(node.of(End)) >= times - 1 and node.working(""))
        fresh = by.with_suffix(".new")
        fresh.write_text(str(offset_s))
        fresh.replace(by)
        node.until(lambda times=times: len(node.of(ClockSet)) == times)
    report = node.ended()
    assert [round(one.by_s / DAY_S) for one in node.of(ClockSet)] == [-1, 2]
    assert "by -86,400 s" in node.output
    assert all(0 < (one.lasted_ms or 0) < 60_000 for one in node.archive().attempts)
    assert report["summary"]["cells"]["ok"] == 2
