"""The checker of the chaos harness finds what is wrong: a run that went well, changed in one place each time."""

import json
import signal
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.chaos import checker, reader
from tests.e2e.chaos.ledger import Ledger, Life
from tests.e2e.chaos.lies import (
    Lie,
    Records,
    begun,
    copied,
    ended,
    failure,
    measured_otherwise,
    records,
    report,
    rewritten,
    says,
    struck,
    unplanted,
    without,
)
from tests.fakes import faults
from tests.fakes.node import Node


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three cells of which one raises, as it is known to those who planned it."""
    folder = tmp_path_factory.mktemp("checker") / "run"
    models = (faults.model("planted", do="raise"), faults.model("one"), faults.model("two"))
    stored = faults.prepare(folder, *models)
    node = Node(folder)
    assert node.wait() == 4, node.output
    log = folder.parent / "life-0.log"
    log.write_text(node.output)
    life = Life(node.process.pid, 0, 2**63, 4, log)
    cells = json.loads(msgspec.json.encode({cell.id: cell for cell in stored.plan.cells}))
    return Ledger(1, folder, cells=cells, planted={"planted": "raise"}, lives=[life], sprung={"planted": 0})


@pytest.fixture
def ledger(done: Ledger, tmp_path: Path) -> Ledger:
    return copied(done, tmp_path)


def test_a_run_that_went_well_is_left_alone(ledger: Ledger) -> None:
    """Nothing is found where nothing is wrong."""
    assert checker.check(ledger) == []


def planted_elsewhere(ledger: Ledger) -> None:
    ledger.planted["one"], ledger.sprung["one"] = "segfault", 0


def torn(ledger: Ledger) -> None:
    path = ledger.folder / "journal.gpj"
    path.write_bytes(path.read_bytes()[:-1])


def changed(ledger: Ledger) -> None:
    path = next(ledger.folder.glob("launches/one*/1/result.msgpack"))
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))


def invented(ledger: Ledger) -> None:
    ledger.cells["another"] = ledger.cells.pop(next(iter(ledger.cells)))


def exited(code: int) -> Lie:
    def lie(ledger: Ledger) -> None:
        ledger.lives = [replace(ledger.lives[0], code=code)]

    return lie


def passed_early(ledger: Ledger) -> None:
    ledger.lives.insert(0, replace(ledger.lives[0], code=0))


def second_attempt(found: Records) -> Records:
    begun(found, "planted")["attempt"] = 2
    return found


def lied_with(*lies: Lie) -> Lie:
    return lambda ledger: [lie(ledger) for lie in lies]


ZYGOTE_DIED = failure(category="zygote died")
LIES: dict[str, tuple[Lie, tuple[str, ...]]] = {
    "a torn journal": (torn, ("is damaged",)),
    "a result twice": (records(lambda found: [*found, ended(found, "one")]), ("has 2 results",)),
    "a changed result": (changed, ("not the one that the journal promised",)),
    "a launch without an end": (without("End", model="one"), ("has no end", "'ok' (), without a result")),
    "a process that never left": (without("Left", model="planted"), ("was never seen to leave",)),
    "a cell missing or invented": (invented, ("another is not in the report", "but not in the plan")),
    "a wrong name": (
        failure(category="deadline exceeded"),
        ("planted: raise, done to it: []) is called 'deadline exceeded'",),
    ),
    "a failure that nobody caused": (unplanted, ("planted: None, done to it: []) is called 'exception'",)),
    "a worker that measures on after its death": (struck("worker: SIGKILL", "one"), ("measured on for",)),
    "a fork by a dead zygote": (struck("zygote: SIGKILL", after=""), ("was forked by a zygote that had been killed",)),
    "a loss that nobody mentions": (struck("telemetry: SIGKILL"), ("the log does not say",)),
    "a planted fault without a failure": (planted_elsewhere, ("no launch of it failed",)),
    "a wrong exit code": (exited(0), ("the run ended with 0",)),
    "a cell given up too early": (failure(category="crashed"), ("was given up after ['crashed']",)),
    "a failure that the report lacks": (report(lambda found: found["failures"].clear()), ("is not in the report",)),
    "attempts with a gap": (records(second_attempt), ("are numbered [2]",)),
    "counts that are not those of the cells": (
        report(lambda found: found["summary"]["cells"].update(ok=3)),
        ("the summary: the report says ok = 3, and it was 2",),
    ),
    "a run that passes before it is over": (passed_early, ("life 0 ended with 0 before the run was over",)),
    "a worker that ends with its zygote": (
        lied_with(ZYGOTE_DIED, unplanted, struck("zygote: SIGKILL", after="planted")),
        ("had a process, and was ended with its zygote",),
    ),
    "a zygote's death that nobody caused": (
        lied_with(ZYGOTE_DIED, unplanted, without("Spawned", model="planted")),
        ("is called 'zygote died'",),
    ),
}
"""What is changed → what the checker says of it."""


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(ledger: Ledger, name: str) -> None:
    """One place of a run that went well is changed."""
    lie, sentences = LIES[name]
    lie(ledger)
    for words in sentences:
        says(ledger, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda result: result["cell"].update(precision="bf16"), "its result is that of"),
        (lambda result: result["cell"].update(batch_size=2), "its result is that of"),
        (lambda result: result.update(items_per_iteration=2), "its result is of 2 items, begun with 1"),
        (lambda result: result["blocks"][0].update(iterations=7), "its result is of 7 iterations"),
        (lambda result: result["series"].update(iteration=struct.pack("<f", 3.0)), "its times are (3.0,) ms"),
    ],
)
def test_a_result_of_something_else_is_found(
    ledger: Ledger, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    """Another cell, another batch, other iterations than were planned and begun."""
    measured_otherwise(ledger, "one", change)
    says(ledger, words)


@pytest.mark.parametrize(
    ("category", "before"),
    [("killed, cause unknown", 1), ("crashed", 1), ("exception", 0), ("deadline exceeded", 0), ("zygote died", 3)],
)
def test_an_attempt_too_many_is_found(ledger: Ledger, category: str, before: int) -> None:
    """So many retries are allowed by the failure, and there is one more."""

    def attempts(number: int) -> Callable[[Records], Records]:
        def change(records: Records) -> Records:
            start, end = begun(records, "planted"), ended(records, "planted")
            end["failure"]["category"] = category
            again = [
                one | {"launch": 100 + number_}
                for number_ in range(number)
                for one in (start | {"attempt": number_ + 2}, end)
            ]
            return [*records, *again]

        return change

    rewritten(ledger, attempts(before))
    assert not any("too many" in sentence for sentence in checker.check(ledger))
    rewritten(ledger, lambda records: [one for one in records if one.get("launch", 0) < 100])
    rewritten(ledger, attempts(before + 1))
    says(ledger, "is one attempt too many")


def test_the_death_of_a_zygote_excuses_what_it_was_forking(ledger: Ledger) -> None:
    """A launch without a process, begun with that zygote."""
    unborn = without("Spawned", model="planted")
    lied_with(ZYGOTE_DIED, unplanted, unborn, struck("zygote: SIGKILL", after="planted"))(ledger)
    assert not any("is called 'zygote died'" in one for one in checker.check(ledger))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        *(("failures", name, "other") for name in ("cell", "gpu_uuid", "model_name", "message", "phase", "status")),
        *(("failures", name, 99) for name in ("launch", "attempt", "batch_size", "signal")),
        ("failures", "category", "crashed"),
        *(("cells", name, 99) for name in ("batch_size", "batch_size_requested", "attempts", "launches")),
        *(("cells", name, "other") for name in ("gpu_uuid", "model_name", "status")),
    ],
)
def test_a_report_that_says_something_else_is_found(ledger: Ledger, part: str, name: str, value: object) -> None:
    """One field of a failure, or of a cell, is another one."""
    report(lambda found: found[part][0].update({name: value}))(ledger)
    says(ledger, "is not in the report" if name in {"launch", "category"} else f"the report says {name} = ")


def test_an_unknown_health_that_nobody_caused_is_found(ledger: Ledger) -> None:
    """It excuses an exit code, and is itself excused by a strike at telemetry alone."""
    report(lambda found: found["health"]["gpus"][0].update(verdict="UNKNOWN"))(ledger)
    words = "is unknown, though neither telemetry nor its disk was struck"
    says(ledger, words)
    struck("worker: SIGSTOP, SIGCONT", "planted")(ledger)
    says(ledger, words)
    struck("telemetry: SIGSTOP")(ledger)
    assert not any(words in sentence for sentence in checker.check(ledger))


@pytest.mark.parametrize("kind", ["json", "csv", "txt"])
def test_a_report_that_is_not_where_it_was_asked_for_is_found(ledger: Ledger, kind: str) -> None:
    """It is another one there, or there is none."""
    path = ledger.published.with_suffix(f".{kind}")
    path.write_bytes(path.read_bytes() + b" ")
    says(ledger, "is not that of the run's folder")
    path.unlink()
    says(ledger, f"there is no report.{kind} where the report was asked for")


def finished(ledger: Ledger, **changes: object) -> None:
    rewritten(ledger, lambda found: [*found[:-1], found[-1] | changes])


def test_a_full_disk_that_ends_well_is_found(ledger: Ledger) -> None:
    """The journal says that gpubench could not go on, or has no last words, and the exit code is not 5."""
    struck("orchestrator: disk full, resume")(ledger)
    finished(ledger, broken=True)
    says(ledger, "could not go on (), and ended with 4")
    exited(5)(ledger)
    assert not any("could not go on" in one for one in checker.check(ledger))
    exited(4)(ledger)
    rewritten(ledger, lambda found: found[:-1])
    says(ledger, "had no room to write how the run ended, and ended with 4")


@pytest.mark.parametrize("where", ["Left", "End"])
def test_a_wrong_signal_is_found(ledger: Ledger, where: str) -> None:
    """A worker was sent SIGKILL; its end or its process's tells of SIGTERM."""
    told = {"Left": signal.SIGKILL, "End": signal.SIGKILL} | {where: signal.SIGTERM}

    def change(found: Records) -> Records:
        launch = begun(found, "planted")["launch"]
        (left,) = (one for one in found if one["type"] == "Left" and one["launch"] == launch)
        left |= {"exit_code": None, "signal": int(told["Left"])}
        return found

    failure(category="killed, cause unknown", signal=int(told["End"]))(ledger)
    rewritten(ledger, change)
    struck("worker: SIGKILL", "planted")(ledger)
    says(ledger, "was sent [9], and is said to have ended by {")


def test_descriptors_that_grow_in_number_are_found(ledger: Ledger) -> None:
    """The orchestrator held few when it began with its launches, and many when it ended."""
    life = ledger.lives[0]
    found = reader.read(ledger.folder / "journal.gpj")
    begun_ns = min(one["at_ns"] for one in found if one["type"] == "Start")
    ended_ns = found[-1]["at_ns"]
    ledger.lives = [replace(life, descriptors=((begun_ns + 1, 20), (ended_ns - 1, 24)))]
    assert checker.check(ledger) == []
    finished(ledger, at_ns=ended_ns + 10**10)
    ledger.lives = [replace(life, descriptors=((begun_ns + 1, 20), (ended_ns + 10**10 - 1, 25)))]
    says(ledger, "held 20 descriptors when it began, and 25 at its end")
