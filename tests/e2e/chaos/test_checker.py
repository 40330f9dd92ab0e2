"""The checker of the chaos harness finds what is wrong: runs that went well, changed in one place each time."""

import signal
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import run_files
from protocol.paths import RunPaths
from tests.e2e.chaos import checker, figures, lies, reader
from tests.e2e.chaos.ledger import Ledger
from tests.e2e.chaos.lies import (
    Lie,
    Records,
    Step,
    Unsaid,
    begun,
    ended,
    failure,
    records,
    report,
    result,
    struck,
    tell,
    unplanted,
    without,
)
from tests.fakes import faults, gangs

KILLED, STOPPED, DIED = "killed, cause unknown", "deadline exceeded", "zygote died"
CULPRIT = "cpu:1"
MODELS = faults.model("one"), faults.model("two")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three cells of which one raises."""
    folder = tmp_path_factory.mktemp("checker") / "run"
    return lies.done(faults.prepare(folder, faults.model("planted", do="raise"), *MODELS), folder)


@pytest.fixture(scope="module")
def gang_run(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three devices, two cells on each, and two on all of them, of which the second fails on one."""
    folder = tmp_path_factory.mktemp("gangs") / "run"
    configs = {"together": {"seconds": 0.1}, "planted": {"do": "raise", "on": CULPRIT}}
    wanted = {name: {"devices": range(3), "config": config} for name, config in configs.items()}
    stored = gangs.added(faults.prepare(folder, *MODELS, devices=3), wanted)
    run_files.store(stored, RunPaths(folder))
    return lies.done(stored, folder, planted=CULPRIT)


