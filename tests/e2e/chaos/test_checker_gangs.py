"""The checker of the chaos harness finds what is wrong with a cell on several devices, changed in one place."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.store import run_files
from protocol.paths import RunPaths
from tests.e2e.chaos import checker, figures, reader
from tests.e2e.chaos.ledger import Ledger, Life
from tests.e2e.chaos.lies import (
    Records,
    begun,
    copied,
    ended,
    failure,
    measured_otherwise,
    rewritten,
    says,
    struck,
    unplanted,
)
from tests.fakes import faults, gangs
from tests.fakes.node import Node

DEVICES = ("cpu:0", "cpu:1", "cpu:2")
CULPRIT = "cpu:1"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three devices, two cells on each, and two on all of them, of which the second fails on one."""
    folder = tmp_path_factory.mktemp("gangs") / "run"
    models = (faults.model("one"), faults.model("two"))
    stored = faults.prepare(folder, *models, devices=len(DEVICES))
    configs = {"together": {"seconds": 0.1}, "planted": {"do": "raise", "on": CULPRIT}}
    stored = gangs.added(stored, {name: {"devices": range(3), "config": config} for name, config in configs.items()})
    run_files.store(stored, RunPaths(folder))
    node = Node(folder)
    assert node.wait() == 4, node.output
    log = folder.parent / "life-0.log"
    log.write_text(node.output)
    life = Life(node.process.pid, 0, 2**63, 4, log)
    cells = json.loads(msgspec.json.encode({cell.id: cell for cell in stored.plan.cells}))
    planted, on = {"planted": "raise"}, {"planted": CULPRIT}
    return Ledger(1, folder, cells=cells, planted=planted, planted_on=on, lives=[life], sprung={"planted": 0})


@pytest.fixture
def ledger(done: Ledger, tmp_path: Path) -> Ledger:
    return copied(done, tmp_path)


def of_model(ledger: Ledger, model: str) -> int:
    number: int = begun(reader.read(ledger.folder / "journal.gpj"), model)["launch"]
    return number


def test_a_run_that_went_well_is_left_alone(ledger: Ledger) -> None:
    """Nothing is found where nothing is wrong, and its launches on several devices are counted."""
    assert checker.check(ledger) == []
    found = figures.of(ledger)
    assert (found.launches, found.on_several, found.results) == (8, 2, 7)
    assert dict(found.counts) == {"member of a gang: raise": 1}


def test_a_member_that_is_blamed_for_another_is_found(ledger: Ledger) -> None:
    """The failure names another device than the one that it was planted on, or none at all."""
    failure(device="cpu:2")(ledger)
    says(ledger, "is blamed on cpu:2, and it was ['cpu:1']")
    rewritten(ledger, lambda records: [one for one in records if ended(records, "planted")["failure"].pop("device", 1)])
    says(ledger, "is blamed on None, and it was ['cpu:1']")


def test_a_member_that_is_blamed_for_a_struck_one_is_found(ledger: Ledger) -> None:
    """One was killed; the failure names that one, and by that signal, or it is found."""
    failure(category="killed, cause unknown", signal=int(signal.SIGKILL), device="cpu:2")(ledger)
    unplanted(ledger)
    struck("worker: SIGKILL", "planted", "cpu:2")(ledger)
    blamed, by = "is blamed on", "is said of it"
    assert not any(blamed in one or by in one for one in checker.check(ledger))
    assert dict(figures.of(ledger).counts) == {"member of a gang: SIGKILL": 1}
    failure(signal=int(signal.SIGTERM))(ledger)
    says(ledger, "cpu:2 was sent [9], and 15 is said of it")
    failure(signal=int(signal.SIGKILL), device="cpu:0")(ledger)
    says(ledger, "is blamed on cpu:0, and it was ['cpu:2']")


def test_nobody_need_be_named_only_where_nobody_can_be_told_apart(ledger: Ledger) -> None:
    """One was stopped, and nobody is named: that is found, unless another one was stopped too, if but for a moment."""
    failure(category="deadline exceeded", device=None)(ledger)
    unplanted(ledger)
    struck("worker: SIGSTOP", "planted", "cpu:2")(ledger)
    says(ledger, "is blamed on None, and it was ['cpu:2']")
    for other in ("worker: SIGSTOP", "worker: SIGSTOP, SIGCONT"):
        struck(other, "planted", "cpu:0")(ledger)
        assert not any("is blamed on" in one for one in checker.check(ledger))
        ledger.hits.pop()


def test_what_only_follows_from_the_failure_of_another_is_no_name_for_it(ledger: Ledger) -> None:
    """The connection that broke is called the failure, and not what broke it."""
    failure(category="communication between devices failed")(ledger)
    says(ledger, "is called 'communication between devices failed'")


