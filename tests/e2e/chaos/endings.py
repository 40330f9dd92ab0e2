"""How processes of the orchestrator ended: as somebody made them, and with nothing left in their hands."""

import signal
from collections.abc import Iterator
from typing import Any

from tests.e2e.chaos.kinds import KINDS, STOPPED, Deed, Kind, Target
from tests.e2e.chaos.ledger import Ledger, Life
from tests.e2e.chaos.story import Story

_WHILE_NS = 1_000_000_000
_MORE = 4
"""Descriptors: more than these at the end are held for something that is over."""


def wrong(story: Story, ledger: Ledger, report: dict[str, Any]) -> Iterator[str]:
    """Processes of the orchestrator that ended as nobody made them, left a launch behind, or said what is not so."""
    for number, life in enumerate(ledger.lives):
        done = [KINDS[hit.kind] for hit in ledger.hits if hit.life == life.pid]
        allowed = {0, 4}
        if life.pid not in story.segments or life.pid in story.finished:  # not yet, or no more, is a signal held back
            allowed |= {-one.number for one in done if one.names == STOPPED}
        if life.pid not in story.segments and any(one.number == signal.SIGINT for one in done):
            allowed |= {1}  # Python itself, before its first line of ours
        allowed |= (
            {-signal.SIGKILL}
            if any(one.number == signal.SIGKILL and one.target is Target.ORCHESTRATOR for one in done)
            else set()
        )
        full = any(one.deed is Deed.FULL_DISK and one.ends for one in done)
        allowed |= {5} if full else set()
        if life.code not in allowed:
            yield f"life {number} ended with {life.code} after {[one.name for one in done]}: {_last_words(life)}"
        if life.code in {0, 4} and life.pid in story.finished:
            mine = [launch for launch, pid in story.life_of.items() if pid == life.pid and story.members[launch]]
            yield from (f"launch {one} was never seen to leave" for one in mine if one not in story.left)
        yield from _broken(story, life, full=full)
        yield from _more_descriptors(story, life)
    yield from (
        f"life {n} ended with 0 before the run was over" for n, one in enumerate(ledger.lives[:-1]) if not one.code
    )
    yield from _verdict(story, ledger, report)


def _verdict(story: Story, ledger: Ledger, report: dict[str, Any]) -> Iterator[str]:
    last = ledger.lives[-1]
    unknown = [str(gpu["gpu_id"]) for gpu in report["health"]["gpus"] if gpu["verdict"] == "UNKNOWN"]
    if unknown and not any(_blinds(KINDS[hit.kind]) for hit in ledger.hits):
        yield f"the health of {', '.join(unknown)} is unknown, though neither telemetry nor its disk was struck"
    failed = bool(unknown) or any(cell["status"] != "ok" for cell in report["cells"])
    said = report["verdict"]["exit_code"]
    if said != (4 if failed else 0) or last.code != said:
        yield f"the run ended with {last.code}, its report says {said}, and {'not ' if failed else ''}all is well"
    if last.pid not in story.finished and not story.finished:
        yield "nobody wrote that the run is over"


def _blinds(kind: Kind) -> bool:
    return kind.target is Target.TELEMETRY or (kind.target is Target.ORCHESTRATOR and kind.deed is Deed.FULL_DISK)


def _last_words(life: Life) -> str:
    return " | ".join(life.log.read_text(errors="replace").splitlines()[-3:])[-1500:]


def _broken(story: Story, life: Life, *, full: bool) -> Iterator[str]:
    """An orchestrator whose disk was full reports that, and no other does. The journal has reserved the space."""
    finished = story.finished.get(life.pid)
    if finished is not None and finished["broken"] and life.code != 5:
        yield f"PID {life.pid} wrote that gpubench could not go on ({finished['reason']}), and ended with {life.code}"
    if full and finished is None and life.pid in story.segments and life.code in {0, 4}:
        yield f"PID {life.pid} had no room to write how the run ended, and ended with {life.code}"


def _more_descriptors(story: Story, life: Life) -> Iterator[str]:
    """An orchestrator holds no more at its end than when it began with its launches, whatever they were."""
    begun = [story.start[launch]["at_ns"] for launch, pid in story.life_of.items() if pid == life.pid]
    if not begun:
        return
    end_ns = min(life.ended_ns, story.finished.get(life.pid, {"at_ns": life.ended_ns})["at_ns"])
    first = [held for at_ns, held in life.descriptors if 0 <= at_ns - min(begun) < _WHILE_NS]
    last = [held for at_ns, held in life.descriptors if 0 < end_ns - at_ns < _WHILE_NS and held]
    if first and last and min(last) > max(first) + _MORE:
        yield f"PID {life.pid} held {max(first)} descriptors when it began, and {min(last)} at its end"
