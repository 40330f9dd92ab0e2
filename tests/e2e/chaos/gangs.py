"""Cells on several devices: each launch whole, its failure blamed on the right member, no device shared."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.e2e.chaos.kinds import DIED, ENDED_BY_SIGNAL, KINDS, PLANTED, SIGNALS, Deed
from tests.e2e.chaos.ledger import Hit, Ledger
from tests.e2e.chaos.story import Story


def devices(story: Story, ledger: Ledger, launch: int) -> tuple[str, ...]:
    """The devices of a launch, the one that leads first; of a cell that nobody planned, the one that it names."""
    start = story.start[launch]
    return tuple(ledger.cells.get(start["cell"], {"devices": (start["device"],)})["devices"])


def several(story: Story, ledger: Ledger, launch: int) -> bool:
    """Whether a launch is one of several processes. Of a launch that never began, the story says so itself."""
    return launch in story.start and len(devices(story, ledger, launch)) > 1


def all_born(story: Story, ledger: Ledger, launch: int) -> bool:
    """Whether each process of a launch has existed: then it needs its zygote no more."""
    return len(story.members[launch]) >= len(devices(story, ledger, launch))


def of_another(result: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors in a gang's result: it has exactly its members' parts, and all members made equally many checks."""
    others = tuple(planned.get("devices", ()))[1:]
    said = {device: told["key"] for device, told in result["others"].items()}
    if said != {device: [device] for device in others}:
        yield f"its result is that of the leader and of {said}, and the others were {sorted(others)}"
    if others and len({told["checks"] for told in (result["verification"], *result["others"].values())}) != 1:
        yield "its members did not come together equally often"


def wrong(story: Story, ledger: Ledger) -> Iterator[str]:
    """Launches that are not whole, failures blamed on the wrong member, devices with two launches at once."""
    for launch in story.start:
        whole, born = devices(story, ledger, launch), story.members[launch]
        if len(born) > len(whole) or (story.promised(launch) and len(born) < len(whole)):
            yield f"launch {launch} on {len(whole)} devices had {len(born)} processes"
    for launch, end, failure in story.failures():
        if several(story, ledger, launch):
            yield from _blamed(story, ledger, launch, end["at_ns"], failure)
    yield from _two_at_once(story, ledger)


def _blamed(story: Story, ledger: Ledger, launch: int, at_ns: int, failure: dict[str, Any]) -> Iterator[str]:
    """A failure of a launch on several devices that names another one, another signal, or says nothing of the rest."""
    category, device = failure["category"], failure.get("device")
    done = [hit for hit in ledger.hits if hit.launch == launch and hit.at_ns <= at_ns]
    causes = {hit.device for hit in done if category in KINDS[hit.kind].names}
    planted = ledger.planted.get(story.model(launch), "")
    if PLANTED.get(planted) == category:
        causes.add(ledger.planted_on[story.model(launch)])
    if not causes and category not in DIED:
        return  # it came from outside, or checker.names finds that nothing explains it
    whole = devices(story, ledger, launch)
    if causes and device not in causes and not (device is None and _untold(done, causes)):
        yield f"launch {launch}, '{category}', is blamed on {device}, and it was {sorted(map(str, causes))}"
    if category in ENDED_BY_SIGNAL and device in causes:
        sent = _sent(done, device) | ({SIGNALS[planted]} if planted in SIGNALS else set())
        if failure["signal"] not in sent:
            yield f"launch {launch}: {device} was sent {sorted(map(int, sent))}, and {failure['signal']} is said of it"
    told = [name for name in failure["evidence"] if name.startswith("on ")]
    if len(told) != len(whole) - 1:
        yield f"launch {launch} on {len(whole)} devices tells of the others only {told}"


def _untold(done: list[Hit], causes: set[str | None]) -> bool:
    """Whether nobody could be told apart: several were stopped at once, if only for a moment."""
    return len(causes) > 1 or any(KINDS[hit.kind].deed is Deed.PAUSE for hit in done)


def _sent(done: list[Hit], device: str | None) -> set[int]:
    return {KINDS[hit.kind].number for hit in done if hit.device == device and KINDS[hit.kind].names & ENDED_BY_SIGNAL}


def _two_at_once(story: Story, ledger: Ledger) -> Iterator[str]:
    """Launches that begin on a device which another one still has.

    The journal tells only of the last process of several that is gone: those of a launch with a result go at its end,
    the others as they please.
    """
    has: dict[str, set[int]] = defaultdict(set)
    for record in story.records:
        match record["type"]:
            case "Segment":
                has.clear()
            case "Start":
                for device in devices(story, ledger, record["launch"]):
                    for other in has[device]:
                        yield f"launch {record['launch']} begins on {device}, which launch {other} still has"
                    if story.promised(record["launch"]) or not several(story, ledger, record["launch"]):
                        has[device].add(record["launch"])
            case "Left":
                _let_go(has, record["launch"])
            case "End" if several(story, ledger, record["launch"]):
                _let_go(has, record["launch"])


def _let_go(has: Mapping[str, set[int]], launch: int) -> None:
    for launches in has.values():
        launches.discard(launch)
