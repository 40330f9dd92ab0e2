"""Plain lines for a pipe, a file or a dumb terminal."""

import io
import os
import re
from pathlib import Path

from orchestrator.engine.display_events import Notice
from orchestrator.terminal.outlet import PENDING_LIMIT, Outlet
from orchestrator.terminal.plain import Plain
from orchestrator.terminal.wording import event_lines
from tests.fakes.terminal import FAILED, PASSED, SNAPSHOT, STOPPED, Clock, Pipe, make


def test_plain_lines_for_events_and_progress_every_half_minute(pipe: Pipe) -> None:
    """Each event is a line with the time since the start; progress is reported at most every 30 seconds."""
    clock = Clock()
    display = Plain(Outlet(pipe.stream), quiet=False, verbose=False, now=clock)
    for _ in range(65):
        display.show(SNAPSHOT)
        clock.seconds += 1
    display.tell(PASSED)
    display.tell(FAILED)
    display.close()
    lines = pipe.read().splitlines()
    progress, later, passed, failed = lines
    assert re.match(r"\[0:30\] 12/24 .*1 without .* 1:40 left; now: GPU 0 bert-base .*warm-up", progress)
    assert later.startswith("[1:00] 12/24 ")
    assert passed == "[1:05] GPU 0  lstm inference fp32 b1: 2.1 ms, 476 sequences/s"
    assert re.match(r"\[1:05\] GPU 0  bert-base training fp32 b32: FAILED .*build, .*memory: .*size 16", failed)


def test_quiet_shows_failures_and_warnings_alone(pipe: Pipe) -> None:
    """--quiet shows nothing else."""
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


def test_verbose_shows_phases_attempts_and_evidence(pipe: Pipe) -> None:
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
    """A log to which standard output was redirected keeps its earlier lines."""
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as file:
        display = make(file)
        display.tell(PASSED)
        display.close()
        file.write("after\n")
    assert [line.split("]")[0] for line in path.read_text().splitlines()] == ["before", "[0:00", "after"]


def test_closed_pipe_does_not_end_the_run(pipe: Pipe) -> None:
    """`gpubench-orchestrate | head` continues without its reader."""
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
    """A full pipe does not block; lines in the buffer come later, whole and in order."""
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
    """The second Ctrl-C ends the launch: nothing failed, and `resume` measures it again."""
    quiet = make(pipe.stream, quiet=True)
    quiet.tell(STOPPED)
    quiet.close()
    assert pipe.read() == ""
    [line] = event_lines(STOPPED, verbose=True)
    assert re.match("GPU 0  lstm inference fp32 b1 #1: stopped; .*resume", line)
