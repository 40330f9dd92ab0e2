"""The checker of the chaos harness finds what is wrong: a run that went well, changed in one place each time."""

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.e2e.chaos import checker, reader
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.fakes import faults
from tests.fakes.node import Node

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three cells of which one raises, as it is known to those who planned it."""
    folder = tmp_path_factory.mktemp("checker") / "run"
    stored = faults.prepare(folder, faults.model("planted", do="raise"), faults.model("one"), faults.model("two"))
    node = Node(folder)
    assert node.wait() == 4, node.output
    log = folder.parent / "life-0.log"
    log.write_text(node.output)
    life = Life(node.process.pid, 0, 2**63, 4, log)
    cells = frozenset(cell.id for cell in stored.plan.cells)
    return Ledger(1, folder, cells=cells, planted={"planted": "raise"}, lives=[life], sprung={"planted": 0})


@pytest.fixture
def ledger(done: Ledger, tmp_path: Path) -> Ledger:
    """A copy of that run, to be changed."""
    shutil.copytree(done.folder, tmp_path / "run")
    return Ledger(done.seed, tmp_path / "run", done.cells, dict(done.planted), [], list(done.lives), dict(done.sprung))


def rewritten(ledger: Ledger, change: Callable[[Records], Records]) -> None:
    """Write the journal again, with other records in the same format."""
    path = ledger.folder / "journal.gpj"
    data = b"gpubench journal 1\n"
    for number, record in enumerate(change(reader.read(path))):
        body = msgpack.packb(record)
        header = struct.pack("<IIQ", len(body), zlib.crc32(body), number)
        data += header + struct.pack("<I", zlib.crc32(header)) + body
    path.write_bytes(data)


def ended(records: Records, model: str) -> dict[str, Any]:
    """The end of the launch of a model."""
    launch = next(one["launch"] for one in records if one["type"] == "Start" and one["cell"].startswith(model))
    return next(one for one in records if one["type"] == "End" and one["launch"] == launch)


def says(ledger: Ledger, words: str) -> None:
    """The checker has found exactly this, among what follows from it."""
    found = checker.check(ledger)
    assert any(words in sentence for sentence in found), found


def test_a_run_that_went_well_is_left_alone(ledger: Ledger) -> None:
    """Nothing is found where nothing is wrong."""
    assert checker.check(ledger) == []


def test_a_torn_journal_is_found(ledger: Ledger) -> None:
    """One byte less at the end."""
    path = ledger.folder / "journal.gpj"
    path.write_bytes(path.read_bytes()[:-1])
    says(ledger, "is damaged")


def test_a_result_that_is_twice_is_found(ledger: Ledger) -> None:
    """The same launch ends a second time with its result."""
    rewritten(ledger, lambda records: [*records, ended(records, "one")])
    says(ledger, "has 2 results")


def test_a_changed_result_is_found(ledger: Ledger) -> None:
    """A result file is not the one that END carries the hash of."""
    path = next(ledger.folder.glob("launches/one*/1/result.msgpack"))
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))
    says(ledger, "not the one that the journal promised")


def test_a_launch_without_an_end_is_found(ledger: Ledger) -> None:
    """An End is missing, and the report says what the journal does not."""
    rewritten(ledger, lambda records: [one for one in records if one != ended(records, "one")])
    says(ledger, "has no end")
    says(ledger, "'ok' (), without a result")


def test_a_process_that_was_never_seen_to_leave_is_found(ledger: Ledger) -> None:
    """A Left is missing although the orchestrator ended in order."""
    rewritten(ledger, lambda records: [one for one in records if one["type"] != "Left" or one["launch"]])
    says(ledger, "was never seen to leave")


def test_a_cell_that_is_missing_or_invented_is_found(ledger: Ledger) -> None:
    """The plan had another cell, and one of those in the report it had not."""
    ledger.cells = frozenset([*list(ledger.cells)[1:], "another"])
    says(ledger, "another is not in the report")
    says(ledger, "but not in the plan")


def test_a_wrong_name_is_found(ledger: Ledger) -> None:
    """The planted exception is called a deadline."""

    def change(records: Records) -> Records:
        ended(records, "planted")["failure"]["category"] = "deadline exceeded"
        return records

    rewritten(ledger, change)
    says(ledger, "planted: raise, done to it: []) is called 'deadline exceeded'")


def test_a_failure_that_nobody_caused_is_found(ledger: Ledger) -> None:
    """The same exception in a model that does nothing wrong."""
    ledger.planted = {}
    ledger.sprung = {}
    says(ledger, "planted: None, done to it: []) is called 'exception'")


def test_a_worker_that_measures_on_after_its_death_is_found(ledger: Ledger) -> None:
    """It was killed before its last block ended, and gave a result all the same."""
    launch = ended(reader.read(ledger.folder / "journal.gpj"), "one")["launch"]
    ledger.hits.append(Hit("worker: SIGKILL", 0, 0.0, ledger.lives[0].pid, launch))
    says(ledger, "measured on for")


def test_a_fork_by_a_dead_zygote_is_found(ledger: Ledger) -> None:
    """A launch has a process, and the journal tells of no zygote after the one that was killed."""
    first = min(one["at_ns"] for one in reader.read(ledger.folder / "journal.gpj") if one["type"] == "Start")
    ledger.hits.append(Hit("zygote: SIGKILL", first, 0.0, ledger.lives[0].pid))
    says(ledger, "was forked by a zygote that had been killed")


def test_a_loss_that_nobody_mentions_is_found(ledger: Ledger) -> None:
    """The telemetry process was killed, and the log is silent."""
    ledger.hits.append(Hit("telemetry: SIGKILL", 0, 0.0, ledger.lives[0].pid))
    says(ledger, "the log does not say")


def test_a_planted_fault_without_a_failure_is_found(ledger: Ledger) -> None:
    """A cell did something to itself, and every launch of it has a result."""
    ledger.planted["one"], ledger.sprung["one"] = "segfault", 0
    says(ledger, "no launch of it failed")


def test_a_wrong_exit_code_is_found(ledger: Ledger) -> None:
    """A cell has failed, and the process ended as if none had."""
    life = ledger.lives[0]
    ledger.lives = [Life(life.pid, life.began_ns, life.ended_ns, 0, life.log)]
    says(ledger, "the run ended with 0")


def test_a_cell_given_up_too_early_is_found(ledger: Ledger) -> None:
    """A crash is tried once more before it is final."""

    def change(records: Records) -> Records:
        ended(records, "planted")["failure"]["category"] = "crashed"
        return records

    rewritten(ledger, change)
    says(ledger, "was given up after ['crashed']")


def test_a_failure_that_the_report_leaves_out_is_found(ledger: Ledger) -> None:
    """The journal has it, the report has not."""
    path = ledger.folder / "report.json"
    report = json.loads(path.read_text())
    path.write_text(json.dumps(report | {"failures": []}))
    says(ledger, "is not in the report")
