"""What a person, a log file and a log collector see of a run."""

import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from orchestrator import terminal
from orchestrator.terminal.live import LiveDisplay
from orchestrator.terminal.outlet import PENDING_LIMIT, Outlet
from orchestrator.terminal.plain import Plain
from orchestrator.terminal.structured import Structured
from orchestrator.terminal.wording import clean, device_line, duration, event_lines, total_line
from orchestrator.view import CellEnded, DeviceLine, Display, Notice, Snapshot
from protocol.failure import Category, Failure, Phase

ROOT = Path(__file__).parents[2]
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

BUSY = DeviceLine(
    uuid="GPU-1",
    label="GPU 0",
    name="NVIDIA H200",
    cell="bert-base inference fp32",
    batch_size=32,
    phase=Phase.WARM_UP,
    fraction=0.45,
    temperature_c=64,
    power_w=691.4,
    sm_clock_mhz=1455,
)
IDLE = DeviceLine(uuid="cpu:0", label="cpu:0", name="two cores", note="waiting for its zygote")
SNAPSHOT = Snapshot(devices=(BUSY, IDLE), done=12, total=24, failed=1, elapsed_s=83, eta_s=100)
FAILED = CellEnded(
    label="GPU 0",
    cell="bert-base training fp32",
    batch_size=32,
    attempt=1,
    summary="",
    failure=Failure(
        category=Category.OUT_OF_MEMORY,
        message="tried to allocate 2 GiB\x1b]0;owned\x07\x1b[31m, 1 GiB is free",
        phase=Phase.BUILD,
        exception="torch.OutOfMemoryError",
        evidence={"free bytes": "1073741824"},
    ),
    next_step="a fresh process with batch size 16",
)
PASSED = CellEnded(
    label="GPU 0",
    cell="lstm inference fp32",
    batch_size=1,
    attempt=1,
    summary="2.1 ms, 476 sequences/s",
    iteration_ms=2.1,
    items_per_second=476.0,
)

STOPPED = CellEnded(
    label="GPU 0",
    cell="lstm inference fp32",
    batch_size=1,
    attempt=1,
    summary="stopped on request: the run was asked to stop",
    failure=Failure(category=Category.STOPPED, message="the run was asked to stop", phase=Phase.MEASURE),
    next_step="`resume` measures it again",
)


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.seconds


class Terminal:
    """A real terminal: what is written to `stream` can be read as a person's emulator would get it."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.resize(80)

    def resize(self, columns: int) -> None:
        """What a window does when it is dragged."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> str:
        """Everything written so far."""
        data = b""
        while select.select([self.master], [], [], 0.1)[0]:
            data += os.read(self.master, 65536)
        return data.decode()

    def close(self) -> None:
        """Close both ends, as far as they are open."""
        if not self.stream.closed:
            self.stream.close()
        if self.master >= 0:
            os.close(self.master)
            self.master = -1


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    opened = Terminal()
    yield opened
    opened.close()


class Pipe:
    """A pipe whose writing end is a text stream."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        self.stream = os.fdopen(writer, "w", encoding="utf-8")

    def read(self) -> str:
        """What is in it now."""
        os.set_blocking(self.reader, False)
        try:
            return os.read(self.reader, 1 << 21).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """An empty pipe."""
    opened = Pipe()
    yield opened
    os.close(opened.reader)
    opened.stream.close()


def visible(text: str) -> list[str]:
    """The lines of `text` as they look, without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


def make(stream: TextIO, *, quiet: bool = False, verbose: bool = False, log_format: str = "text") -> Display:
    """The display for `stream`, with the usual options."""
    return terminal.make(quiet=quiet, verbose=verbose, log_format=log_format, stream=stream)


