"""Reading a run back from its folder."""

import hashlib
import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from orchestrator import TOOL_VERSION
from orchestrator.config.run_configuration import Plan
from orchestrator.errors import RunFolderError
from orchestrator.state import archive
from orchestrator.state.archive import ResultFileError
from orchestrator.state.attempts import Attempt
from orchestrator.store import journal, run_files
from protocol.failure import Category
from tests.fakes.runs import CREATED, SECOND_NS, FakeRun, gpus

HOSTILE = 'evil: "name"\n- [\x1b[31mred\x1b[0m] \x00 \u202e # & * ! | > % @ ` 中文 null'


def test_run_yaml_is_plain_yaml_and_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    """Hostile names are text, lists are written out without aliases, and the plan keeps its hash."""
    run = FakeRun(tmp_path / "run", devices=gpus(2, name=HOSTILE), launches=3)
    assert run_files.load(run.paths) == run.stored
    assert run_files.load(run.paths).plan.hash == run.stored.plan.hash
    text = run.paths.config.read_text()
    assert not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
    assert yaml.safe_load(text)["configuration"]["batch_sizes"] == [1, 8]


def test_attempts_come_in_order_with_their_ends(tmp_path: Path) -> None:
    """A result, a failure and an interrupted attempt are told apart, each with its times."""
    run = FakeRun(tmp_path / "run", devices=gpus(1))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.CRASHED, signal=11)
    run.interrupted(run.cell(batch_size=8))
    good, bad, open_ = run.archive().attempts
    assert (good.promised is not None, good.failure, good.start.attempt) == (True, None, 1)
    assert bad.failure is not None
    assert (bad.promised, bad.failure.signal, bad.start.attempt) == (None, 11, 1)
    assert (open_.end, open_.left, open_.lasted_ms, open_.start.attempt) == (None, None, None, 2)
    assert bad.lasted_ms == 500.0
    assert good.started == pytest.approx(CREATED + 0.1)
    assert run.archive().finished is None


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "other"])
def test_a_damaged_result_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    """A flipped bit, a cut tail, a missing file and another result are all refused, and the message names the file."""
    run = FakeRun(tmp_path / "run")
    run.measured(run.cell(batch_size=1))
    run.measured(run.cell(batch_size=8))
    read = run.archive()
    whole = read.result(read.attempts[0])
    assert (whole.cell.batch_size, len(whole.times_ms("forward"))) == (1, 400)
    path = read.folder(read.attempts[0]).result
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    match damage:
        case "flipped":
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:-7])
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(read.folder(read.attempts[1]).result.read_bytes())
    with pytest.raises(ResultFileError, match=r"result\.msgpack"):
        read.result(read.attempts[0])


def test_a_result_that_is_no_result_is_refused(tmp_path: Path) -> None:
    """Bytes with the right hash that are not a result raise the same error."""
    run = FakeRun(tmp_path / "run")
    run.measured(run.cell(batch_size=1))
    read = run.archive()
    attempt = read.attempts[0]
    read.folder(attempt).result.write_bytes(b"\x81\xa1a\x01")
    assert attempt.end is not None
    end = msgspec.structs.replace(attempt.end, result_sha256=hashlib.sha256(b"\x81\xa1a\x01").hexdigest())
    with pytest.raises(ResultFileError, match="not a valid message"):
        read.result(Attempt(attempt.segment, attempt.start, end))


def test_a_reboot_does_not_confuse_the_clock(tmp_path: Path) -> None:
    """Monotonic time begins anew after a reboot; calendar times go on, and no duration spans the two."""
    run = FakeRun(tmp_path / "run")
    run.measured(run.cell(batch_size=1))
    run.interrupted(run.cell(batch_size=8))
    run.segment(boot_id="another", now_ns=5 * SECOND_NS)
    run.measured(run.cell(batch_size=8))
    run.finish()
    read = run.archive()
    assert len(read.segments) == 2
    starts = [attempt.started for attempt in read.attempts]
    assert starts == sorted(starts)
    assert all(0 < duration < 60 for duration in read.durations_s)
    assert read.finished is not None


def test_a_run_that_goes_on_after_its_end_is_not_finished(tmp_path: Path) -> None:
    """After `resume` the old end no longer counts."""
    run = FakeRun(tmp_path / "run")
    run._journal.append(archive.Finished(at_ns=run.now_ns, interrupted=True))
    run.segment()
    assert run.archive().finished is None


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """A plan.json that was changed after the fact does not belong to its journal any more."""
    run = FakeRun(tmp_path / "run")
    other = FakeRun(tmp_path / "other", batch_sizes=(2, 4))
    run.paths.plan.write_bytes(other.paths.plan.read_bytes())
    with pytest.raises(RunFolderError, match="belong together"):
        run.archive()


