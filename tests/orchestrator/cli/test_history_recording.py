"""What `run` and `report` leave in the history, what they are told of it, and that neither is in their way."""

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator.cli import history_recording
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run
from orchestrator.errors import HistoryError
from orchestrator.figures.report import Report
from orchestrator.gpu import cuda_probe
from orchestrator.history import store
from orchestrator.history.location import Place, find
from orchestrator.run_reports import reporting
from orchestrator.store import lock, run_files
from protocol.exit_codes import ExitCode
from protocol.paths import RunPaths
from tests.fakes.commands import TINY, python
from tests.fakes.histories import kept, record, recorded, run_id
from tests.fakes.runs import FakeRun, gpus

Invoke = Callable[..., Result]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends at once, with a report that was made before."""
    made = reported(tmp_path / "before").report()

    def execute(stored: StoredRun, *_: object, **__: object) -> Report:
        return replace(made, metadata=replace(made.metadata, run_id=stored.run_id))

    monkeypatch.setattr(run, "execute", execute)


def default() -> Path:
    """Where the history is, unless somebody says otherwise."""
    return find(None, os.environ).path


def test_tests_write_into_no_history_of_the_users() -> None:
    """tests/conftest.py sees to that, for every test and every process that it starts."""
    assert default().is_relative_to(tempfile.gettempdir())
    assert not default().exists()


@pytest.mark.usefixtures("measured")
def test_a_run_is_recorded_unless_told_otherwise(invoke: Invoke, tmp_path: Path) -> None:
    """In the user's data folder, in a file that is named, or nowhere; by options as by a configuration file."""
    invoke(*TINY, "--no-history")
    assert not default().exists()
    invoke(*TINY, "--history-db", "deep/my.db")
    assert (len(recorded(tmp_path / "deep/my.db")), default().exists()) == (1, False)
    Path("off.yaml").write_text("history:\n  enabled: false\n")
    invoke(*TINY, "--config", "off.yaml")
    assert not default().exists()
    invoke(*TINY, "--config", "off.yaml", "--history")
    assert len(recorded(default())) == 1
    Path("other.yaml").write_text("history:\n  file: other.db\n")
    invoke(*TINY, "--config", "other.yaml")
    assert len(recorded(tmp_path / "other.db")) == 1


@pytest.mark.usefixtures("measured")
def test_what_will_not_be_recorded_is_told_before_it_begins(invoke: Invoke, tmp_path: Path) -> None:
    """Another program's file, or a newer version's: once, at the beginning and by --dry-run, and it is not touched."""
    Path("notes.txt").write_text("mine")
    newer = kept(tmp_path, [record(1)]).path
    with contextlib.closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA journal_mode = delete")
        connection.execute("PRAGMA user_version = 99")
    for name, why in (("notes.txt", "not a history"), (str(newer), "a history of version 99")):
        before = Path(name).read_bytes()
        planned = invoke(*TINY, "--dry-run", "--history-db", name)
        assert re.search(f"Note: .*not be recorded, .*: {why}", " ".join(planned.stdout.split()))
        begun = invoke(*TINY, "--history-db", name)
        assert (begun.exit_code, begun.stderr.count("earlier findings")) == (0, 1)
        assert begun.stderr.index("not be recorded") < begun.stderr.index("not recorded")
        assert Path(name).read_bytes() == before
    Path("off.yaml").write_text("history:\n  enabled: false\n  file: notes.txt\n")
    assert "not be recorded" not in invoke(*TINY, "--dry-run", "--config", "off.yaml").stdout