# ── which display ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_terminal_gets_the_live_view_and_everything_else_lines(
    tty: Terminal, pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live on a terminal that can be redrawn; plain lines in pipes, files, on dumb terminals and with --quiet."""
    assert isinstance(make(tty.stream), LiveDisplay)
    assert isinstance(make(pipe.stream), Plain)
    assert isinstance(make(tty.stream, quiet=True), Plain)
    assert isinstance(make(tty.stream, log_format="json"), Structured)
    with (tmp_path / "log").open("w") as file:
        assert isinstance(make(file), Plain)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make(tty.stream), Plain)


# ── live ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_live_lines_fit_80_columns_and_leave_the_cursor_visible(tty: Terminal) -> None:
    """Every device and the total have a line, none wider than the terminal; the end gives the cursor back."""
    display = make(tty.stream)
    display.show(SNAPSHOT)
    drawn = tty.read()
    assert all(len(line) <= 80 for line in visible(drawn))
    shown = (
        "64 °C",
        "691 W",
        "1455 MHz",
        "fp32 b32",
        "45%",
        "warm-up",
        "waiting for its zygote",
        "12/24",
        "1 failed",
        "ETA 1:40",
    )
    assert [words for words in shown if words not in drawn] == []
    display.close()
    text = drawn + tty.read()
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_live_is_drawn_once_a_second(tty: Terminal) -> None:
    """However often the loop shows the run, the terminal is written to once a second."""
    clock = Clock()
    display = LiveDisplay(Outlet(tty.stream), verbose=False, now=clock)
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
    """A failure scrolls by above the live lines, with what will be done about it."""
    display = make(tty.stream)
    display.show(SNAPSHOT)
    tty.read()
    display.tell(FAILED)
    text = " ".join(visible(tty.read()))
    flat = re.sub(r"\s+", " ", text)
    assert "FAILED in build, out of memory: tried to allocate 2 GiB, 1 GiB is free" in flat
    assert "next: a fresh process with batch size 16" in flat
    assert flat.index("FAILED") < flat.index("12/24 launches")
    display.close()


@pytest.mark.parametrize("columns", [200, 60, 33, 5])
def test_live_follows_the_size_of_the_terminal(tty: Terminal, columns: int) -> None:
    """A terminal that becomes wider or narrower during the run gets lines that fit from the next second on."""
    clock = Clock()
    display = LiveDisplay(Outlet(tty.stream), verbose=False, now=clock)
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
    display = LiveDisplay(outlet, verbose=False, now=clock)
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
    """While nobody reads the terminal every call returns at once, and what is kept for it is bounded."""
    clock = Clock()
    outlet = Outlet(tty.stream)
    display = LiveDisplay(outlet, verbose=False, now=clock)
    begin = time.monotonic()
    for _ in range(2000):
        clock.seconds += 1
        display.show(SNAPSHOT)
        display.tell(FAILED)
    assert time.monotonic() - begin < 60
    assert outlet.congested
    assert not outlet.gone
    display.close()


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_plain_lines_for_events_and_progress_every_half_minute(pipe: Pipe) -> None:
    """Each event is a line with the time since the start; progress is told at most every 30 seconds."""
    clock = Clock()
    display = Plain(Outlet(pipe.stream), quiet=False, verbose=False, now=clock)
    for _ in range(65):
        display.show(SNAPSHOT)
        clock.seconds += 1
    display.tell(PASSED)
    display.tell(FAILED)
    display.close()
    lines = pipe.read().splitlines()
    assert lines[0].startswith("[0:30] 12/24 launches, 1 failed, ETA 1:40; GPU 0 bert-base inference fp32 b32 warm-up")
    assert lines[1].startswith("[1:00] 12/24 launches")
    assert lines[2] == "[1:05] GPU 0  lstm inference fp32 b1: 2.1 ms, 476 sequences/s"
    assert lines[3] == (
        "[1:05] GPU 0  bert-base training fp32 b32: FAILED in build, out of memory: "
        "tried to allocate 2 GiB, 1 GiB is free; next: a fresh process with batch size 16"
    )
    assert len(lines) == 4


def test_quiet_tells_failures_and_warnings_alone(pipe: Pipe) -> None:
    """--quiet lets failures and warnings through and nothing else."""
    clock = Clock()
    display = Plain(Outlet(pipe.stream), quiet=True, verbose=False, now=clock)
    clock.seconds += 100
    display.show(SNAPSHOT)
    for event in (PASSED, Notice(level="info", message="hello"), Notice(level="warning", message="hot"), FAILED):
        display.tell(event)
    display.close()
    text = pipe.read()
    assert len(text.splitlines()) == 2
    assert "warning: hot" in text
    assert "FAILED" in text


def test_verbose_tells_phases_attempts_and_evidence(pipe: Pipe) -> None:
    """-v adds each phase once, the attempt and the evidence of a failure."""
    display = make(pipe.stream, verbose=True)
    display.show(SNAPSHOT)
    display.show(SNAPSHOT)
    display.tell(FAILED)
    display.close()
    text = pipe.read()
    assert text.count(": warm-up") == 1
    assert "bert-base training fp32 b32 #1: FAILED" in text
    assert "exception: torch.OutOfMemoryError" in text
    assert "free bytes: 1073741824" in text


def test_lines_are_appended_to_a_file(tmp_path: Path) -> None:
    """A log that standard output was redirected to keeps what stood in it before."""
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as file:
        display = make(file)
        display.tell(PASSED)
        display.close()
        file.write("after\n")
    assert [line.split("]")[0] for line in path.read_text().splitlines()] == ["before", "[0:00", "after"]


def test_closed_pipe_does_not_end_the_run(pipe: Pipe) -> None:
    """`gpubench-orchestrate | head` goes on without its reader."""
    outlet = Outlet(pipe.stream)
    reader = os.dup(pipe.reader)
    os.close(pipe.reader)
    os.close(reader)
    display = Plain(outlet, quiet=False, verbose=False)
    display.tell(PASSED)
    display.close()
    assert outlet.gone
    pipe.reader = os.open(os.devnull, os.O_RDONLY)


def test_reader_that_sleeps_does_not_hold_up_the_run(pipe: Pipe) -> None:
    """A full pipe blocks nobody; what fits into the buffer comes later, whole lines in order."""
    outlet = Outlet(pipe.stream)
    display = Plain(outlet, quiet=False, verbose=False)
    for number in range(30_000):
        display.tell(Notice(level="info", message=f"line {number} {'x' * 50}"))
    assert outlet.congested
    received = ""
    while chunk := pipe.read():
        received += chunk
        outlet.flush()
    display.close()
    numbers = [int(line.split()[2]) for line in received.splitlines()]
    assert numbers == list(range(len(numbers)))
    assert PENDING_LIMIT < len(received) < PENDING_LIMIT + (1 << 18)


def test_streams_without_a_descriptor_work() -> None:
    """Test runners hand over streams that are not files."""
    stream = io.StringIO()
    display = make(stream)
    display.tell(PASSED)
    display.close()
    assert "476 sequences/s" in stream.getvalue()


def test_a_launch_that_was_stopped_is_no_failure(pipe: Pipe) -> None:
    """The second Ctrl-C ends what runs: nothing failed, and `resume` measures it again."""
    quiet = make(pipe.stream, quiet=True)
    quiet.tell(STOPPED)
    quiet.close()
    assert pipe.read() == ""
    [line] = event_lines(STOPPED, verbose=True)
    assert line == "GPU 0  lstm inference fp32 b1 #1: stopped; `resume` measures it again"


# ── json ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_events_are_one_object_a_line(pipe: Pipe) -> None:
    """--log-format json: timestamp, level and event in every object; failures with category and next step."""
    clock = Clock()
    display = Structured(Outlet(pipe.stream), quiet=False, verbose=False, now=clock)
    display.tell(PASSED)
    display.tell(FAILED)
    display.tell(Notice(level="warning", message="a\x1b[31m\nb", fields={"pid": 4711}))
    display.tell(Notice(level="info", message="two cells", event="run_started", fields={"cells": 2}))
    clock.seconds += 30
    display.show(SNAPSHOT)
    display.close()
    text = pipe.read()
    ended, failed, notice, started, progress = map(json.loads, text.splitlines())
    assert all({"timestamp", "level", "event"} <= set(each) for each in (ended, failed, notice, progress))
    assert (ended["event"], ended["level"], ended["cell"]) == ("cell_ended", "info", "lstm inference fp32")
    assert (failed["level"], failed["failure"]["category"]) == ("error", "out of memory")
    assert failed["next_step"] == "a fresh process with batch size 16"
    assert "evidence" not in failed["failure"]
    assert (ended["iteration_ms"], ended["items_per_second"]) == (2.1, 476.0)
    assert (notice["event"], notice["level"], notice["message"], notice["pid"]) == ("notice", "warning", "a\nb", 4711)
    assert (started["event"], started["level"], started["cells"]) == ("run_started", "info", 2)
    assert (progress["done"], progress["devices"][0]["power_w"]) == (12, 691.4)
    assert ended["device"] == failed["device"] == progress["devices"][0]["device"] == "GPU 0"
    assert '"label"' not in text
    assert "\\u001b" not in text


def test_json_quiet_and_verbose(pipe: Pipe) -> None:
    """--quiet drops what passed; -v adds phases and evidence."""
    quiet = make(pipe.stream, quiet=True, log_format="json")
    quiet.tell(PASSED)
    quiet.show(SNAPSHOT)
    quiet.close()
    assert pipe.read() == ""
    verbose = make(pipe.stream, verbose=True, log_format="json")
    verbose.show(SNAPSHOT)
    verbose.tell(FAILED)
    verbose.close()
    phase, failed = map(json.loads, pipe.read().splitlines())
    assert (phase["event"], phase["phase"]) == ("phase", "warm-up")
    assert failed["failure"]["evidence"] == {"free bytes": "1073741824"}


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared\x1bc", "cleared"),
        ("two\r\nlines\tand\x00nul", "two lines and nul"),
        ("right\u202eto left", "right to left"),
        ("GPU-5317 “ünï”", "GPU-5317 “ünï”"),
        ("lone \udcff surrogate", "lone surrogate"),
    ],
)
def test_terminal_escapes_are_stripped(raw: str, shown: str) -> None:
    """What came from outside is shown on one line and cannot command the terminal."""
    assert clean(raw) == shown


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
