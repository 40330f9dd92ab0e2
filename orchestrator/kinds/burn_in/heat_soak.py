"""The heat soak: a GPU's warm-up at the start of its work. Rates in this time are not judged. Pure.

Times are counted in numbered windows: ten seconds of the monotonic clock (stats/windows.py).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.evidence import DeviceEvidence, Evidence
from orchestrator.config.run_configuration import BurnIn
from orchestrator.figures.burn_in import Ending, HeatSoakReport
from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in.gpu_waits import over_ns
from orchestrator.kinds.burn_in.levels import HeatSoakRule
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.stats.windows import WINDOW_NS
from orchestrator.store.journal_records import Segment
from protocol.cell import Device, DeviceKind


@dataclass(frozen=True)
class HeatSoak:
    """The heat soak (warm-up) of a GPU in one session: windows of ten seconds whose rates are not judged.

    begin, until: numbers of its first window and of the first window after it (monotonic clock). ending: why it ended.
    reached_c: its highest temperature in °C. Without temperature readings, until and reached_c are None, and the heat
    soak is all work of round 0.
    """

    begin: int
    until: int | None
    ending: Ending
    reached_c: float | None = None

    def leaves_out(self, round_: int, at_ns: int) -> bool:
        """Whether work at `at_ns` (monotonic) is in the heat soak: its rate does not count. round_: of its launch."""
        return round_ == 0 if self.until is None else at_ns < self.until * WINDOW_NS

    @property
    def seconds(self) -> float | None:
        """Duration of the heat soak, a multiple of ten seconds. None without temperature readings."""
        return None if self.until is None else (self.until - self.begin) * WINDOW_NS / 1e9


def heat_soak(work: Sequence[Climate], begin: int, end: int, requested_s: float, rule: HeatSoakRule) -> HeatSoak:
    """Return the heat soak of a GPU in one session: from its first launch until its temperature is steady.

    It ends earlier with the launches, or at the limit of `rule`, which depends on requested_s, the requested seconds of
    the burn-in. work: temperatures of the GPU by window, in order. begin, end: numbers of the first and last window of
    its launches; other windows are ignored. Without temperatures, the heat soak is all work of round 0.
    """
    readings = [
        (climate.number, climate.temperature_c)
        for climate in work
        if begin <= climate.number <= end and climate.temperature_c is not None
    ]
    if not readings:
        return HeatSoak(begin, None, Ending.FIRST_ROUND)
    cap = begin + rule.most_windows(requested_s)
    hottest: list[float] = []
    for number, temperature_c in readings:
        if number >= cap:
            return HeatSoak(begin, cap, Ending.CAP, hottest[-1] if hottest else temperature_c)
        # Lighter cells cool the GPU down, so the hottest window so far counts.
        hottest.append(max([temperature_c, *hottest[-1:]]))
        if len(hottest) > rule.windows and hottest[-1] - hottest[-1 - rule.windows] <= rule.rise_c:
            return HeatSoak(begin, number + 1, Ending.STEADY, hottest[-1])
    return HeatSoak(begin, end + 1, Ending.WORK_ENDED, hottest[-1])


Soaks = Mapping[tuple[str, Segment], HeatSoak]  # Heat soaks by device and session: a GPU cools down between sessions


def heat_soaks(archive: Archive, evidence: Evidence, terms: BurnIn) -> Soaks:
    """Return (UUID of a device, session) → its heat soak in this session.

    Sessions without a launch of the device are missing. A launch on several devices counts only for its first device.
    """
    attempts: dict[tuple[str, Segment], list[Attempt]] = defaultdict(list)
    for attempt in archive.attempts:
        attempts[attempt.start.device, attempt.segment].append(attempt)
    rule = levels.load().heat_soak
    soaks = {}
    for (uuid, segment), made in attempts.items():
        climates = evidence.devices.get(uuid, DeviceEvidence()).climates.get(segment.boot_id, ())
        begin, end = min(one.start.at_ns for one in made), max(map(over_ns, made))
        soaks[uuid, segment] = heat_soak(climates, begin // WINDOW_NS, end // WINDOW_NS, terms.duration_s, rule)
    return soaks


def not_tested(device: Device, evidence: Evidence) -> dict[str, str]:
    """Return {"temperature limit": reason} for a GPU without temperature readings, {} for all other devices."""
    climates = evidence.devices.get(device.uuid, DeviceEvidence()).climates.values()
    read = any(one.temperature_c is not None for own in climates for one in own)
    return {} if read or device.kind is not DeviceKind.CUDA else {"temperature limit": "no temperature readings"}


def reported(device: Device, soaks: Soaks) -> HeatSoakReport | None:
    """Return a device's heat soak: total seconds and highest °C of its sessions; None for a CPU or without a launch."""
    own = [soak for (uuid, _), soak in soaks.items() if uuid == device.uuid]
    if device.kind is not DeviceKind.CUDA or not own:
        return None
    seconds = [soak.seconds for soak in own if soak.seconds is not None]
    reached = [soak.reached_c for soak in own if soak.reached_c is not None]
    return HeatSoakReport(
        excluded_seconds=sum(seconds) if seconds else None,
        ended_because=tuple(dict.fromkeys(soak.ending for soak in own)),
        reached_c=max(reached, default=None),
    )
