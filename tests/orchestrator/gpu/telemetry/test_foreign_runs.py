"""Run folders from elsewhere: correct by their checksums, and still checked."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from orchestrator.cli.commands import orchestrate
from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.errors import RunFolderError, StorageError
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.gpu.telemetry.samples import SampleReader
from orchestrator.run_reports import reporting
from orchestrator.state import coherence
from orchestrator.state.archive import ResultFileError
from orchestrator.store import journal, lock
from orchestrator.store.journal_records import (
    Dropped,
    End,
    Finished,
    Foreign,
    Header,
    Left,
    Quarantine,
    Record,
    Segment,
    Skipped,
    Start,
)
from orchestrator.system import safe_read
from protocol import codec, floats
from protocol.failure import Category, Failure, Phase
from protocol.paths import RunPaths
from tests.fakes import terminal
from tests.fakes.runs import FakeRun, gpus, shipped

HOSTILE = "\x1b]0;owned\x07\x1b[35m\x1bPq\x1b\\\x9b2J\x07\x08\r\u202e\u2066evil"


def harmless(text: str) -> bool:
    """Whether a terminal only shows it."""
    return all(char.isprintable() or char == "\n" for char in text)


Change = Callable[[Any], Any]

ELSEWHERE = Failure(category=Category.DEADLINE, message="m", phase=Phase.MEASURE, device="GPU-x")


def changing(**fields: Any) -> Change:
    """Change fields of a record."""
    return lambda record: msgspec.structs.replace(record, **fields)


def after(added: Record) -> Change:
    """Put a record before another one."""
    return lambda record: (added, record)


FORGED: dict[str, tuple[type[Record], Change, str]] = {
    "a cell that is not planned": (Start, changing(cell="../.."), "not planned on"),
    "a round that is not planned": (Start, changing(round=7), "not planned on"),
    "a device of nobody": (Start, changing(device="GPU-x"), "not planned on"),
    "attempt 0": (Start, changing(attempt=0), "attempt 0"),
    "no batch": (Start, changing(batch_size=0), "batch size 0"),
    "a launch twice": (Start, lambda it: (it, it), "starts twice"),
    "an end of nothing": (End, changing(launch=99), "launch 99 never started"),
    "a process of nothing": (Left, changing(launch=99), "launch 99 never started"),
    "neither result nor failure": (End, changing(result_sha256=None), "or neither"),
    "a failure elsewhere": (End, changing(result_sha256=None, failure=ELSEWHERE), "no device of launch 0"),
    "a second beginning": (Header, lambda it: (it, it), "run starts twice"),
    "a year that is none": (Header, changing(created=1e15), "not a time"),
    "a segment before time": (Segment, changing(wall=-1.0), "not a time"),
    "nobody works": (Segment, lambda _: (), "before the first session"),
    "a device lost that is none": (
        Finished,
        after(Quarantine(device="GPU-x", at_ns=1, reason="")),
        "no device of the run",
    ),
    "somebody on no device": (Finished, after(Foreign(device="GPU-x", at_ns=1, by="PID 7")), "no device of the run"),
    "a model that is none": (Finished, after(Skipped(model="nobody", at_ns=1, reason="")), "no model of the run"),
    "a dropped cell that is none": (Finished, after(Dropped(cell="x", round=0, at_ns=1, reason="")), "is not planned"),
}
"""The record that is changed, how (into one, none or two), and a part of the message."""


def forged(records: Iterable[Record], kind: type[Record], change: Change) -> list[Record]:
    """The records with the first of a kind changed."""
    made: list[Record] = []
    for record in records:
        done = any(isinstance(one, kind) for one in made) or not isinstance(record, kind)
        changed = record if done else change(record)
        made += changed if isinstance(changed, tuple) else (changed,)
    return made


@pytest.mark.parametrize("what", FORGED)
def test_records_that_cannot_be_of_this_run_are_reported(tmp_path: Path, what: str) -> None:
    """The journal of a real run is coherent; one record that does not fit is reported with its number."""
    kind, change, words = FORGED[what]
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    run.finish()
    records = journal.read(run.paths.journal)
    assert coherence.wrong(run.stored, records) is None
    assert re.match(f"record .*{re.escape(words)}", str(coherence.wrong(run.stored, forged(records, kind, change))))


def test_a_journal_cannot_name_a_folder_elsewhere(tmp_path: Path) -> None:
    """A cell that is not in the plan would have its results read elsewhere: the run is refused."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    records = [
        msgspec.structs.replace(record, cell="../../elsewhere") if hasattr(record, "cell") else record
        for record in journal.read(run.paths.journal)
    ]
    run.paths.journal.unlink()
    with journal.Journal(run.paths.journal) as forged:
        for record in records:
            forged.append(record)
    with pytest.raises(RunFolderError, match="not planned"):
        run.archive()