@pytest.mark.usefixtures("executed")
def test_a_folder_is_no_history(invoke: Invoke) -> None:
    """Told before anything is begun; so is an option that changes nothing."""
    Path("folder").mkdir()
    ended = invoke(*TINY, "--history-db", "folder")
    assert ended.exit_code == ExitCode.USAGE
    assert "--history-db: " in ended.stderr
    assert "is a folder" in ended.stderr
    told = invoke(*TINY, "--history-db", "x.db", "--no-history", "--dry-run").stdout
    assert "Note: --history-db changes nothing: " in told


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("trouble", ["no home", "a file in the way", "a newer history"])
def test_a_history_that_cannot_be_used_is_a_note(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """The run, its exit code and its summary are what they would have been."""
    expected = invoke(*TINY, "--quiet", "--no-history").exit_code
    match trouble:
        case "no home":
            monkeypatch.delenv("XDG_DATA_HOME")
            monkeypatch.delenv("HOME")
            words = "XDG_DATA_HOME nor HOME"
        case "a file in the way":
            monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
            (tmp_path / "file").touch()
            words = "cannot be used: "
        case _:
            with store.writing(Place(default(), default=True)) as connection:
                connection.execute("PRAGMA user_version = 99")
            words = "a newer gpubench"
    ended = invoke(*TINY, "--quiet")
    assert ended.exit_code == expected
    [note] = [line for line in ended.stderr.splitlines() if line.startswith("note: the run was not recorded: ")]
    assert words in note
    assert "report: " in ended.stdout


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("damaged", [b"", b"no database", b"nonsense" * 1000])
def test_a_damaged_history_is_no_obstacle_and_told_of_once(invoke: Invoke, damaged: bytes) -> None:
    """It is set aside by the run, which is recorded in a new one. An empty one is just used."""
    default().parent.mkdir(parents=True)
    default().write_bytes(damaged)
    assert "not be recorded" not in invoke(*TINY, "--dry-run").stdout
    assert default().read_bytes() == damaged
    ended = invoke(*TINY, "--quiet")
    assert ("history.damaged-1.db" in ended.stderr) is bool(damaged)
    assert len(recorded(default())) == 1


def reported(folder: Path) -> FakeRun:
    """A run that is over, with its report."""
    fake = FakeRun(folder, batch_sizes=(1,))
    fake.measured(fake.cell(batch_size=1))
    fake.finish()
    reporting.write(fake.stored, fake.paths)
    return fake


def test_a_report_is_recorded_where_it_belongs_to_the_run_or_somebody_asks(invoke: Invoke, tmp_path: Path) -> None:
    """Rendered again it is the run's one entry. Of a report elsewhere only --history and --history-db make one."""
    folder, elsewhere = reported(tmp_path / "runs" / "20240115-103000-abcd").paths.folder, ("-o", "elsewhere.json")
    for words in (("--no-history",), elsewhere, (*elsewhere, "--no-history", "--history-db", "mine.db")):
        assert invoke("report", str(folder), *words).exit_code == 0
    assert (default().exists(), Path("mine.db").exists()) == (False, False)
    invoke("report", str(folder), *elsewhere, "--history-db", "mine.db")
    assert (default().exists(), recorded(tmp_path / "mine.db")) == (False, [folder.name])
    for words in ((*elsewhere, "--history"), (), ()):
        assert invoke("report", str(folder), *words).exit_code == 0
        assert recorded(default()) == [folder.name]
    default().unlink()
    invoke("report", str(folder), "--history-db", "other.db")
    assert (default().exists(), recorded(tmp_path / "other.db")) == (False, [folder.name])


def test_a_run_that_goes_on_is_not_recorded(invoke: Invoke, tmp_path: Path) -> None:
    """It would be of a moment that nobody chose; who asked for it is told so."""
    fake = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    fake.measured(fake.cell(batch_size=1))
    fake.paths.lock.write_bytes(msgspec.json.encode(lock.myself()))
    for place in ((), ("-o", "so-far.json")):
        ended = invoke("report", str(fake.paths.folder), *place, "--history-db", "mine.db")
        assert (ended.exit_code, "still running" in ended.stderr) == (0, True)
        assert "nothing was recorded" in ended.stderr
        assert "nothing was recorded" not in invoke("report", str(fake.paths.folder), *place).stderr
    assert (default().exists(), Path("mine.db").exists()) == (False, False)


def test_a_run_that_kept_none_is_recorded_where_a_later_command_says_so(tmp_path: Path) -> None:
    """What was said when it was begun holds, unless `resume` or `report` is told otherwise."""
    fake = reported(tmp_path / "run")
    quiet = replace(fake.stored, configuration=replace(fake.stored.configuration, history=False))
    own = str(tmp_path / "own.db")
    history_recording.record(fake.report(), quiet, fake.paths, {"history": None, "history_db": None})
    assert not default().exists()
    history_recording.record(fake.report(), quiet, fake.paths, {"history": True, "history_db": None})
    history_recording.record(fake.report(), quiet, fake.paths, {"history": None, "history_db": own})
    assert (len(recorded(default())), len(recorded(Path(own)))) == (1, 1)


# ── who failed before ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("measured")
def test_a_gpu_that_failed_before_is_named_at_the_beginning(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its UUID, in --quiet too, and kept with the run; the others are not."""
    first, second = gpus(2)
    monkeypatch.setattr(cuda_probe, "require", lambda *_: None)
    bad = record(3, device=replace(record().devices[0].device, gpu_uuid=second.uuid), gpu_uuid=second.uuid)
    bad = replace(bad, devices=(replace(bad.devices[0], burn_in="FAIL", burn_in_words="wrong bits"),))
    kept(default().parent, [record(1), bad])
    monkeypatch.setattr("orchestrator.gpu.devices.resolve", lambda *_, **__: (first, second))
    monkeypatch.setattr("orchestrator.gpu.gpu_users.busy", lambda *_: {})
    monkeypatch.setattr("orchestrator.gpu.gpu_users.unseen", lambda *_: ())
    ended = invoke("-m", "lstm", "-b", "1", "--phases", "inference", "--quiet")
    told = [line for line in ended.stderr.splitlines() if "earlier" in line]
    said = f"FAIL in a burn-in on 2026-04-03 (run {run_id(3)}): wrong bits"
    assert [second.uuid in line and said in line for line in told] == [True]
    [folder] = Path("runs").iterdir()
    assert run_files.load(RunPaths(folder)).earlier == {second.uuid: said}


WITHOUT_SQLITE = """
import sys
from pathlib import Path
{blocked}
from orchestrator.cli import history_recording as recording
from tests.fakes.configurations import configuration
from tests.fakes.runs import FakeRun
print(recording.earlier(configuration(), ()))
fake = FakeRun(Path("run"), batch_sizes=(1,))
recording.record(fake.report(), fake.stored, fake.paths)
"""
NOT_BUILT = "sys.modules['sqlite3'] = None"
NOT_LOADED = """
class Broken:
    def find_spec(self, name, *_):
        if name == "_sqlite3":
            raise ImportError("libsqlite3.so.0: cannot open shared object file")
sys.meta_path.insert(0, Broken())
"""


@pytest.mark.parametrize(
    ("blocked", "words"), [(NOT_BUILT, "import of sqlite3"), (NOT_LOADED, "libsqlite3.so.0: cannot open")]
)
def test_a_python_without_sqlite_has_no_history(tmp_path: Path, blocked: str, words: str) -> None:
    """It was built without, or its library is gone: the run begins and ends as ever, and both ends say so."""
    ended = python("-c", WITHOUT_SQLITE.format(blocked=blocked), cwd=tmp_path)
    assert f"are unknown: {words}" in ended.stdout
    assert f"was not recorded: {words}" in ended.stderr
    assert ended.returncode == 0


def test_a_copy_of_a_run_leaves_the_history_to_the_original(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`report` of a copy would put the copy's folder, and what was changed in it, in the original's place."""
    fake = reported(tmp_path / "runs" / "20240115-103000-abcd")
    monkeypatch.setattr("orchestrator.store.report_places.home", lambda _: fake.paths.folder)
    assert invoke("report", str(fake.paths.folder)).exit_code == 0
    shutil.copytree(fake.paths.folder, tmp_path / "copy")
    ended = invoke("report", str(tmp_path / "copy"))
    assert ended.exit_code == 0
    assert re.search(f"note: .*a copy of {fake.paths.folder}: .*the history", ended.stderr)
    with store.reading(Place(default(), default=True)) as connection:
        assert connection is not None
        assert connection.execute("SELECT folder FROM runs").fetchall() == [(str(fake.paths.folder),)]


# ── a history that never answers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_history_that_never_answers_holds_up_neither_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dead server's folder: the beginning and the end of a run wait a while, and say that they gave up."""
    assert history_recording.PATIENCE_S == 2 * store.BUSY_S
    monkeypatch.setattr(history_recording, "PATIENCE_S", 0.2)
    released = threading.Event()

    def hang(*_: object, **__: object) -> Place:
        released.wait(3)
        raise HistoryError("released")

    monkeypatch.setattr("orchestrator.history.location.find", hang)
    fake = reported(tmp_path / "run")
    try:
        _, [unknown] = history_recording.earlier(fake.stored.configuration, ())
        history_recording.record(fake.report(), fake.stored, fake.paths)
    finally:
        released.set()
    assert re.search(r"are unknown: .* 0\.2 s$", unknown)
    note = rf"note: .*not recorded: .* 0\.2 s\. .*`gpubench-orchestrate report {fake.paths.folder}`.*\n"
    assert re.fullmatch(note, capsys.readouterr().err)
