"""How long each process worked on a run, and for how long it did not go on meanwhile: told from its journal. Pure."""

from collections.abc import Iterable

from orchestrator.store.records import End, Finished, Record, Segment, Start, StoodStill


def durations_s(records: Iterable[Record]) -> tuple[float, ...]:
    """Seconds of each segment, from its beginning to the last launch that began or ended in it, or to its end."""
    begun_ns: list[int] = []
    found: list[float] = []
    for record in records:
        if isinstance(record, Segment):
            begun_ns.append(record.monotonic_ns)
            found.append(0.0)
        elif isinstance(record, Start | End | Finished):
            found[-1] = (record.at_ns - begun_ns[-1]) / 1e9
    return tuple(found)


def stood_still(records: Iterable[Record]) -> tuple[tuple[StoodStill, ...], ...]:
    """Of each segment, each time that its process did not go on."""
    found: list[list[StoodStill]] = []
    for record in records:
        if isinstance(record, Segment):
            found.append([])
        elif isinstance(record, StoodStill):
            found[-1].append(record)
    return tuple(map(tuple, found))
