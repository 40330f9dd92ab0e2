"""GPUs that are not usable for a while: too hot, or used by other processes.

    conductor ── rest, block ──▶ Waiting ── over (asked once a tick) ──▶ may be used again, or is given up

cooling.py and blocked_gpus.py decide for how long.
"""

from collections.abc import Callable, Iterator, Mapping

from orchestrator.engine import cooling
from orchestrator.state import blocked_gpus
from orchestrator.state.blocked_gpus import BlockOutcome
from protocol.messages import Sample


class Waiting:
    """Waiting devices by UUID. One may wait for both reasons."""

    def __init__(self) -> None:
        self._resting: dict[str, cooling.Rest] = {}
        self._blocked: dict[str, blocked_gpus.Block] = {}

    def __bool__(self) -> bool:
        """Whether any device waits."""
        return bool(self._resting or self._blocked)

    def __contains__(self, uuid: str) -> bool:
        """Whether this one does."""
        return uuid in self._resting or uuid in self._blocked

    def rest(self, uuid: str, hottest_c: int | None, now: float, now_ns: int) -> None:
        """A device is too hot. hottest_c: the highest temperature that was read."""
        self._resting[uuid] = cooling.rest(hottest_c, now, now_ns)

    def block(self, uuid: str, limit_bytes: int | None, now: float) -> None:
        """Others use a device, or its memory stays in use. limit_bytes: in use when it is free."""
        self._blocked[uuid] = blocked_gpus.block(limit_bytes, now)

    def over(
        self, now: float, samples: Mapping[str, Sample], foreign: Callable[[str], str], *, stopping: bool
    ) -> Iterator[tuple[str, str]]:
        """Yield devices that no longer wait, with the reason to give them up, empty where they may be used.

        samples: the newest of each. foreign: who else computes on a device. stopping: nothing is waited for any more.
        """
        for uuid in {*self._resting, *self._blocked}:
            sample, given_up = samples.get(uuid), ""
            if uuid in self._resting and (stopping or cooling.over(self._resting[uuid], sample, now)):
                del self._resting[uuid]
            if uuid in self._blocked:
                found = blocked_gpus.judge(self._blocked[uuid], foreign(uuid), sample, now)
                given_up = blocked_gpus.given_up(foreign(uuid)) if found is BlockOutcome.GIVEN_UP else ""
                if stopping or found is not BlockOutcome.WAITS:
                    del self._blocked[uuid]
            if uuid not in self or given_up:
                yield uuid, given_up
