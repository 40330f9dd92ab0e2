"""The live view on a terminal, and when there is one."""

import os
import re
import time
from pathlib import Path

import pytest

from orchestrator.terminal import Silent
from orchestrator.terminal.live import LiveDisplay
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.plain import Plain
from orchestrator.terminal.structured import Structured
from tests.fakes.terminal import FAILED, PASSED, SNAPSHOT, Clock, Pipe, Terminal, make, visible

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def test_a_terminal_gets_the_live_view_and_everything_else_lines(
    tty: Terminal, pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live on a terminal that can be redrawn; plain lines in pipes, files and on dumb terminals; nothing with -qq."""
    assert isinstance(make(tty.stream), LiveDisplay)
    assert isinstance(make(pipe.stream), Plain)
    assert isinstance(make(pipe.stream, quiet=1), Plain)
    assert isinstance(make(tty.stream, quiet=2), Silent)
    assert isinstance(make(tty.stream, quiet=2, log_format="json"), Silent)
    assert isinstance(make(tty.stream, log_format="json"), Structured)
    with (tmp_path / "log").open("w") as file:
        assert isinstance(make(file), Plain)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make(tty.stream), Plain)


def test_live_lines_fit_80_columns_and_leave_the_cursor_visible(tty: Terminal) -> None:
    """Every device and the total have a line, none wider than the terminal; the end gives the cursor back."""
    display = make(tty.stream)
    display.show(SNAPSHOT)
    drawn = tty.read()
    assert all(len(line) <= 80 for line in visible(drawn))
    shown = ("64 °C", "691 W", "1455 MHz", "fp32 b32", "45%", "warm-up", "12/24", "1 without result", "1:40 left")
    assert [words for words in shown if words not in drawn] == []
    display.close()
    text = drawn + tty.read()
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_a_quiet_terminal_has_one_line_of_progress(tty: Terminal) -> None:
    """A quiet terminal shows the progress. Of the events it shows only failures and warnings."""
    display = make(tty.stream, quiet=1)
    display.show(SNAPSHOT)
    drawn = tty.read()
    assert "12/24" in drawn
    assert "bert-base" not in drawn
    display.tell(PASSED)
    assert "lstm" not in tty.read()
    display.tell(FAILED)
    assert "out of memory" in tty.read()
    display.close()


def test_live_is_drawn_once_a_second(tty: Terminal) -> None:
    """However often the loop shows the run, the terminal is written once a second."""
    clock = Clock()
    display = LiveDisplay(Outlet(tty.stream), quiet=False, verbose=False, now=clock)
    display.show(SNAPSHOT)
    assert tty.read()
    for _ in range(50):
        clock.seconds += 0.015
        display.show(SNAPSHOT)
    assert tty.read() == ""
    clock.seconds += 0.3
    display.show(SNAPSHOT)
    assert "12/24" in tty.read()
    display.close()


def test_live_prints_failures_above_with_the_next_step(tty: Terminal) -> None:
    """A failure scrolls by above the live lines, with the next step."""
    display = make(tty.stream)
    display.show(SNAPSHOT)
    tty.read()
    display.tell(FAILED)
    flat = " ".join(" ".join(visible(tty.read())).split())
    assert re.search("FAILED .*build, .*memory: .*size 16.*12/24", flat)
    display.close()


@pytest.mark.parametrize("columns", [200, 60, 33, 5])
def test_live_follows_the_size_of_the_terminal(tty: Terminal, columns: int) -> None:
    """A terminal that becomes wider or narrower during the run gets lines that fit from the next second on."""
    clock = Clock()
    display = LiveDisplay(Outlet(tty.stream), quiet=False, verbose=False, now=clock)
    display.show(SNAPSHOT)
    tty.read()
    tty.resize(columns)
    clock.seconds += 1
    display.show(SNAPSHOT)
    drawn = visible(tty.read())
    assert max(map(len, drawn)) <= max(columns, 20)
    assert max(map(len, drawn)) > 80 or columns < 80
    display.close()
    assert SHOW_CURSOR in tty.read()


def test_closed_terminal_does_not_end_the_run(tty: Terminal) -> None:
    """When the terminal window is closed, the display goes silent and raises nothing."""
    clock = Clock()
    outlet = Outlet(tty.stream)
    display = LiveDisplay(outlet, quiet=False, verbose=False, now=clock)
    display.show(SNAPSHOT)
    os.close(tty.master)
    tty.master = -1
    for _ in range(3):
        clock.seconds += 1
        display.show(SNAPSHOT)
        display.tell(FAILED)
    display.close()
    assert outlet.gone


def test_stopped_terminal_does_not_hold_up_the_run(tty: Terminal) -> None:
    """While the terminal is not read, every call returns at once, and the buffer is bounded."""
    clock = Clock()
    outlet = Outlet(tty.stream)
    display = LiveDisplay(outlet, quiet=False, verbose=False, now=clock)
    begin = time.monotonic()
    for _ in range(300):
        clock.seconds += 1
        display.show(SNAPSHOT)
        display.tell(FAILED)
    assert time.monotonic() - begin < 60
    assert outlet.congested
    assert not outlet.gone
    display.close()
