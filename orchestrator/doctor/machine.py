"""Examine the machine, and the limits of user and job. The thresholds are rules of thumb, not measurements."""

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.config.naming import plural
from orchestrator.doctor import Finding, Level, finding_of
from orchestrator.engine.launches.link import Link
from orchestrator.errors import UserError
from orchestrator.store import folders
from orchestrator.system import cgroups, process_start, temporary
from orchestrator.system.cgroups import Limits

GIB: Final = 2**30
MEMORY_A_GPU: Final = 3 * GIB
"""Bytes of host memory for each GPU's worker: torch, a CUDA context, weights on their way to the GPU."""
MEMORY_BESIDE: Final = 2 * GIB
DISK_MIN: Final = GIB
DISK_NONE: Final = GIB // 16
SHM: Final = "/dev/shm"  # noqa: S108 - its size is read, nothing is written
SHM_MIN: Final = GIB
FILES_MIN: Final = 1024
PROCESSES_A_GPU: Final = 64
"""Processes and threads for each GPU. A worker has one thread per core, and those of CUDA."""

_UNLIMITED: Final = resource.RLIM_INFINITY


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Free space where a run writes. what: purpose of the folder. folder: None if there is no usable one.

    wrong: why writing fails, or "". free_bytes: None if writing fails.
    """

    what: str
    folder: str | None
    free_bytes: int | None = None
    wrong: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the machine. cores: usable by this process. memory_available: in bytes. allowed: limits by cgroups.

    cores_of_machine: all cores, also those that this process may not use. disks: folders where a run writes. shm_bytes:
    size of /dev/shm, None if unknown. ulimits: option of ulimit ("-n") → soft limit of this process, -1 for none; in
    bytes for "-v" and "-f". sockets_wrong, rooms_wrong: why sockets, or imports of gpubench's packages, would fail; ""
    if they work.
    """

    cores: int
    cores_of_machine: int
    memory_available: int
    allowed: Limits = Limits()
    disks: tuple[Disk, ...] = ()
    shm_bytes: int | None = None
    ulimits: Mapping[str, int] = {}
    sockets_wrong: str = ""
    rooms_wrong: str = ""


def look(runs_folder: str) -> Facts:
    """Collect the facts about the machine. It tries to write files and to make a socket.

    runs_folder: where runs would be written.
    """
    return Facts(
        cores=len(os.sched_getaffinity(0)),
        cores_of_machine=os.cpu_count() or 1,
        memory_available=psutil.virtual_memory().available,
        allowed=cgroups.limits(),
        disks=tuple(
            _disk(what, folder)
            for what, folder in (
                ("runs", Path(runs_folder)),
                ("weights", folders.default_cache(os.environ, os.getuid())),
                ("temporary files", temporary.folder()),
            )
        ),
        shm_bytes=_total(SHM),
        ulimits={
            "-n": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "-u": resource.getrlimit(resource.RLIMIT_NPROC)[0],
            "-v": resource.getrlimit(resource.RLIMIT_AS)[0],
            "-f": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
        },
        sockets_wrong=_error(_open_link),
        rooms_wrong=_error(process_start.check_rooms),
    )


def judge(facts: Facts, gpus: int) -> Iterator[Finding]:
    """Yield findings about the machine, good ones too. gpus: number of GPUs that would work at once. Pure."""
    yield from _cores(facts, gpus)
    yield from _memory(facts, gpus)
    yield from (_of_disk(disk) for disk in facts.disks)
    yield from _shared_memory(facts)
    yield from _ulimits(facts, gpus)
    for subject, wrong in (("Sockets", facts.sockets_wrong), ("Packages", facts.rooms_wrong)):
        if wrong:
            yield finding_of(Level.BROKEN, subject, wrong)


def _cores(facts: Facts, gpus: int) -> Iterator[Finding]:
    quota = facts.allowed.cores
    message = f"{facts.cores} of {facts.cores_of_machine}"
    if quota is not None and quota < facts.cores:
        message = f"{message}, but CPU time for only {quota:g}: processes are throttled during measurements"
        fix = "Give the container or job whole cores (docker --cpuset-cpus) instead of a share (docker --cpus)"
        yield Finding(Level.WARNING, "Cores", message, fix)
    elif facts.cores < gpus + 1:
        message = f"{message} for {plural(gpus, 'GPU')}: each needs one core, and the orchestrator one more"
        fix = "Give the container or job more cores, or measure fewer GPUs at once (--gpu-ids, --solo)"
        yield Finding(Level.WARNING, "Cores", message, fix)
    else:
        yield Finding(Level.OK, "Cores", message)


