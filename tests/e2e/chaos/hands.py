"""Strikes processes of a run through a pidfd or a limit on file sizes; never the wrong one: PID and start time fit."""

import contextlib
import os
import random
import resource
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.chaos import reader
from tests.e2e.chaos.kinds import Deed, Kind, Target
from tests.e2e.chaos.reader import Record

_TICKS_FIELD = 22
_RENAMED_S = 0.2


@dataclass(frozen=True)
class Victim:
    """A process that lives, held by a pidfd: its number cannot become another's. launch, device: of a worker."""

    pid: int
    pidfd: int
    launch: int | None = None
    device: str | None = None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal. False when it has ended."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True

    def let_go(self) -> None:
        os.close(self.pidfd)


def find(
    kind: Kind, orchestrator: int, journal: Path, cells: Mapping[str, Mapping[str, Any]], dice: random.Random
) -> Victim | None:
    """A process for that fault, chosen by the dice among those that live; None where there is none. cells: by id."""
    match kind.target:
        case Target.ORCHESTRATOR:
            return _held(orchestrator)
        case Target.WORKER:
            # What cells do to themselves is written into a file first, for which there must be room.
            workers = _live_workers(journal, "plain" if kind.deed is Deed.FULL_DISK else "")
            if not workers:
                return None
            return _member(*dice.choice(workers), cells)
        case Target.ZYGOTE:
            found = [child.pid for child in _children(orchestrator) if _told(child, "worker.zygote") and _old(child)]
            found = [pid for pid in found if pid not in {one["pid"] for _, one in _live_workers(journal)}]
            return _held(found[0]) if found else None
        case Target.TELEMETRY:
            found = [
                child.pid for child in _children(orchestrator) if _told(child, "orchestrator.gpu.telemetry.sampler")
            ]
            return _held(found[0]) if found else None


def strike(victim: Victim, kind: Kind, journal: Path, dice: random.Random) -> bool:
    """Do the deed, for a PAUSE its first half. False when the process has ended before."""
    match kind.deed:
        case Deed.SIGNAL | Deed.PAUSE:
            return victim.signal(kind.number)
        case Deed.TWICE:
            done = victim.signal(kind.number)
            time.sleep(dice.uniform(0.05, 0.3))  # two at once reach a process as one
            victim.signal(kind.number)
            return done
        case Deed.FULL_DISK:
            return _fill(victim, kind.target, journal, dice)


def _fill(victim: Victim, target: Target, journal: Path, dice: random.Random) -> bool:
    """Let no file grow: as on a full disk. The orchestrator is left a part of its next record; others, nothing."""
    size = journal.stat().st_size + dice.randrange(64) if target is Target.ORCHESTRATOR else 0
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
        _, hard = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (size, hard))
        return True
    return False


def _live_workers(journal: Path, model: str = "") -> list[tuple[Record, Record]]:
    """Start and Spawned of workers that have not left, by the journal. model: how the names of their models begin."""
    try:
        records = reader.read(journal, torn=True)
    except (OSError, reader.DamagedError):
        return []
    gone = {one["launch"] for one in records if one["type"] == "Left"}
    begun = {one["launch"]: one for one in records if one["type"] == "Start" and one["cell"].startswith(model)}
    born = [one for one in records if one["type"] == "Spawned"]
    return [(begun[one["launch"]], one) for one in born if one["launch"] in begun.keys() - gone]


def _member(start: Record, born: Record, cells: Mapping[str, Mapping[str, Any]]) -> Victim | None:
    """A worker, with its device: where its cell has several, the folder of its log tells which it is."""
    devices = cells[start["cell"]]["devices"]
    victim = _held(born["pid"], born["start_ticks"], start["launch"], devices[0])
    if victim is None or len(devices) == 1:
        return victim
    try:
        log = Path(f"/proc/{victim.pid}/fd/1").readlink()
    except OSError:
        log = Path()
    names = {str(start["attempt"]): 0, **{f"rank{rank}": rank for rank in range(1, len(devices))}}
    if log.name != "stdout.log" or log.parent.name not in names:
        victim.let_go()
        return None  # it has ended, or was born this moment
    return replace(victim, device=devices[names[log.parent.name]])


def _held(pid: int, ticks: int | None = None, launch: int | None = None, device: str | None = None) -> Victim | None:
    try:
        victim = Victim(pid, os.pidfd_open(pid), launch, device)
    except OSError:
        return None
    if ticks is None or _start_ticks(pid) == ticks:
        return victim
    victim.let_go()
    return None


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[_TICKS_FIELD - 3])


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []


def _old(process: psutil.Process) -> bool:
    """Whether it is the zygote: a worker that was just forked looks like one until it takes its own name."""
    try:
        return process.name() == "gpubench-zygote" and time.time() - process.create_time() > _RENAMED_S
    except psutil.Error:
        return False


def _told(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.Error:
        return False