@pytest.mark.parametrize("where", ["plan", "fields", "fields of the plan"])
def test_a_run_of_another_version_is_refused_by_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Nobody has changed anything: a cell has got a new field since, or a field is not known here."""
    run = FakeRun(tmp_path / "run")
    wrote = run.stored.tool_version
    monkeypatch.setattr(run_files, "TOOL_VERSION", "9.0")
    if where == "plan":
        monkeypatch.setattr(Plan, "hash", property(lambda _: "another"))
    elif where == "fields of the plan":
        run.paths.plan.write_text(run.paths.plan.read_text().replace('"model":', '"network":'))
    else:
        run.paths.config.write_text(run.paths.config.read_text().replace("run_id:", "id_of_run:", 1))
    with pytest.raises(RunFolderError, match=rf"gpubench {wrote}.* 9\.0.* gpubench {wrote} "):
        run.archive()


CONFIGS = (b"", b"a: [", b"- 1", b"tool_version: 1", b"[" * 50_000, b"\x00", b"a: !!python/object:x 1")
PLANS = (b"", b"{", b"[]", b"{}", b"[" * 500_000, b'{"cells": "\xff"}', b'{"cells": 1e999}')


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [*(("config", one, r"run\.yaml") for one in CONFIGS), *(("plan", one, r"plan\.json: damaged") for one in PLANS)],
)
def test_a_damaged_file_is_an_error_for_people(tmp_path: Path, name: str, data: bytes, named: str) -> None:
    """Whatever stands in run.yaml or plan.json, the answer is one error that names it."""
    run = FakeRun(tmp_path / "run")
    getattr(run.paths, name).write_bytes(data)
    with pytest.raises(RunFolderError, match=named):
        run.archive()


def test_the_plan_is_hashed_as_it_lies_on_disk(tmp_path: Path) -> None:
    """Anybody can tell with sha256sum whether a plan.json belongs to a journal."""
    run = FakeRun(tmp_path / "run")
    assert hashlib.sha256(run.paths.plan.read_bytes()).hexdigest().startswith(run.archive().header.plan_hash)


@pytest.mark.parametrize("change", ["two GPUs swapped", "no fault injected", "a comment"])
def test_a_changed_run_yaml_is_refused(tmp_path: Path, change: str) -> None:
    """It decides which GPU a FAIL belongs to, and whether the run may pass: it is bound as the plan is."""
    run = FakeRun(tmp_path / "run", devices=gpus(2))
    run.store(replace(run.stored, configuration=replace(run.stored.configuration, tainted=True)))
    before = run.paths.config.read_text()
    text = {
        "two GPUs swapped": before.replace("gpu_id: 0", "gpu_id: x").replace("gpu_id: 1", "gpu_id: 0"),
        "no fault injected": before.replace("tainted: true", "tainted: false"),
        "a comment": f"{before}# a note\n",
    }[change].replace("gpu_id: x", "gpu_id: 1")
    assert text != before
    run.archive()
    run.paths.config.write_text(text)
    with pytest.raises(RunFolderError, match="belong together"):
        run.archive()


@pytest.mark.parametrize("version", ["0.0.9", TOOL_VERSION])
def test_a_run_from_before_run_yaml_was_bound_is_refused(tmp_path: Path, version: str) -> None:
    """With the version that wrote it, where that is another one."""
    run = FakeRun(tmp_path / "run")
    header, *rest = journal.read(run.paths.journal)
    run.paths.journal.unlink()
    with journal.Journal(run.paths.journal) as old:
        for record in (replace(header, config_hash="", tool_version=version), *rest):
            old.append(record)
    words = "Use gpubench 0.0.9" if version == "0.0.9" else f"another build .* {version}"
    with pytest.raises(RunFolderError, match=words):
        run.archive()


def test_a_plan_takes_no_more_memory_than_a_plan_may(tmp_path: Path) -> None:
    """Values that no plan has are not made: they would take twenty times their text. A huge file is not even read."""
    run = FakeRun(tmp_path / "run")
    hostile = b'{"cells":[' + b"[]," * 2_000_000 + b"[]]}"
    run.paths.plan.write_bytes(hostile)
    tracemalloc.start()
    try:
        with pytest.raises(RunFolderError, match=r"plan\.json: damaged"):
            run_files.load(run.paths)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(hostile)
        os.truncate(run.paths.plan, run_files.MAX_PLAN_BYTES + 1)
        with pytest.raises(RunFolderError, match=r"plan\.json: .*128 MiB"):
            run_files.load(run.paths)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(hostile)
    finally:
        tracemalloc.stop()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """An empty folder is not the folder of a run."""
    with pytest.raises(RunFolderError, match="folder of a run"):
        archive.load(archive.RunPaths(tmp_path))