def test_files_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result beyond the cap has another checksum; an endless run.yaml is refused."""
    run = FakeRun(tmp_path / "run")
    run.measured(run.cell(batch_size=1))
    loaded = run.archive()
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(ResultFileError, match="1001 bytes"):
        loaded.result(loaded.attempts[0])
    run.paths.config.unlink()
    run.paths.config.symlink_to("/dev/zero")
    with pytest.raises(RunFolderError, match="larger than"):
        run.archive()


GROWING: dict[str, Callable[[FakeRun], Path]] = {
    "journal": lambda run: run.paths.journal,
    "samples": lambda run: run.paths.samples(run.stored.devices[0].uuid),
    "health": lambda run: run.paths.health,
}
"""Files that grow during a run."""


def sparse(path: Path) -> None:
    """40 GB that take no room on the disk."""
    path.touch()
    os.truncate(path, 40_000_000_000)


STRANGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "without end": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "a pipe of nobody": (os.mkfifo, "not a regular file"),
    "a folder": (Path.mkdir, "Is a directory"),
    "sparse": (sparse, "larger than 1024 MiB"),
}
"""What may lie there instead, and a part of the message."""


@pytest.mark.parametrize("file", GROWING)
@pytest.mark.parametrize("kind", STRANGE)
def test_files_that_grow_are_not_read_whatever_they_are(tmp_path: Path, file: str, kind: str) -> None:
    """A device, a pipe, a folder or 40 GB in place of a journal, of samples or of health records."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    run.finish()
    path = GROWING[file](run)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make, words = STRANGE[kind]
    make(path)
    with pytest.raises(RunFolderError, match=rf"^{re.escape(str(path))}: .*{words}"):
        run.report()
    with pytest.raises((RunFolderError, StorageError, OSError), match=words):
        journal.Journal(path) if file == "journal" else FrameFile(path)
    assert SampleReader(path, "boot").read() == ()


def test_a_file_that_grows_is_read_up_to_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of just the cap is read, and one byte more is too much."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    size = journal.length(run.paths.journal)
    monkeypatch.setattr(safe_read, "CAP_BYTES", size)
    assert journal.read(run.paths.journal)
    monkeypatch.setattr(safe_read, "CAP_BYTES", size - 1)
    with pytest.raises(RunFolderError, match="larger than"):
        journal.read(run.paths.journal)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"series": {"iteration": b"\0" * 7}}, "multiple of 4"),
        ({"series": {"iteration": b"\0\0\xc0\x7f"}}, "not finite"),
        ({"series": {"iteration": floats.pack([1.0, -1.0])}}, "below zero"),
        ({"group": 0}, "covers nothing"),
        ({"items_per_iteration": -1}, "covers nothing"),
    ],
)
def test_a_result_that_no_measurement_can_have_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """Also with the right checksum: no figure is made of it, and the run is incomplete."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1), **change)
    loaded = run.archive()
    with pytest.raises(ResultFileError, match=words):
        loaded.result(loaded.attempts[0])
    assert run.report().verdict.word == "incomplete"


def test_a_block_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    """A clock that runs backwards has measured nothing."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    sound = run.archive().result(run.archive().attempts[0])
    block = msgspec.structs.replace(sound.blocks[0], end_ns=sound.blocks[0].start_ns - 1)
    assert sound.flaw is None
    assert "before it begins" in str(msgspec.structs.replace(sound, blocks=(block,)).flaw)


