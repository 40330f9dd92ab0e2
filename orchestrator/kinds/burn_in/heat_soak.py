"""When a GPU has done warming up: what its rates say before that is no fault of it, and is not judged. Pure.

    hottest so far      ╭──────────────      steady: it has risen by no more than `rise_c` over the last `windows`
                    ╭───╯├── windows ──┤     cap:    it was not after so long, and is judged from there on
                ────╯                        neither: temperatures that cannot be read, or work that ended before

The hottest window so far is followed, not the last one: a round has heavy cells and light
ones, and the light ones cool. Wrong bits are judged from the first product on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.evidence import DeviceEvidence, Evidence
from orchestrator.config.run_configuration import BurnIn
from orchestrator.figures.burn_in import Ending, HeatSoakReport
from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in.levels import HeatSoakRule
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.stats.windows import WINDOW_NS
from orchestrator.store.records import Segment
from protocol.cell import Device, DeviceKind


@dataclass(frozen=True)
class HeatSoak:
    """The first part of the work of one GPU, which is not judged. Windows are counted as in stats/windows.py.

    begin: its first window. until: the first that is judged; None where no temperature could be read, so that the first
    round is left out. reached_c: the hottest window in it, in degrees Celsius; None like until.
    """

    begin: int
    until: int | None
    ending: Ending
    reached_c: float | None = None

    def leaves_out(self, round_: int, at_ns: int) -> bool:
        """Whether what a launch of a round did at this moment, monotonic in nanoseconds, is not judged."""
        return round_ == 0 if self.until is None else at_ns < self.until * WINDOW_NS

    @property
    def seconds(self) -> float | None:
        """How long it lasted, in whole windows."""
        return None if self.until is None else (self.until - self.begin) * WINDOW_NS / 1e9


def heat_soak(work: Sequence[Climate], begin: int, end: int, asked_s: float, rule: HeatSoakRule) -> HeatSoak:
    """The heat soak of one GPU that was at work from window `begin` to window `end`, both included.

    work: its windows, in order; those without a temperature are passed over. asked_s: what the burn-in is to last, of
    which the heat soak takes a share at most.
    """
    readings = [
        (one.number, one.temperature_c) for one in work if begin <= one.number <= end and one.temperature_c is not None
    ]
    if not readings:
        return HeatSoak(begin, None, Ending.FIRST_ROUND)
    cap = begin + rule.most_windows(asked_s)
    hottest: list[float] = []
    for number, temperature_c in readings:
        if number >= cap:
            return HeatSoak(begin, cap, Ending.CAP, hottest[-1] if hottest else temperature_c)
        hottest.append(max([temperature_c, *hottest[-1:]]))
        if len(hottest) > rule.windows and hottest[-1] - hottest[-1 - rule.windows] <= rule.rise_c:
            return HeatSoak(begin, number + 1, Ending.STEADY, hottest[-1])
    return HeatSoak(begin, end + 1, Ending.WORK_ENDED, hottest[-1])


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


def reported(device: Device, soaks: Soaks) -> HeatSoakReport | None:
    """What is reported of a device's; None of a CPU device, whose rates are not judged, and of one without a launch."""
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
