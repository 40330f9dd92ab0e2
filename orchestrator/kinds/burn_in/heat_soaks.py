"""The heat soak of each GPU, once each time that somebody begins to work on the run, and what is said of it. Pure."""

from collections import defaultdict
from collections.abc import Mapping

from orchestrator.analysis.evidence import DeviceEvidence, Evidence
from orchestrator.config.run_configuration import BurnIn
from orchestrator.figures.burn_in import HeatSoakReport
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in.heat_soak import HeatSoak, heat_soak
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.stats.windows import WINDOW_NS
from orchestrator.store.records import Segment
from protocol.cell import Device, DeviceKind

Soaks = Mapping[tuple[str, Segment], HeatSoak]
"""By device and segment: a GPU cools down while nobody works on the run."""


def heat_soaks(archive: Archive, evidence: Evidence, asked: BurnIn) -> Soaks:
    """Those of every device and segment with a launch."""
    attempts: dict[tuple[str, Segment], list[Attempt]] = defaultdict(list)
    for attempt in archive.attempts:
        attempts[attempt.start.device, attempt.segment].append(attempt)
    rule = levels.load().heat_soak
    found = {}
    for (uuid, segment), made in attempts.items():
        climates = evidence.devices.get(uuid, DeviceEvidence()).climates.get(segment.boot_id, ())
        # An end may stand in a later segment, and a boot later: its own segment's times alone are meant here.
        ends = [one.start.at_ns + round((one.lasted_ms or 0.0) * 1e6) for one in made]
        begin = min(one.start.at_ns for one in made)
        found[uuid, segment] = heat_soak(climates, begin // WINDOW_NS, max(ends) // WINDOW_NS, asked.duration_s, rule)
    return found


def not_tested(device: Device, evidence: Evidence) -> dict[str, str]:
    """What → why: a GPU whose temperature nobody reads cannot be stopped for it. Of a CPU device nothing is claimed."""
    climates = evidence.devices.get(device.uuid, DeviceEvidence()).climates.values()
    read = any(one.temperature_c is not None for own in climates for one in own)
    return {} if read or device.kind is not DeviceKind.CUDA else {"stop for heat": "no temperature was read"}


def told(device: Device, soaks: Soaks) -> HeatSoakReport | None:
    """What is said of a device's; None of a CPU device, whose rates are not judged, and of one without a launch."""
    own = [soak for (uuid, _), soak in soaks.items() if uuid == device.uuid]
    if device.kind is not DeviceKind.CUDA or not own:
        return None
    seconds = [soak.seconds for soak in own if soak.seconds is not None]
    reached = [soak.reached_c for soak in own if soak.reached_c is not None]
    return HeatSoakReport(
        left_out_seconds=sum(seconds) if seconds else None,
        ended_because=tuple(dict.fromkeys(soak.ending for soak in own)),
        reached_c=max(reached, default=None),
    )