def test_runs_that_went_well_are_left_alone(alone: Ledger, gang_run: Ledger, tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong, and launches on several devices are counted."""
    assert checker.check(alone) == checker.check(gang_run) == []
    found = figures.of(gang_run)
    assert (found.launches, found.on_several, found.results) == (8, 2, 7)
    assert dict(found.counts) == {"member of a gang: raise": 1}
    ledger = lies.copied(gang_run, tmp_path)
    tell(ledger, failure(category=KILLED), unplanted, struck("worker: SIGKILL", "planted", "cpu:2"))
    assert dict(figures.of(ledger).counts) == {"member of a gang: SIGKILL": 1}


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
    return lambda ledger: setattr(ledger, "lives", [replace(ledger.lives[0], code=code)])


def passed_early(ledger: Ledger) -> None:
    ledger.lives.insert(0, replace(ledger.lives[0], code=0))


def finished(**changes: object) -> Lie:
    """The last words of the journal are others."""
    return records(lambda found: found[-1].update(changes))


def left_by(number: signal.Signals) -> Lie:
    """The worker of the planted failure left by that signal."""

    def change(found: Records) -> None:
        launch = begun(found, "planted")["launch"]
        (left,) = (one for one in found if one["type"] == "Left" and one["launch"] == launch)
        left |= {"exit_code": None, "signal": int(number)}

    return records(change)


def tried(number: int, category: str) -> Lie:
    """So many more attempts have failed like that."""

    def change(found: Records) -> Records:
        start, end = begun(found, "planted"), ended(found, "planted")
        end["failure"]["category"] = category
        again = [(start | {"attempt": attempt}, end) for attempt in range(2, number + 2)]
        return found + [one | {"launch": 98 + pair[0]["attempt"]} for pair in again for one in pair]

    return records(change)


LIES: dict[str, tuple[Step, ...]] = {
    "a torn journal": (torn, "is damaged"),
    "a result twice": (records(lambda found: [*found, ended(found, "one")]), "has 2 results"),
    "a changed result": (changed, "not the one that the journal promised"),
    "a launch without an end": (without("End", model="one"), "has no end", "'ok' (), without a result"),
    "a process that never left": (without("Left", model="planted"), "was never seen to leave"),
    "a cell missing or invented": (invented, "another is not in the report", "but not in the plan"),
    "a wrong name": (failure(category=STOPPED), "planted: raise, done to it: []) is called 'deadline exceeded'"),
    "a failure that nobody caused": (unplanted, "planted: None, done to it: []) is called 'exception'"),
    "a worker that measures on after its death": (struck("worker: SIGKILL", "one"), "measured on for"),
    "a fork by a dead zygote": (struck("zygote: SIGKILL", after=""), "was forked by a zygote that had been killed"),
    "a loss that nobody mentions": (struck("telemetry: SIGKILL"), "the log does not say"),
    "a planted fault without a failure": (planted_elsewhere, "no launch of it failed"),
    "a wrong exit code": (exited(0), "the run ended with 0"),
    "a cell given up too early": (failure(category="crashed"), "was given up after ['crashed']"),
    "a failure that the report lacks": (report(lambda found: found["failures"].clear()), "is not in the report"),
    "attempts with a gap": (
        records(lambda found: begun(found, "planted").update(attempt=2)),
        "are numbered [2]",
    ),
    "counts that are not those of the cells": (
        report(lambda found: found["summary"]["cells"].update(ok=3)),
        "the summary: the report says ok = 3, and it was 2",
    ),
    "a run that passes before it is over": (passed_early, "life 0 ended with 0 before the run was over"),
    "a worker that ends with its zygote": (
        *(failure(category=DIED), unplanted, struck("zygote: SIGKILL", after="planted")),
        "had a process, and was ended with its zygote",
    ),
    "a zygote's death that nobody caused": (
        *(failure(category=DIED), unplanted, without("Spawned", model="planted")),
        "is called 'zygote died'",
        struck("zygote: SIGKILL", after="planted"),  # it excuses a launch without a process, begun with that zygote
        Unsaid("is called 'zygote died'"),
    ),
    "an unknown health that nobody caused": (
        report(lambda found: found["health"]["gpus"][0].update(verdict="UNKNOWN")),
        *(words := "is unknown, though neither telemetry nor its disk was struck",),
        *(struck("worker: SIGSTOP, SIGCONT", "planted"), words, struck("telemetry: SIGSTOP"), Unsaid(words)),
    ),
    "a full disk that ends well": (
        *(struck("orchestrator: disk full, resume"), finished(broken=True), "could not go on (), and ended with 4"),
        *(exited(5), Unsaid("could not go on"), exited(4), records(lambda found: found[:-1])),
        "had no room to write how the run ended, and ended with 4",
    ),
    **{
        f"a wrong signal in {where}": (
            *(failure(category=KILLED, signal=int(said)), left_by(left), struck("worker: SIGKILL", "planted")),
            "was sent [9], and is said to have ended by {",
        )
        for where, said, left in (("Left", signal.SIGKILL, signal.SIGTERM), ("End", signal.SIGTERM, signal.SIGKILL))
    },
    **{
        f"a result of something else: {words}": (result("one", change), words)
        for change, words in (
            (lambda found: found["cell"].update(precision="bf16"), "its result is that of"),
            (lambda found: found["cell"].update(batch_size=2), "its result is that of {"),
            (lambda found: found.update(items_per_iteration=2), "its result is of 2 items, begun with 1"),
            (lambda found: found["blocks"][0].update(iterations=7), "its result is of 7 iterations"),
            (lambda found: found["series"].update(iteration=struct.pack("<f", 3.0)), "its times are (3.0,) ms"),
        )
    },
    **{
        f"an attempt too many: {category}": (
            *(tried(allowed, category), Unsaid("too many")),
            records(lambda found: [one for one in found if one.get("launch", 0) < 100]),
            *(tried(allowed + 1, category), "is one attempt too many"),
        )
        for category, allowed in ((KILLED, 1), ("crashed", 1), ("exception", 0), (STOPPED, 0), (DIED, 3))
    },
    **{
        f"another {name} in {part}": (
            report(lambda found, part=part, name=name, value=value: found[part][0].update({name: value})),
            "is not in the report" if name in {"launch", "category"} else f"the report says {name} = ",
        )
        for part, name, value in (
            *(("failures", "message", "other"), ("failures", "launch", 99), ("failures", "category", "crashed")),
            *(("cells", "attempts", 99), ("cells", "gpu_uuid", "other"), ("cells", "status", "other")),
        )
    },
}
"""Lies about a run → what the checker says of them."""


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(alone: Ledger, tmp_path: Path, name: str) -> None:
    """One place of a run that went well is changed."""
    tell(lies.copied(alone, tmp_path), *LIES[name])


def doubled(found: Records, model: str, times: int) -> Records:
    """The first process of a launch is there so often."""
    launch = begun(found, model)["launch"]
    at = next(at for at, one in enumerate(found) if one["type"] == "Spawned" and one["launch"] == launch)
    return [*found[:at], *[found[at]] * times, *found[at + 1 :]]


def too_early(*models: str, last: str) -> Lie:
    """The next launch begins before the first of these models has let go of its device."""

    def change(found: Records) -> Records:
        launch = min(begun(found, model)["launch"] for model in models)
        end = next(at for at, one in enumerate(found) if one["type"] == last and one["launch"] == launch)
        at = next(at for at, one in enumerate(found) if at > end and one["type"] == "Start")
        return [*found[:end], found[at], *found[end:at], *found[at + 1 :]]

    return records(change)


def of_members(change: Callable[[dict[str, Any]], object], words: str, model: str = "together") -> tuple[Step, ...]:
    return result(model, change), words


GANG_LIES: dict[str, tuple[Step, ...]] = {
    "a member that is blamed for another": (
        *(failure(device="cpu:2"), "is blamed on cpu:2, and it was ['cpu:1']"),
        *(failure(device=None), "is blamed on None, and it was ['cpu:1']"),
    ),
    "a member that is blamed for a struck one": (
        *(failure(category=KILLED, signal=9, device="cpu:2"), unplanted, struck("worker: SIGKILL", "planted", "cpu:2")),
        *(Unsaid("is blamed on"), Unsaid("is said of it")),
        *(failure(signal=15), "cpu:2 was sent [9], and 15 is said of it"),
        *(failure(signal=9, device="cpu:0"), "is blamed on cpu:0, and it was ['cpu:2']"),
    ),
    **{
        f"nobody is named, where {other} does not excuse it": (
            *(failure(category=STOPPED, device=None), unplanted, struck("worker: SIGSTOP", "planted", "cpu:2")),
            "is blamed on None, and it was ['cpu:2']",
            *(struck(other, "planted", "cpu:0"), Unsaid("is blamed on")),
        )
        for other in ("worker: SIGSTOP", "worker: SIGSTOP, SIGCONT")
    },
    "what only follows from the failure of another": (
        failure(category="communication between devices failed"),
        "is called 'communication between devices failed'",
    ),
    "a failure without the words of the others": (
        records(lambda found: ended(found, "planted")["failure"]["evidence"].pop("on cpu:0") and None),
        "on 3 devices tells of the others only ['on cpu:2']",
    ),
    "a member missing": of_members(
        lambda found: found["others"].pop("cpu:2"), "its result is that of the leader and of {'cpu:1'"
    ),
    "all members missing": of_members(
        lambda found: found.update(others={}), "its result is that of the leader and of {}"
    ),
    "a member's key": of_members(lambda found: found["others"]["cpu:1"].update(key=["cpu:2"]), "{'cpu:1': ['cpu:2']"),
    "a member's checks": of_members(
        lambda found: found["others"]["cpu:1"].update(checks=1), "did not come together equally often"
    ),
    "a member of one": of_members(
        lambda found: found.update(others={"cpu:2": {"key": ["cpu:2"], "checks": 1}}), "the others were []", "one"
    ),
    "a result twice": (
        records(lambda found: [*found[:-1], ended(found, "together"), found[-1]]),
        "has 2 results",
    ),
    "a process too few": (records(lambda found: doubled(found, "together", 0)), "on 3 devices had 2 processes"),
    "a process too many": (records(lambda found: doubled(found, "together", 2)), "on 3 devices had 4 processes"),
    "a member that measures on after its death": (
        *(struck("worker: SIGKILL", "together", "cpu:2"), "measured on for"),
        *(struck("worker: SIGSTOP, SIGCONT", "together", "cpu:1"), "measured on for"),
        *(struck("worker: SIGSTOP, SIGCONT", "together", "cpu:2"), Unsaid("")),
    ),
    "members that end with their zygote": (
        *(failure(category=DIED), unplanted, struck("zygote: SIGKILL", after="planted")),
        *("had a process, and was ended with its zygote", "is called 'zygote died'"),
        records(lambda found: doubled(found, "planted", 0)),  # it excuses a launch of which one was never born
        *(Unsaid("had a process, and was ended with its zygote"), Unsaid("is called 'zygote died'")),
    ),
    "a device with two launches": (too_early("one", "two", last="Left"), " still has"),
    "devices with two launches": (too_early("together", last="End"), " still has"),
}


@pytest.mark.parametrize("name", GANG_LIES)
def test_a_lie_about_several_devices_is_found(gang_run: Ledger, tmp_path: Path, name: str) -> None:
    """One place of a run with cells on several devices is changed."""
    tell(lies.copied(gang_run, tmp_path), *GANG_LIES[name])


@pytest.mark.parametrize("kind", ["json", "csv", "txt"])
def test_a_report_that_is_not_where_it_was_asked_for_is_found(alone: Ledger, tmp_path: Path, kind: str) -> None:
    """It is another one there, or there is none."""
    ledger = lies.copied(alone, tmp_path)
    path = ledger.published.with_suffix(f".{kind}")
    path.write_bytes(path.read_bytes() + b" ")
    tell(ledger, "is not that of the run's folder")
    path.unlink()
    tell(ledger, f"there is no report.{kind} where the report was asked for")


def test_descriptors_that_grow_in_number_are_found(alone: Ledger, tmp_path: Path) -> None:
    """The orchestrator held few when it began with its launches, and many when it ended."""
    ledger = lies.copied(alone, tmp_path)
    found = reader.read(ledger.folder / "journal.gpj")
    begun_ns, ended_ns = min(one["at_ns"] for one in found if one["type"] == "Start"), found[-1]["at_ns"]
    for later_ns, held in ((0, 24), (10**10, 25)):
        tell(ledger, finished(at_ns=ended_ns + later_ns))
        descriptors = (begun_ns + 1, 20), (ended_ns + later_ns - 1, held)
        ledger.lives = [replace(ledger.lives[0], descriptors=descriptors)]
        tell(ledger, "held 20 descriptors when it began, and 25 at its end" if later_ns else Unsaid(""))
