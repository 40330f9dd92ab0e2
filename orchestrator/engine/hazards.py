"""What the driver says of GPUs while the run works on them, and what that means for the launches there.

    sampler ── XidSeen, GpuBroken ──▶ heard ── health.verdict.reaction ──▶ a failure that takes the GPU out, or nothing
               TooHot ──────────────▶                                  ──▶ a failure that takes the GPU out

A launch that fails while such a failure of its GPU is known failed of it, whatever it ended in (classify.outside). An
Xid that asks for no more than a new process is kept: it explains a launch that fails on that GPU.
"""

from collections.abc import Collection

from msgspec import structs

from orchestrator.gpu.health import verdict, xids
from orchestrator.state.failure_policy import HARDWARE
from protocol.failure import Category, Failure, Phase
from protocol.messages import GpuBroken, TooHot, XidSeen


class Hazards:
    """Errors of the GPUs of a run, as they came."""

    def __init__(self) -> None:
        self._last_ns: dict[str, dict[int, int]] = {}
        self._broken: dict[str, None] = {}
        self._grave: dict[str, Failure] = {}

    def is_news(self, message: XidSeen | GpuBroken | TooHot) -> bool:
        """Whether nothing like it was heard of this GPU: an Xid may come a thousand times."""
        return not isinstance(message, XidSeen) or message.xid not in self._last_ns.get(message.uuid, {})

    def heard(self, message: XidSeen | GpuBroken | TooHot) -> Failure | None:
        """The failure of whatever runs on the GPU, which is not to be used any more; None where it may be."""
        if isinstance(message, TooHot):  # no fault that others could suffer from
            hot = Failure(category=Category.TOO_HOT, message=message.reason, phase=Phase.MEASURE)
            return self._grave.setdefault(message.uuid, hot)
        if isinstance(message, GpuBroken):
            category = Category.DEVICE_LOST if message.lost else Category.DEVICE_HARDWARE
            reaction = verdict.reaction((), broken=message.reason)
        else:
            self._last_ns.setdefault(message.uuid, {})[message.xid] = message.at_ns
            category, reaction = Category.DEVICE_HARDWARE, verdict.reaction((message.xid,))
        if not reaction.quarantine:
            return None
        self._broken[message.uuid] = None
        failure = Failure(category=category, message=reaction.reason, phase=Phase.MEASURE)
        self._grave.setdefault(message.uuid, failure)
        return failure

    def grave(self, uuids: Collection[str]) -> Failure | None:
        """The first failure that ended the use of a launch's GPUs, None where all may be used; of several it names one.

        Nothing begins there after it. So it came during the launch that is ending there, or right after it.
        """
        for uuid, failure in self._grave.items():
            if uuid in uuids:
                return failure if len(uuids) == 1 else structs.replace(failure, device=uuid)
        return None

    def ended(self, uuid: str, failure: Failure) -> None:
        """A launch on a GPU has failed: its hardware may be why."""
        if failure.category in HARDWARE:
            self._broken[uuid] = None

    def broken_beside(self, uuid: str) -> tuple[str, ...]:
        """Other GPUs of the run whose hardware has failed, in that order."""
        return tuple(other for other in self._broken if other != uuid)

    def since(self, uuid: str, at_ns: int) -> str:
        """The Xids of a GPU from a monotonic time on, in words, each once; empty where there was none."""
        numbers = [xid for xid, last_ns in self._last_ns.get(uuid, {}).items() if last_ns >= at_ns]
        return ", ".join(f"{number} ({xids.kind(number)})" for number in xids.roots(numbers))
