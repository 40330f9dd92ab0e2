"""`history export`: files of any length in the memory of one run, whole or not at all, and none in place of another."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator.history import export, queries, store
from orchestrator.history.migrations import MIGRATIONS
from protocol.exit_codes import ExitCode
from tests.fakes import sides
from tests.fakes.histories import UUID, kept, record, run_id
from tests.fakes.nvml import ROOT

Invoke = Callable[..., Result]

MIB: Final = 1024 * 1024
LIMITED: Final = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_DATA, ({160 * MIB}, {160 * MIB}))
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""
"""The program with no more memory than that: half of it is for itself."""
CELLS: Final = 200
RUNS: Final = 150


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of so many runs and cells, which is too large for the limited program."""
    one = record(1, figures={f"figure_{number}": 1000.5 + number for number in range(25)})
    path = kept(tmp_path_factory.mktemp("long"), [replace(one, cells=one.cells * CELLS)]).path
    with closing(sqlite3.connect(path)) as connection:
        for table in ("runs", "devices", "cells"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "run_id"]
            names = ", ".join(columns)
            connection.execute(
                f"WITH RECURSIVE numbers(n) AS (VALUES (2) UNION ALL SELECT n + 1 FROM numbers WHERE n < {RUNS}) "
                f"INSERT INTO {table} (run_id, {names}) "
                f"SELECT printf('20260401-%06d-1f2e3d', n), {names} FROM numbers, {table}"
            )
        connection.commit()
    return path


def program(*words: str, source: str = LIMITED) -> list[str]:
    """The command line of such a program."""
    return [sys.executable, "-c", source, *words]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_long_history_is_exported_in_the_memory_of_a_run(long: Path, tmp_path: Path, kind: str) -> None:
    """30,000 cells: every one of them is in the file."""
    made = tmp_path / f"all.{kind}"
    words = ("history", "export", "-o", str(made), "--history-db", str(long))
    rows = f", {RUNS * CELLS:,} rows" if kind == "csv" else ""
    ended = subprocess.run(program(*words), cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{made}: {RUNS} runs{rows}\n", "")
    with made.open(encoding="utf-8") as file:
        lines = sum(1 if kind == "csv" else line.count('"metric": ') for line in file)
    assert lines == RUNS * CELLS + (kind == "csv")


def test_an_export_that_is_interrupted_leaves_nothing(long: Path, tmp_path: Path) -> None:
    """Ctrl-C while it writes: the file of before stands, and no half of another lies beside it."""
    made = tmp_path / "all.json"
    made.write_text("before")
    words = ("history", "export", "-o", str(made), "--history-db", str(long))
    process = subprocess.Popen(program(*words), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.glob(".all.json.*")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (ExitCode.INCOMPLETE, "error: interrupted\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("all.json", "before")]


def test_json_in_parts_is_what_it_would_be_in_one(tmp_path: Path) -> None:
    """Byte for byte, whatever its texts hold; and of no run as well."""
    records = [record(1, hostname="a\nb[]"), record(2), record(3)]
    for made in (records, records[:1], []):
        whole = export.indented({"history_version": len(MIGRATIONS), "runs": made}) + b"\n"
        assert b"".join(export.to_json(made)) == whole
    with store.reading(kept(tmp_path, records)) as connection:
        assert list(queries.each(connection)) == records


def test_a_burn_in_has_a_row_for_each_device(invoke: Invoke, tmp_path: Path) -> None:
    """Its cells have no figure, and its verdicts are what was found; rows are counted beside the runs."""
    burn_in_run = replace(record(2, profile="burn-in quick", burn_in="FAIL", health="PASS"), cells=())
    history = ("--history-db", str(kept(tmp_path, [record(1), burn_in_run]).path))
    assert invoke("history", "export", "-o", "all.csv", *history).stdout == "all.csv: 2 runs, 2 rows\n"
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["Run"], first["Model"], first["Burn_In"]) == (run_id(1), "resnet50", "")
    told = ("Run", "Profile", "GPU_UUID", "Health", "Burn_In", "Model", "Launches")
    assert tuple(second[name] for name in told) == (run_id(2), "burn-in quick", UUID, "PASS", "FAIL", "", "")
    assert None not in second.values(), "every column is there"


def test_a_run_that_is_deleted_meanwhile_is_missing(tmp_path: Path) -> None:
    """Another process may prune while this one reads."""
    where = kept(tmp_path, [record(1), record(2), record(3)])
    with store.reading(where) as connection:
        found = queries.each(connection)
        first = next(found)
        with store.writing(where) as other:
            other.execute("DELETE FROM runs WHERE run_id = ?", (run_id(2),))
        assert [made.run.run_id for made in (first, *found)] == [run_id(1), run_id(3)]


def test_a_run_that_is_recorded_again_meanwhile_is_of_one_moment(tmp_path: Path) -> None:
    """Its devices are those of its cells, although another process writes between the two."""
    again = record(1, 50.0, device=sides.device(gpu_uuid="GPU-other"), gpu_uuid="GPU-other")
    where = kept(tmp_path, [record(1)])

    def replaced(statement: str) -> None:
        if "SELECT gpu_uuid, cell_key" in statement:
            connection.set_trace_callback(None)
            kept(tmp_path, [again])

    with store.reading(where) as connection:
        connection.set_trace_callback(replaced)
        assert [list(queries.each(connection)), list(queries.each(connection))] == [[record(1)], [again]]
        kept(tmp_path, [record(1)])
        connection.set_trace_callback(replaced)
        assert [queries.run(connection, run_id(1)), queries.run(connection, run_id(1))] == [record(1), again]


def test_the_suffix_names_the_format_and_an_older_file_is_kept(invoke: Invoke, tmp_path: Path) -> None:
    """As for every other file that a command of ours writes with -o."""
    history = ("--history-db", str(kept(tmp_path / "kept", [record(1)]).path))
    Path("runs.json").write_text("mine")
    for _ in range(2):
        assert invoke("history", "export", "-o", "runs.json", *history).exit_code == 0
    assert Path("runs.1.json").read_text() == "mine"
    for name in ("runs.json", "runs.2.json"):
        assert len(json.loads(Path(name).read_text())["runs"]) == 1
    for words in (("runs.csv",), ("all.out", "--format", "csv"), ("all",)):
        assert invoke("history", "export", *history, "-o", *words).exit_code == 0
        with Path(words[0]).open(encoding="utf-8", newline="") as file:
            assert [row["Run"] for row in csv.DictReader(file)] == [run_id(1)]
    for words in (("x.out",), ("x.json", "--format", "csv")):
        ended = invoke("history", "export", *history, "-o", *words)
        assert (ended.exit_code, Path(words[0]).exists()) == (ExitCode.USAGE, False)
        assert [part for part in ("--output", words[0], "--format") if part not in ended.stderr] == []
