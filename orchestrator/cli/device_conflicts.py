"""What is worth knowing of a run's devices before it begins, and refuses nothing: for --dry-run, and for its beginning.

Who computes on a GPU is seen by NVML (gpu/gpu_users.py) once it computes; nobody tells that of cores. Another run of
the same runs folder is known by its lock, from its first second.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.config.naming import plural
from orchestrator.config.yaml_schema import listed
from orchestrator.errors import UserError
from orchestrator.store import folders, lock, run_files
from protocol.cell import Device, DeviceKind
from protocol.paths import RunPaths


def sentences(devices: Sequence[Device], cores: Sequence[int], runs: Path) -> Iterator[str]:
    """cores: those that we may run on. runs: the folder of runs, which need not be there."""
    beyond = [one.label for one in devices if one.kind is DeviceKind.CPU and one.gpu_id >= len(cores)]
    if beyond:
        there = plural(len(cores), "core")
        are = "is a name" if len(beyond) == 1 else "are names"
        yield f"{listed(beyond, 'and')} {are} alone: there {'is' if len(cores) == 1 else 'are'} {there}, divided evenly"
    with suppress(OSError):  # what cannot be looked at is told by whoever is to write there
        for folder in folders.in_order(runs):
            yield from _at_work(devices, RunPaths(folder))


def _at_work(devices: Sequence[Device], paths: RunPaths) -> Iterator[str]:
    """Of a run that is being worked on, and with what these devices have too."""
    holder = lock.holder(paths)
    if holder is None or lock.life(holder) is not lock.Life.ALIVE:
        return
    with suppress(UserError):
        others = run_files.load(paths).devices
        shared = [one.label for one in devices if any(_overlap(one, other) for other in others)]
        if shared:
            yield (
                f"process {holder.pid} works on the run in {paths.folder}, which uses {listed(shared, 'and')} too, or "
                "cores of it: each slows the other down"
            )


def _overlap(one: Device, other: Device) -> bool:
    """A GPU by its UUID; a CPU device by its cores, which the number of devices in a run decides."""
    if one.kind is DeviceKind.CPU and other.kind is DeviceKind.CPU:
        return not set(one.cpus).isdisjoint(other.cpus)
    return one.uuid == other.uuid