def test_a_failure_without_the_words_of_the_others_is_found(ledger: Ledger) -> None:
    """How one of the other two ended is not told."""

    def change(records: Records) -> Records:
        del ended(records, "planted")["failure"]["evidence"]["on cpu:0"]
        return records

    rewritten(ledger, change)
    says(ledger, "on 3 devices tells of the others only ['on cpu:2']")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda result: result["others"].pop("cpu:2"), "its result is that of the leader and of {'cpu:1'"),
        (lambda result: result.update(others={}), "its result is that of the leader and of {}"),
        (lambda result: result["others"]["cpu:1"].update(key=["cpu:2"]), "{'cpu:1': ['cpu:2']"),
        (lambda result: result["others"]["cpu:1"].update(checks=1), "did not come together equally often"),
    ],
)
def test_a_result_without_all_members_is_found(
    ledger: Ledger, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    """What one of them had to say is missing, is another's, or is not of the same work."""
    measured_otherwise(ledger, "together", change)
    says(ledger, words)


def test_a_result_of_one_device_with_words_of_others_is_found(ledger: Ledger) -> None:
    """It has a member that it cannot have."""
    other = {"cpu:2": {"key": ["cpu:2"], "checks": 1}}
    measured_otherwise(ledger, "one", lambda result: result.update(others=other))
    says(ledger, "and the others were []")


def test_a_result_that_is_twice_is_found(ledger: Ledger) -> None:
    """Each member counts as a result of its own."""
    rewritten(ledger, lambda records: [*records[:-1], ended(records, "together"), records[-1]])
    says(ledger, "has 2 results")


@pytest.mark.parametrize(("times", "number"), [(0, 2), (2, 4)])
def test_a_launch_of_too_few_or_too_many_processes_is_found(ledger: Ledger, times: int, number: int) -> None:
    """A result on three devices that two processes gave, or four."""
    launch = of_model(ledger, "together")

    def change(records: Records) -> Records:
        born = next(one for one in records if one["type"] == "Spawned" and one["launch"] == launch)
        at = records.index(born)
        return [*records[:at], *[born] * times, *records[at + 1 :]]

    rewritten(ledger, change)
    says(ledger, f"launch {launch} on 3 devices had {number} processes")


def test_a_member_that_measures_on_after_its_death_is_found(ledger: Ledger) -> None:
    """One that does not lead was killed before the last block, and there is a result all the same."""
    struck("worker: SIGKILL", "together", "cpu:2")(ledger)
    says(ledger, "measured on for")
    struck("worker: SIGSTOP, SIGCONT", "together", "cpu:1")(ledger)
    says(ledger, "measured on for")
    struck("worker: SIGSTOP, SIGCONT", "together", "cpu:2")(ledger)
    assert checker.check(ledger) == []


def test_members_that_end_with_their_zygote_are_found(ledger: Ledger) -> None:
    """The zygote's death excuses a launch of which one process was never born, and none of which all were."""
    launch = of_model(ledger, "planted")
    failure(category="zygote died")(ledger)
    unplanted(ledger)
    struck("zygote: SIGKILL", after="planted")(ledger)
    words = f"launch {launch} had a process, and was ended with its zygote"
    says(ledger, words)
    says(ledger, "is called 'zygote died'")

    def unborn(records: Records) -> Records:
        born = [at for at, one in enumerate(records) if one["type"] == "Spawned" and one["launch"] == launch]
        return [one for at, one in enumerate(records) if at != born[-1]]

    rewritten(ledger, unborn)
    found = checker.check(ledger)
    assert not any(words in one or "is called 'zygote died'" in one for one in found), found


@pytest.mark.parametrize(("models", "last"), [(("one", "two"), "Left"), (("together",), "End")])
def test_a_device_with_two_launches_at_once_is_found(ledger: Ledger, models: tuple[str, ...], last: str) -> None:
    """The launch behind the first of these models is told to begin where that one has not yet let go of its device."""
    launch = min(of_model(ledger, model) for model in models)

    def change(records: Records) -> Records:
        end = next(at for at, one in enumerate(records) if one["type"] == last and one["launch"] == launch)
        at = next(at for at, one in enumerate(records) if at > end and one["type"] == "Start")
        return [*records[:end], records[at], *records[end:at], *records[at + 1 :]]

    rewritten(ledger, change)
    says(ledger, f"which launch {launch} still has")


def test_a_wrong_exit_code_is_found(ledger: Ledger) -> None:
    """A cell on several devices has failed, and the process ended as if none had."""
    ledger.lives = [replace(ledger.lives[0], code=0)]
    says(ledger, "the run ended with 0")