def test_verdicts_of_reports_are_not_read(tmp_path: Path) -> None:
    """A report with PASS in a failed run changes nothing: journal and results alone make the verdict."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.failed(run.cell(batch_size=1), Category.CRASHED)
    run.finish()
    before = run.report().verdict
    run.paths.report("json").write_text('{"verdict": {"word": "passed", "exit_code": 0}}')
    assert reporting.make(run.paths).verdict == before
    assert before.exit_code != 0


def test_a_lock_of_garbage_has_no_holder(tmp_path: Path) -> None:
    """Bytes that are no text, no JSON or no holder: no process is taken for the run's."""
    paths = RunPaths(tmp_path)
    for garbage in (b'{"hostname":"\xff"}', b"[" * 5000, b"null", b'{"pid": "1"}', b"\0"):
        paths.lock.write_bytes(garbage)
        assert lock.holder(paths) is None


@pytest.fixture
def hostile(tmp_path: Path) -> FakeRun:
    """A run in which every external text contains escape sequences."""
    model = msgspec.structs.replace(shipped("resnet50")[0], title=HOSTILE, type=HOSTILE)
    run = FakeRun(tmp_path / "run", devices=gpus(2, name=HOSTILE, serial=HOSTILE), models=[model], hostname=HOSTILE)
    run.measured(run.cell(batch_size=1))
    run.failed(
        run.cell(batch_size=8),
        Category.EXCEPTION,
        message=HOSTILE,
        exception=HOSTILE,
        traceback=HOSTILE,
        evidence={HOSTILE: HOSTILE, "stderr": HOSTILE},
    )
    run.finish(interrupted=True, reason=HOSTILE)
    return run


@pytest.mark.parametrize("command", ["status", "explain", "report", "watch"])
def test_commands_print_no_escapes(hostile: FakeRun, command: str) -> None:
    """Names, messages and reasons of a run reach the terminal as text."""
    done = CliRunner().invoke(orchestrate, [command, str(hostile.paths.folder)])
    assert "evil" in done.output or command in {"report", "watch"}, done.output
    assert harmless(done.output), ascii(done.output)


@pytest.mark.parametrize("kind", ["csv", "txt"])
def test_reports_contain_no_escapes(hostile: FakeRun, kind: str) -> None:
    """The files that people show in a terminal contain text alone."""
    reporting.write(hostile.stored, hostile.paths)
    assert harmless(hostile.paths.report(kind).read_text())


def test_live_lines_contain_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do the lines that scroll by above them."""
    monkeypatch.setenv("TERM", "xterm-256color")
    tty = terminal.Terminal()
    line = DeviceLine(uuid=HOSTILE, label=HOSTILE, name=HOSTILE, cell=HOSTILE, phase=Phase.BUILD, note=HOSTILE)
    idle = DeviceLine(uuid=HOSTILE, label=HOSTILE, name=HOSTILE, note=HOSTILE)
    failure = Failure(category=Category.EXCEPTION, message=HOSTILE, phase=Phase.BUILD, evidence={HOSTILE: HOSTILE})
    shown = terminal.make(tty.stream, verbose=True)
    shown.show(Snapshot(devices=(line, idle), done=0, total=1, share=0.0, failed=0, elapsed_s=1, eta_s=None))
    shown.tell(Notice(level="warning", message=HOSTILE))
    shown.tell(CellEnded(label=HOSTILE, cell=HOSTILE, batch_size=1, attempt=1, summary=HOSTILE, failure=failure))
    shown.close()
    text = tty.read()
    tty.close()
    assert "evil" in text
    for wrong in ("owned", "\x1bP", "\x9b", "\x07", "\x08", "\u202e", "\u2066", "\x1b[35m"):
        assert wrong not in text, ascii(text)
