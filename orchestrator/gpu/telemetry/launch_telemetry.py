"""Reads telemetry of a GPU for the time of a launch, as soon as it is over.

    Result.blocks ──▶ windows ┐
                              ├─ readings.over ──▶ Readings ──▶ validity.judge (pure)
    the sampler's file ───────┘

The sampler writes before it reports a GPU as free, so that the samples of a launch are on disk.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.gpu.telemetry.readings import NEAR_NS, Readings, over
from orchestrator.gpu.telemetry.samples import SampleReader
from orchestrator.system import host
from protocol.cell import Device, DeviceKind
from protocol.messages import Sample
from protocol.paths import RunPaths
from protocol.result import Result

_NO_TELEMETRY: Final = Readings(note="no telemetry was recorded")


class LaunchTelemetry:
    """Reads the samples of a run's GPUs as they are written."""

    def __init__(self, devices: Iterable[Device], paths: RunPaths) -> None:
        boot_id = host.boot_id()
        self._readers = {
            device.uuid: SampleReader(paths.samples(device.uuid), boot_id)
            for device in devices
            if device.kind is DeviceKind.CUDA
        }
        self._kept: dict[str, list[Sample]] = {uuid: [] for uuid in self._readers}

    def readings(self, device: Device, result: Result) -> Readings:
        """What telemetry says of the measured blocks of a launch that ended on this device just now."""
        reader = self._readers.get(device.uuid)
        if reader is None or not result.blocks:
            return _NO_TELEMETRY
        since_ns = result.blocks[0].start_ns - NEAR_NS
        samples = [*self._kept[device.uuid], *reader.read()]
        kept = self._kept[device.uuid] = [sample for sample in samples if sample.at_ns >= since_ns]
        return over(kept, [(block.start_ns, block.end_ns) for block in result.blocks])
