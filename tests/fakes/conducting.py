"""A conductor of a run whose processes are never made, for tests of what it does about what becomes of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from msgspec import structs

from orchestrator.config.run_configuration import Plan, StoredRun
from orchestrator.engine.conductor import Conductor
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.live import Live
from orchestrator.engine.launches.zygote_client import ZygoteClient
from orchestrator.engine.loop_clock import LoopClock
from orchestrator.engine.run_context import RunContext
from orchestrator.kinds import registry
from orchestrator.kinds.burn_in.planning import LINKS
from orchestrator.state import transitions
from orchestrator.store.journal import Journal
from orchestrator.system.stop_signals import StopSignals
from protocol.cell import Device
from protocol.messages import LaunchSpec
from protocol.paths import RunPaths
from tests.fakes import faults, gangs
from tests.fakes.displays import RecordingDisplay


class Childless(ZygoteClient):
    """A nursery that takes every order and forks nothing."""

    def fork(self, spec: LaunchSpec) -> None:
        """Nothing."""


@dataclass
class Held:
    """A conductor with the first launch of every device under way. live: by device."""

    stored: StoredRun
    paths: RunPaths
    conductor: Conductor
    live: dict[str, Live] = field(default_factory=dict)


@contextmanager
def conducting(
    folder: Path, devices: tuple[Device, ...], *, allow_busy: bool = False, together: bool = False
) -> Iterator[Held]:
    """Two cells for each device, of which the first are begun. together: before them one of all devices, which is."""
    models = (faults.model("first"), faults.model("second"), *([faults.model(LINKS)] if together else ()))
    stored = faults.prepare(folder, *models, machines=devices, allow_busy=allow_busy)
    if together:
        cell = gangs.gang(*(device.uuid for device in devices))
        alone = {uuid: [slot for slot in slots if LINKS not in slot[0]] for uuid, slots in stored.plan.order.items()}
        order = {uuid: ((cell.id, 0), *slots) for uuid, slots in alone.items()}
        stored = structs.replace(stored, plan=Plan(cells=(*stored.plan.cells, cell), order=order))
    paths = RunPaths(folder)
    with Journal(paths.journal) as journal, Link(folder.name) as link, StopSignals() as stops:
        around = RunContext(
            stored=stored,
            kind=registry.of(stored.configuration),
            paths=paths,
            journal=journal,
            link=link,
            nursery=Childless((), paths.log("zygote"), 1.0, {}),
            telemetry=None,
            stop_signals=stops,
            display=RecordingDisplay(),
        )
        kinds = {device.uuid: device.name for device in devices}
        held = Held(stored, paths, Conductor(around, transitions.begin(stored.plan, kinds), zmq.Poller(), LoopClock()))
        held.conductor.launch_what_is_due()
        held.live = {live.next.device: live for live in held.conductor.fleet.live.values()}
        yield held
