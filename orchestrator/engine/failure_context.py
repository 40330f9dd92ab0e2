"""Failure context: events on a run's GPUs from outside its launches, which may explain a failure.

the driver ── Xids, a broken GPU, its heat ──▶ hazards ┐
the sampler ── foreign processes ────────────▶ foreign ┼─▶ as_read: the failure with its outside cause, and clues
the sampler ── the newest readings ──────────▶ samples ┘
"""

from collections.abc import Iterable

from orchestrator.engine.hazards import Hazards
from orchestrator.engine.launches import clues, process_failures
from orchestrator.engine.launches.live import Live
from orchestrator.gpu.telemetry.foreign_use import ForeignUse
from protocol.cell import Device
from protocol.failure import Failure
from protocol.messages import Sample


class FailureContext:
    """Collects events that may explain failures on each GPU. The engine's loop updates the three collections.

    samples: UUID → newest telemetry sample. foreign: processes of others on the GPUs. hazards: errors that the driver
    reported. shares: whether other processes may use the GPUs (--allow-busy), and so explain no failure.
    """

    def __init__(self, devices: Iterable[Device], *, shares: bool) -> None:
        self.samples: dict[str, Sample] = {}
        self.foreign = ForeignUse()
        self.hazards = Hazards()
        self._labels = {device.uuid: device.label for device in devices}
        self.shares = shares

    def as_read(self, failure: Failure, live: Live) -> Failure:
        """Return the failure of a launch with clues as evidence, and with the category of an outside cause, if any.

        live: the process that failed. A failure that shows faulty hardware is noted in `hazards`.
        """
        devices, own = live.next.cell.devices, live.device.uuid
        others = "" if self.shares else self.foreign.beside(devices, live.spec.requested_ns)
        broken = " and ".join(self._labels[other] for other in self.hazards.broken_beside(own))
        failure = process_failures.outside(
            process_failures.beside(failure, others), self.hazards.grave(devices), broken
        )
        self.hazards.ended(failure.device or own, failure)
        return clues.with_clues(failure, live, self.samples.get(own), self._xids(devices, live.spec.requested_ns))

    def _xids(self, devices: tuple[str, ...], since_ns: int) -> str:
        xids_by_label = {self._labels[uuid]: self.hazards.since(uuid, since_ns) for uuid in devices}
        return "; ".join(
            f"{label}: {xids}" if len(devices) > 1 else xids for label, xids in xids_by_label.items() if xids
        )