def _memory(facts: Facts, gpus: int) -> Iterator[Finding]:
    limit = facts.allowed.memory_bytes
    usable = facts.memory_available if limit is None else min(limit, facts.memory_available)
    wanted = MEMORY_BESIDE + max(gpus, 1) * MEMORY_A_GPU
    bound = "" if limit is None else f" (the control group allows {limit / GIB:.1f} GiB)"
    message = f"{usable / GIB:.1f} GiB available{bound}"
    if usable >= wanted:
        yield Finding(Level.OK, "Memory", message)
        return
    message = f"{message}, but {plural(max(gpus, 1), 'device')} at once may need {wanted / GIB:.0f} GiB"
    fix = "Give the container or job more memory, end other programs, or measure one GPU at a time (--solo)"
    yield Finding(Level.WARNING, "Memory", message, fix)


def _of_disk(disk: Disk) -> Finding:
    subject = "Disk"
    if disk.folder is None:
        return Finding(Level.BROKEN, subject, disk.wrong, fix=temporary.REMEDY)
    if disk.free_bytes is None:
        option = {"runs": "--runs-folder", "weights": "XDG_CACHE_HOME"}.get(disk.what, "TMPDIR")
        message = f"the folder {disk.folder} (for {disk.what}) cannot be written: {disk.wrong}"
        return Finding(Level.BROKEN, subject, message, fix=f"Name another folder with {option}")
    message = f"{disk.free_bytes / GIB:.1f} GiB free for {disk.what}, in the folder {disk.folder}"
    if disk.free_bytes < DISK_MIN:
        level = Level.BROKEN if disk.free_bytes < DISK_NONE else Level.WARNING
        return Finding(level, subject, message, fix="Free some space")
    return Finding(Level.OK, subject, message)


def _shared_memory(facts: Facts) -> Iterator[Finding]:
    if facts.shm_bytes is not None and facts.shm_bytes < SHM_MIN:
        yield Finding(
            Level.WARNING,
            "Memory",
            f"{SHM} has {facts.shm_bytes / 2**20:.0f} MiB: transfers between GPUs, and models of your own that load "
            "data with several processes, may need more",
            fix="docker run --shm-size=8g, or --ipc=host",
        )


def _ulimits(facts: Facts, gpus: int) -> Iterator[Finding]:
    limits = {name: value for name, value in facts.ulimits.items() if value != _UNLIMITED}
    if limits.get("-n", FILES_MIN) < FILES_MIN:
        yield _limit(Level.WARNING, "-n", f"{limits['-n']} open files per process", f"ulimit -n {FILES_MIN}")
    processes = min(filter(None, (limits.get("-u"), facts.allowed.processes)), default=None)
    if processes is not None and processes < max(gpus, 1) * PROCESSES_A_GPU:
        message = f"{processes} processes and threads for {max(gpus, 1)} devices"
        yield _limit(Level.WARNING, "-u", message, "Raise ulimit -u, in a container --pids-limit")
    if "-v" in limits:
        message = f"{limits['-v'] / GIB:.0f} GiB of address space: CUDA reserves more than the memory of all GPUs"
        yield _limit(Level.BROKEN if gpus else Level.WARNING, "-v", message, "ulimit -v unlimited")
    if "-f" in limits:
        message = f"files of {limits['-f'] / 2**20:.0f} MiB: a larger write kills the process"
        yield _limit(Level.WARNING, "-f", message, "ulimit -f unlimited")


def _limit(level: Level, name: str, allowed: str, fix: str) -> Finding:
    return Finding(level, "Limits", f"ulimit {name} allows {allowed}", fix=fix)


def _disk(what: str, folder: Path | None) -> Disk:
    """Check a folder by creating a file in it, or in its nearest parent that exists.

    Other checks are unreliable as root, and on read-only mounts. what: purpose of the folder, "runs". folder:
    None if there is no usable one.
    """
    if folder is None:
        return Disk(what=what, folder=None, wrong=temporary.NONE)
    try:
        standing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=standing):
            pass
        return Disk(what=what, folder=str(folder), free_bytes=shutil.disk_usage(standing).free)
    except OSError as error:
        return Disk(what=what, folder=str(folder), wrong=error.strerror or str(error))


def _total(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _open_link() -> None:
    with Link("doctor"):
        pass


def _error(check: Callable[[], None]) -> str:
    try:
        check()
    except UserError as error:
        return str(error)
    return ""
