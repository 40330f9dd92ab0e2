"""What the views of a run are tried on: a snapshot, what happens in it, a real terminal and a real pipe."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
from typing import TextIO

from orchestrator import terminal
from orchestrator.engine.display_events import CellEnded, DeviceLine, Display, Snapshot
from protocol.failure import Category, Failure, Phase

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
SNAPSHOT = Snapshot(devices=(BUSY, IDLE), done=12, total=24, share=0.5, failed=1, elapsed_s=83, eta_s=100)
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
        return self.seconds


class Terminal:
    """A real terminal: what is written to `stream` can be read as a person's emulator would get it."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.resize(80)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> str:
        data = b""
        while select.select([self.master], [], [], 0.1)[0]:
            data += os.read(self.master, 65536)
        return data.decode()

    def close(self) -> None:
        if not self.stream.closed:
            self.stream.close()
        if self.master >= 0:
            os.close(self.master)
            self.master = -1


class Pipe:
    """A pipe whose writing end is a text stream."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        self.stream = os.fdopen(writer, "w", encoding="utf-8")

    def read(self) -> str:
        os.set_blocking(self.reader, False)
        try:
            return os.read(self.reader, 1 << 21).decode()
        except BlockingIOError:
            return ""


def visible(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


def make(stream: TextIO, *, quiet: int = 0, verbose: bool = False, log_format: str = "text") -> Display:
    return terminal.make(quiet=quiet, verbose=verbose, log_format=log_format, stream=stream)
