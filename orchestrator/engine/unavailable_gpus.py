"""GPUs that are not usable for a while: too hot, or used by other processes.

conductor ── rest, block ──▶ Waiting ── released (called regularly) ──▶ may be used again, or must be quarantined
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.gpu.telemetry import clock_events
from orchestrator.state import blocked_gpus
from orchestrator.state.blocked_gpus import BlockOutcome
from protocol.messages import Sample

COOLER_BY: Final = 10
"""Degrees Celsius by which a hot GPU must cool down. A GPU just below its limit is hot again within seconds."""
AT_MOST_S: Final = 120.0


@dataclass(frozen=True)
class Rest:
    """Pause in which a hot GPU cools down. until: its latest end, in seconds of the loop's clock.

    since_ns: monotonic time from which samples count. limit_c: temperature to reach; None if unknown.
    """

    until: float
    since_ns: int
    limit_c: int | None


def begin_rest(hottest_c: int | None, now: float, now_ns: int) -> Rest:
    """Return the pause of a GPU after a launch that is repeated because the GPU was slowed down.

    hottest_c: highest temperature of the GPU during that launch; None if it was not read. now: seconds of the loop's
    clock. now_ns: monotonic.
    """
    return Rest(until=now + AT_MOST_S, since_ns=now_ns, limit_c=None if hottest_c is None else hottest_c - COOLER_BY)


def is_rested(resting: Rest, newest: Sample | None, now: float) -> bool:
    """Whether the GPU may be used again: it is cool enough and not slowed down, or the pause has lasted long enough.

    newest: newest sample of the GPU. Without one, without its temperature or without limit_c, only the time decides.
    now: seconds of the loop's clock.
    """
    if now >= resting.until:
        return True
    if newest is None or newest.at_ns < resting.since_ns:
        return False
    if newest.temperature_c is None or resting.limit_c is None:
        return False
    slowed = bool((newest.reasons or 0) & clock_events.SLOWDOWN)
    return not slowed and newest.temperature_c <= resting.limit_c


class Waiting:
    """Devices (UUIDs) that wait: too hot, or used by other processes. Its truth value: whether any device waits."""

    def __init__(self) -> None:
        self._resting: dict[str, Rest] = {}
        self._blocked: dict[str, blocked_gpus.Block] = {}

    def __bool__(self) -> bool:
        return bool(self._resting or self._blocked)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._resting or uuid in self._blocked

    def rest(self, uuid: str, hottest_c: int | None, now: float, now_ns: int) -> None:
        """Let a device wait until it is cooler, after a launch that is repeated because the device was slowed down.

        hottest_c: highest temperature of the device during that launch; None if it was not read. now: seconds of the
        loop's clock. now_ns: monotonic.
        """
        self._resting[uuid] = begin_rest(hottest_c, now, now_ns)

    def block(self, uuid: str, limit_bytes: int | None, now: float) -> None:
        """Start no launch on a busy device until it is free: `released` decides. now: seconds of the loop's clock.

        limit_bytes: most memory in use on a free device; None if the memory does not matter.
        """
        self._blocked[uuid] = blocked_gpus.block(limit_bytes, now)

    def released(
        self, now: float, samples: Mapping[str, Sample], foreign: Callable[[str], str], *, stopping: bool
    ) -> Iterator[tuple[str, str]]:
        """Yield (UUID, reason to quarantine it) for each device that no longer waits. The reason is "" if it is usable.

        samples: UUID → newest sample. foreign: returns the other process that computes on the device of a UUID, or "".
        stopping: the run stops, so no device waits. now: seconds of the loop's clock.
        """
        for uuid in {*self._resting, *self._blocked}:
            sample, given_up = samples.get(uuid), ""
            if uuid in self._resting and (stopping or is_rested(self._resting[uuid], sample, now)):
                del self._resting[uuid]
            if uuid in self._blocked:
                decision = blocked_gpus.judge(self._blocked[uuid], foreign(uuid), sample, now)
                given_up = blocked_gpus.given_up(foreign(uuid)) if decision is BlockOutcome.GIVEN_UP else ""
                if stopping or decision is not BlockOutcome.WAITS:
                    del self._blocked[uuid]
            if uuid not in self or given_up:
                yield uuid, given_up
