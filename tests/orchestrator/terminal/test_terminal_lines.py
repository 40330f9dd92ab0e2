"""The plain lines that a pipe, a file or a dumb terminal gets."""

import io
import os
from pathlib import Path

from orchestrator.engine.display_events import Notice
from orchestrator.terminal.outlet import PENDING_LIMIT, Outlet
from orchestrator.terminal.plain import Plain
from orchestrator.terminal.wording import event_lines
from tests.fakes.terminal import FAILED, PASSED, SNAPSHOT, STOPPED, Clock, Pipe, make


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
