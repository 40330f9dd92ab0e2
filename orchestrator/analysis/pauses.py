"""When the orchestrator of a run stood still: stopped, or its machine paused. No deadline went on meanwhile. Pure."""

from collections.abc import Mapping

from orchestrator.kinds.burn_in.served_time import Span
from orchestrator.state.archive import Archive
from orchestrator.store.records import Segment


def pauses_of_sessions(archive: Archive) -> Mapping[Segment, tuple[Span, ...]]:
    """From when to when, in each segment of a run."""
    return {
        segment: tuple((one.at_ns - round(one.seconds * 1e9), one.at_ns) for one in stood_still)
        for segment, stood_still in zip(archive.segments, archive.stood_still, strict=True)
    }
