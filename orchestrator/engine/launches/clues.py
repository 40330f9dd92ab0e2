"""Collect evidence of a failed launch (one measurement) that only the parent of its process has.

Keys of Failure.evidence: exit (in words), state (of the process, before it was ended), progress (phase and share),
stderr and stacks (the ends of these files), available_bytes (of the host), device_used_bytes (last sample), xids (error
numbers that the driver reported for its GPUs during the launch).
"""

from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.engine.launches.live import Live
from orchestrator.system import host, log_files
from protocol.failure import Category, Failure
from protocol.messages import Sample

_LOOKED_AT_BYTES: Final = 64 * 1024
"""Number of bytes at the end of stderr that are searched for a traceback."""
_OURS: Final = "worker."
_RAISED_FROM: Final = "\n\nThe above exception was the direct cause of the following exception:\n"


def with_clues(failure: Failure, live: Live, sample: Sample | None, xids: str) -> Failure:
    """Return the failure with clues added to the evidence that the worker reported, which has precedence.

    A failure of category STOPPED is returned unchanged. sample: newest reading of the GPU, None without telemetry.
    xids: error numbers that the driver reported during the launch, as text, or "".
    """
    if failure.category is Category.STOPPED:
        return failure
    launch = live.launch
    clues = {
        "exit": "" if launch.exit is None else launch.exit.description,
        "state": host.process_state(live.pid or 0) if failure.category is Category.UNKILLABLE else live.state,
        "progress": f"{launch.phase}, {launch.fraction:.0%} done" if launch.fraction else "",
        "stderr": _end_of_stderr(live.paths.stderr, failure),
        "stacks": log_files.tail(live.paths.fault),
        "available_bytes": str(psutil.virtual_memory().available),
        "device_used_bytes": "" if sample is None else str(sample.memory_used_bytes or ""),
        "xids": xids,
    }
    added = {name: text for name, text in clues.items() if text and name not in failure.evidence}
    stopped = failure.category is Category.DEADLINE and live.was_stopped
    return msgspec.structs.replace(failure, stopped=stopped or msgspec.UNSET, evidence=failure.evidence | added)


def _end_of_stderr(path: Path, failure: Failure) -> str:
    """Return the end of the stderr file `path` as text, without what follows the traceback of `failure`.

    At most 2,000 characters. If a worker's own exception wraps another one, the text ends with the traceback of the
    wrapped one.
    """
    text = log_files.tail(path, _LOOKED_AT_BYTES)
    last = (failure.traceback or "").strip().rpartition("\n")[2]
    if last and last in text:
        text = text[: text.rindex(last) + len(last)]
    if (failure.exception or "").startswith(_OURS) and _RAISED_FROM in text:
        text = text[: text.rindex(_RAISED_FROM)]
    return text[-log_files.TAIL_TEXT_BYTES :]
