"""Adoption: the orchestrator becomes the parent of a worker. The worker ends when the orchestrator ends.

    zygote ── fork ──▶ middle ── fork ──▶ worker        (or: orchestrator ── spawn ──▶ worker)
                         └ exits                └ is adopted by the orchestrator, the nearest child subreaper

Only a parent can read an exit status through a pidfd, so the worker waits until the orchestrator is its parent.
"""

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from protocol.exit_codes import WorkerExit
from protocol.messages import LaunchSpec
from protocol.paths import LaunchPaths

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_ADOPTION_TIMEOUT_S: Final = 10.0
_ADOPTION_POLL_S: Final = 0.0005
_OOM_SCORE: Final = "1000"


def become(spec: LaunchSpec, born_of: int) -> int:
    """Set this process up as the worker of launch `spec`. Returns the file descriptor of fault.log.

    Redirects output to the launch's log files, sets environment variables and CPU cores, starts a process session
    (setsid), and has the kernel kill this process when the orchestrator ends. Exits with WorkerExit.NOT_ADOPTED if the
    orchestrator is not the parent within 10 s. born_of: PID of this process's first parent: the middle process (see the
    module), or the orchestrator.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    be_called("gpubench-worker")
    fault_log = _redirect(LaunchPaths(Path(spec.folder)))
    _await_parent(spec.parent_pid, born_of)
    die_with_parent(spec.parent_pid)
    _offer_to_the_oom_killer()
    os.environ.update(spec.environment)
    if spec.cpus:
        os.sched_setaffinity(0, set(spec.cpus) & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    return fault_log


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends. Exits (NOT_ADOPTED) if `parent_pid` is not the parent."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent_pid:
        os._exit(WorkerExit.NOT_ADOPTED)


def be_called(name: str) -> None:
    """Set the name of this process in ps and top, to the first 15 bytes of `name`."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def settle() -> None:
    """Collect garbage, then gc.freeze() all objects: later collections would copy the memory that forks share."""
    gc.collect()
    gc.freeze()


def rooms_root() -> str:
    """Return the path of the folder that contains the imported package `worker`."""
    return str(Path(__file__).resolve().parents[1])


def check_rooms(expected: str) -> None:
    """Exit with WorkerExit.WRONG_ROOMS unless the packages worker and protocol lie in the folder `expected`."""
    import protocol

    for room, file in (("worker", __file__), ("protocol", protocol.__file__)):
        found = str(Path(str(file)).resolve().parents[1])
        if found != expected:
            print(  # noqa: T201 - the log file is the one place where this can be said
                f"the package '{room}' was imported from {found}, which shadows the one in {expected}", file=sys.stderr
            )
            sys.stderr.flush()
            os._exit(WorkerExit.WRONG_ROOMS)


def _prctl(option: int, argument: ctypes.c_ulong | ctypes.c_char_p) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _await_parent(parent_pid: int, born_of: int) -> None:
    give_up = time.monotonic() + _ADOPTION_TIMEOUT_S  # the orchestrator may be dead already
    while (parent := os.getppid()) != parent_pid:
        if parent != born_of or time.monotonic() > give_up:
            os._exit(WorkerExit.NOT_ADOPTED)
        time.sleep(_ADOPTION_POLL_S)


def _redirect(paths: LaunchPaths) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    for path, target in ((paths.stdout, 1), (paths.stderr, 2)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, target)
        os.close(opened)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO lacks what TextIOWrapper has
    fault_log = os.open(paths.fault, flags, 0o644)
    faulthandler.enable(file=fault_log, all_threads=True)
    return fault_log


def _offer_to_the_oom_killer() -> None:
    try:
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    except OSError as error:
        print(f"oom_score_adj could not be raised: {error}", file=sys.stderr)  # noqa: T201 - kept as evidence in the log
