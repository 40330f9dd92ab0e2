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
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.e2e.chaos.lies import Records, begun, copied, ended, measured_otherwise, rewritten, says
from tests.fakes import faults
from tests.fakes.node import Node


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A run of three cells of which one raises, as it is known to those who planned it."""
    folder = tmp_path_factory.mktemp("checker") / "run"
    models = (faults.model("planted", do="raise"), faults.model("one"), faults.model("two"))
    stored = faults.prepare(folder, *models, formats=faults.EVERY_FORMAT)
    node = Node(folder)
    assert node.wait() == 4, node.output
    log = folder.parent / "life-0.log"
    log.write_text(node.output)
    life = Life(node.process.pid, 0, 2**63, 4, log)
    cells = json.loads(msgspec.json.encode({cell.id: cell for cell in stored.plan.cells}))
    return Ledger(1, folder, cells=cells, planted={"planted": "raise"}, lives=[life], sprung={"planted": 0})


@pytest.fixture
def ledger(done: Ledger, tmp_path: Path) -> Ledger:
    """A copy of that run, to be changed."""
    return copied(done, tmp_path)


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
    ledger.cells["another"] = ledger.cells.pop(next(iter(ledger.cells)))
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
    ledger.lives = [replace(life, code=0)]
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


def test_attempts_with_a_gap_are_found(ledger: Ledger) -> None:
    """The first attempt is the second one."""

    def change(records: Records) -> Records:
        begun(records, "planted")["attempt"] = 2
        return records

    rewritten(ledger, change)
    says(ledger, "are numbered [2]")


def zygote_died(ledger: Ledger, *, spawned: bool, zygotes: int = 0) -> None:
    """The planted failure becomes the end of a zygote. zygotes: so many more were ready before it was struck."""

    def change(records: Records) -> Records:
        launch = ended(records, "planted")["launch"]
        ended(records, "planted")["failure"]["category"] = "zygote died"
        kept = [one for one in records if spawned or one["type"] != "Spawned" or one["launch"] != launch]
        ready = next(one for one in records if one["type"] == "ZygoteStarted")
        return [*kept[:-1], *[ready] * zygotes, kept[-1]]

    rewritten(ledger, change)
    ledger.planted, ledger.sprung = {}, {}


def struck(ledger: Ledger, at_ns: int) -> None:
    """The zygote was killed then."""
    ledger.hits.append(Hit("zygote: SIGKILL", at_ns, 0.0, ledger.lives[0].pid))


def test_a_worker_that_ends_with_its_zygote_is_found(ledger: Ledger) -> None:
    """A launch that had a process is called lost with the zygote."""
    zygote_died(ledger, spawned=True)
    records = reader.read(ledger.folder / "journal.gpj")
    struck(ledger, begun(records, "planted")["at_ns"] + 1)
    says(ledger, "had a process, and was ended with its zygote")


def test_the_death_of_a_zygote_excuses_what_it_was_forking(ledger: Ledger) -> None:
    """A launch without a process, begun with that zygote, and nothing else."""
    zygote_died(ledger, spawned=False)
    records = reader.read(ledger.folder / "journal.gpj")
    struck(ledger, begun(records, "planted")["at_ns"] + 1)
    assert not any("is called 'zygote died'" in one for one in checker.check(ledger))
    ledger.hits.clear()
    struck(ledger, records[1]["monotonic_ns"] - 1)
    says(ledger, "is called 'zygote died'")


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
    for path in (ledger.folder / "report.json", ledger.published):
        report = json.loads(path.read_text())
        report[part][0][name] = value
        path.write_text(json.dumps(report))
    says(ledger, "is not in the report" if name in {"launch", "category"} else f"the report says {name} = ")


def test_an_unknown_health_that_nobody_caused_is_found(ledger: Ledger) -> None:
    """It excuses an exit code, and is itself excused by a strike at telemetry alone."""
    for path in (ledger.folder / "report.json", ledger.published):
        report = json.loads(path.read_text())
        report["health"]["gpus"][0]["verdict"] = "UNKNOWN"
        path.write_text(json.dumps(report))
    words = "is unknown, though neither telemetry nor its disk was struck"
    says(ledger, words)
    ledger.hits.append(Hit("worker: SIGSTOP, SIGCONT", 0, 0.0, ledger.lives[0].pid, 0))
    says(ledger, words)
    ledger.hits.append(Hit("telemetry: SIGSTOP", 0, 0.0, ledger.lives[0].pid))
    assert not any(words in sentence for sentence in checker.check(ledger))


def test_counts_that_are_not_those_of_the_cells_are_found(ledger: Ledger) -> None:
    """The summary of the report has one cell more."""
    path = ledger.folder / "report.json"
    report = json.loads(path.read_text())
    report["summary"]["cells"]["ok"] += 1
    path.write_text(json.dumps(report))
    says(ledger, "the summary: the report says ok = 3, and it was 2")


@pytest.mark.parametrize("kind", ["json", "csv", "txt"])
def test_a_report_that_is_not_where_it_was_asked_for_is_found(ledger: Ledger, kind: str) -> None:
    """It is another one there, or there is none."""
    path = ledger.published.with_suffix(f".{kind}")
    path.write_bytes(path.read_bytes() + b" ")
    says(ledger, "is not that of the run's folder")
    path.unlink()
    says(ledger, f"there is no report.{kind} where the report was asked for")


def finished(ledger: Ledger, **changes: object) -> None:
    """The journal's last words are others."""
    rewritten(ledger, lambda records: [*records[:-1], records[-1] | changes])


