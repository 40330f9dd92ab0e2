"""Notes on a plan for --dry-run and a run's start: exclusions, short deadlines, devices in use."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config.naming import by_reason, plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.engine import progress
from orchestrator.errors import UserError
from orchestrator.plan import estimate
from orchestrator.store import folders, lock, run_files
from protocol.cell import AUTO, Device, DeviceKind
from protocol.failure import Phase
from protocol.paths import RunPaths

_SHOWN_CELLS: Final = 3


def exclusions(plan: Plan, devices: Sequence[Device]) -> Iterator[str]:
    """Yield "h2d, d2h: REASON (cpu:0)" for each reason why the plan excludes models on some devices.

    It names the models and the devices. The devices are omitted if the reason concerns all `devices`, those of the run.
    """
    for why, models, concerned in by_reason((cell.why, cell.model, cell.device) for cell in plan.excluded):
        where = ", ".join(device.label for device in devices if device.uuid in concerned)
        yield f"{models}: {why}" + ("" if len(concerned) == len(devices) else f" ({where})")


def deadline_warnings(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterator[str]:
    """Yield one warning that lists the cells whose first iteration will probably miss the deadline of its launch.

    Yields nothing if there are no such cells, or if the run is a burn-in.
    """
    if configuration.burn_in is not None:
        return
    by_uuid, names = {device.uuid: device for device in devices}, progress.alike(plan.cells)
    allowance = configuration.deadlines.allowance
    allowed_s = max(allowance(phase, configuration.measurement) for phase in (Phase.WARM_UP, Phase.MEASURE))
    late_s: dict[str, float] = {}
    for cell in plan.cells:
        scanned = cell.batch_size == AUTO  # a scan begins with a batch of 1
        first = msgspec.structs.replace(cell, batch_size=1) if scanned else cell
        takes_s = estimate.iteration_s(first, configuration.by_name[cell.model], by_uuid[cell.devices[0]])
        if takes_s > allowed_s:
            late_s[f"{names.describe(cell)} {'auto' if scanned else f'b{cell.batch_size}'}"] = takes_s
    if late_s:
        more = len(late_s) - _SHOWN_CELLS
        cells = [*list(late_s)[:_SHOWN_CELLS], *([plural(more, "other cell")] if more > 0 else [])]
        yield (
            f"{listed(cells, 'and')} will probably have no result: by estimate, an iteration takes "
            f"{estimate.about(max(late_s.values())).removeprefix('about ')}, and the deadline of a launch is "
            f"{estimate.about(allowed_s).removeprefix('about ')}. Choose a smaller input or batch"
        )


def device_conflicts(devices: Sequence[Device], cores: Sequence[int], runs: Path) -> Iterator[str]:
    """Yield warnings about devices that another live run uses, and about CPU devices of this run that share cores.

    cores: the CPU cores that this process may use. runs: folder of the runs, skipped if it is unreadable.
    """
    beyond = [device.label for device in devices if device.kind is DeviceKind.CPU and device.gpu_id >= len(cores)]
    if beyond:
        there = plural(len(cores), "core")
        names = "has no core of its own" if len(beyond) == 1 else "have no cores of their own"
        yield (
            f"this machine has only {there}, so {listed(beyond, 'and')} {names}: the CPU devices of a run share "
            "the cores"
        )
    with suppress(OSError):  # writing to the runs folder reports the error later
        for folder in folders.in_order(runs):
            yield from _at_work(devices, RunPaths(folder))


def _at_work(devices: Sequence[Device], paths: RunPaths) -> Iterator[str]:
    holder = lock.holder(paths)
    if holder is None or lock.life(holder) is not lock.Life.ALIVE:
        return
    with suppress(UserError):
        others = run_files.load(paths).devices
        shared = [device.label for device in devices if any(_overlap(device, other) for other in others)]
        if shared:
            yield (
                f"the run in {paths.folder} (process {holder.pid}) also uses {listed(shared, 'and')} or their cores: "
                "the runs slow each other down"
            )


def _overlap(device: Device, other: Device) -> bool:
    if device.kind is DeviceKind.CPU and other.kind is DeviceKind.CPU:
        return not set(device.cpus).isdisjoint(other.cpus)  # in each run their UUIDs stand for other cores
    return device.uuid == other.uuid
