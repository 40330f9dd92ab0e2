"""Evidence that only the parent can collect when a launch has failed: for the journal, the report and `explain`.

Names of what is kept beside what the worker said itself: exit (in words), state (of its process, when it was to be
ended), progress (phase and share), stderr and stacks (the ends of its files), available_bytes (of the host),
device_used_bytes (as last read by the sampler), xids (that the driver reported of its GPU meanwhile).
"""

import msgspec
import psutil

from orchestrator.machine import host
from orchestrator.processes import logs
from orchestrator.processes.live import Live
from protocol.failure import Category, Failure
from protocol.messages import Sample


def with_clues(failure: Failure, live: Live, sample: Sample | None, xids: str) -> Failure:
    """The failure with everything that helps to believe or doubt it. What the worker said stands, and comes first.

    One that a person asked for needs no explanation.
    """
    if failure.category is Category.STOPPED:
        return failure
    launch = live.launch
    found = {
        "exit": "" if launch.exit is None else launch.exit.words,
        "state": host.process_state(live.pid or 0) if failure.category is Category.UNKILLABLE else live.state,
        "progress": f"{launch.phase}, {launch.fraction:.0%} done" if launch.fraction else "",
        "stderr": logs.tail(live.paths.stderr),
        "stacks": logs.tail(live.paths.fault),
        "available_bytes": str(psutil.virtual_memory().available),
        "device_used_bytes": "" if sample is None else str(sample.memory_used_bytes or ""),
        "xids": xids,
    }
    added = {name: text for name, text in found.items() if text and name not in failure.evidence}
    stopped = failure.category is Category.DEADLINE and live.was_stopped
    return msgspec.structs.replace(failure, stopped=stopped or msgspec.UNSET, evidence=failure.evidence | added)
