"""The words of all views: clean, short enough, and cheap to import."""

import subprocess
import sys

import pytest

from orchestrator.system.plain_text import plain
from orchestrator.terminal.wording import device_line, duration, total_line
from tests.fakes.nvml import ROOT
from tests.fakes.terminal import BUSY, IDLE, SNAPSHOT


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared\x1bc", "cleared"),
        ("two\r\nlines\tand\x00nul", "two lines andnul"),
        ("right\u202eto left", "rightto left"),
        ("GPU-5317 “ünï”", "GPU-5317 “ünï”"),
        ("lone \udcff surrogate", "lone surrogate"),
    ],
)
def test_terminal_escapes_are_stripped(raw: str, shown: str) -> None:
    """External text is shown on one line and cannot control the terminal."""
    assert plain(raw) == shown


@pytest.mark.parametrize("ascii_only", [True, False])
def test_lines_never_exceed_the_width(*, ascii_only: bool) -> None:
    """Whatever the width, a line fits, and terminals that know ASCII alone get ASCII."""
    for width in range(1, 200):
        for line in (
            device_line(BUSY, width, ascii_only=ascii_only),
            device_line(IDLE, width, ascii_only=ascii_only),
            total_line(SNAPSHOT, width, ascii_only=ascii_only),
        ):
            assert len(line) <= width
            assert line.isascii() or not ascii_only


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (3600, "1:00:00"), (-1, "0:00")])
def test_durations(seconds: float, text: str) -> None:
    """Durations read as on a clock."""
    assert duration(seconds) == text


def test_rich_and_structlog_are_imported_late() -> None:
    """--help imports the package and must stay fast."""
    code = "import sys, orchestrator.terminal; sys.exit(bool({'rich', 'structlog'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
