"""Warnings about devices that another live run of this runs folder uses, or that share cores."""

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
    """Yield the warnings. cores: usable ones. runs: the runs folder, which may be missing."""
    beyond = [one.label for one in devices if one.kind is DeviceKind.CPU and one.gpu_id >= len(cores)]
    if beyond:
        there = plural(len(cores), "core")
        are = "is a name" if len(beyond) == 1 else "are names"
        yield f"{listed(beyond, 'and')} {are} alone: there {'is' if len(cores) == 1 else 'are'} {there}, divided evenly"
    with suppress(OSError):  # what cannot be looked at is told by whoever is to write there
        for folder in folders.in_order(runs):
            yield from _at_work(devices, RunPaths(folder))


def _at_work(devices: Sequence[Device], paths: RunPaths) -> Iterator[str]:
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
    """Compare GPUs by UUID, CPU devices by cores: the number of devices in a run decides those."""
    if one.kind is DeviceKind.CPU and other.kind is DeviceKind.CPU:
        return not set(one.cpus).isdisjoint(other.cpus)
    return one.uuid == other.uuid