def test_a_full_disk_that_ends_well_is_found(ledger: Ledger) -> None:
    """The journal says that gpubench could not go on, or has no last words, and the exit code is not 5."""
    life = ledger.lives[0]
    ledger.hits.append(Hit("orchestrator: disk full, resume", 0, 0.0, life.pid))
    finished(ledger, broken=True)
    says(ledger, "could not go on (), and ended with 4")
    ledger.lives = [replace(life, code=5)]
    assert not any("could not go on" in one for one in checker.check(ledger))
    ledger.lives = [life]
    rewritten(ledger, lambda records: records[:-1])
    says(ledger, "had no room to write how the run ended, and ended with 4")


def test_a_run_that_passes_before_it_is_over_is_found(ledger: Ledger) -> None:
    """A process ended with 0, and another had to go on."""
    ledger.lives.insert(0, replace(ledger.lives[0], code=0))
    says(ledger, "life 0 ended with 0 before the run was over")


@pytest.mark.parametrize("where", ["Left", "End"])
def test_a_wrong_signal_is_found(ledger: Ledger, where: str) -> None:
    """A worker was sent SIGKILL; its end or its process's tells of SIGTERM."""
    told = {"Left": signal.SIGKILL, "End": signal.SIGKILL} | {where: signal.SIGTERM}

    def change(records: Records) -> Records:
        failure = ended(records, "planted")["failure"]
        failure |= {"category": "killed, cause unknown", "signal": int(told["End"])}
        launch = ended(records, "planted")["launch"]
        (left,) = (one for one in records if one["type"] == "Left" and one["launch"] == launch)
        left |= {"exit_code": None, "signal": int(told["Left"])}
        return records

    rewritten(ledger, change)
    launch = ended(reader.read(ledger.folder / "journal.gpj"), "planted")["launch"]
    ledger.hits.append(Hit("worker: SIGKILL", 0, 0.0, ledger.lives[0].pid, launch))
    says(ledger, "was sent [9], and is said to have ended by {")


def test_descriptors_that_grow_in_number_are_found(ledger: Ledger) -> None:
    """The orchestrator held few when it began with its launches, and many when it ended."""
    life = ledger.lives[0]
    records = reader.read(ledger.folder / "journal.gpj")
    begun_ns = min(one["at_ns"] for one in records if one["type"] == "Start")
    ended_ns = records[-1]["at_ns"]
    ledger.lives = [replace(life, descriptors=((begun_ns + 1, 20), (ended_ns - 1, 24)))]
    assert checker.check(ledger) == []
    finished(ledger, at_ns=ended_ns + 10**10)
    ledger.lives = [replace(life, descriptors=((begun_ns + 1, 20), (ended_ns + 10**10 - 1, 25)))]
    says(ledger, "held 20 descriptors when it began, and 25 at its end")
