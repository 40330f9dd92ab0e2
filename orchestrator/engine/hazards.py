"""Errors of GPUs that the driver reports during the run, and their effect on launches (measurements) on these GPUs.

    sampler ── XidSeen, GpuBroken, TooHot ──▶ heard ──▶ a failure that quarantines the GPU, or nothing

A GPU that became unusable is the cause of each failure of a launch on it that a hardware fault may lead to
(process_failures.outside). An Xid (error number of the driver) after which a new process can use the GPU is only kept
as a clue.
"""

from collections.abc import Collection

from msgspec import structs

from orchestrator.gpu.health import verdict, xids
from orchestrator.state.failure_policy import HARDWARE
from protocol.failure import Category, Failure, Phase
from protocol.messages import GpuBroken, TooHot, XidSeen


class Hazards:
    """Errors that the driver reported for the GPUs of a run, in the order of the reports."""

    def __init__(self) -> None:
        self._last_ns: dict[str, dict[int, int]] = {}
        self._broken: dict[str, None] = {}
        self._grave: dict[str, Failure] = {}

    def is_news(self, message: XidSeen | GpuBroken | TooHot) -> bool:
        """Whether a message is new: False for an Xid whose number `heard` got for this GPU before, else True."""
        return not isinstance(message, XidSeen) or message.xid not in self._last_ns.get(message.uuid, {})

    def heard(self, message: XidSeen | GpuBroken | TooHot) -> Failure | None:
        """Note a message about a GPU. Return the failure of launches on it if it must be quarantined, else None."""
        if isinstance(message, TooHot):  # heat does not cause failures of other GPUs
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
        """Return the failure for launches on these GPUs, from the GPU that became unusable first; None if all work.

        uuids: of the GPUs. If there are several, Failure.device becomes the UUID of the unusable one.
        """
        for uuid, failure in self._grave.items():
            if uuid in uuids:
                return failure if len(uuids) == 1 else structs.replace(failure, device=uuid)
        return None

    def ended(self, uuid: str, failure: Failure) -> None:
        """Note the failure of a launch on a GPU, in case it shows that the hardware is broken.

        If its category is in failure_policy.HARDWARE, `broken_beside` includes this GPU from now on. Other failures
        change nothing.
        """
        if failure.category in HARDWARE:
            self._broken[uuid] = None

    def broken_beside(self, uuid: str) -> tuple[str, ...]:
        """Return the UUIDs of the other GPUs whose hardware has failed in this run, in the order of their failures."""
        return tuple(other for other in self._broken if other != uuid)

    def since(self, uuid: str, at_ns: int) -> str:
        """Describe the Xids that a GPU has reported since `at_ns` (monotonic): "79 (the GPU was lost)". "" for none.

        Xids that only follow from another one are omitted (xids.roots).
        """
        numbers = [xid for xid, last_ns in self._last_ns.get(uuid, {}).items() if last_ns >= at_ns]
        return ", ".join(f"{number} ({xids.kind(number)})" for number in xids.roots(numbers))
