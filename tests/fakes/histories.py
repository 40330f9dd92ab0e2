"""Runs of a history that nobody measured: a GPU and a cell in each, as history/entry.py would make them."""

import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from orchestrator.history import queries, store, updates
from orchestrator.history.location import Place
from orchestrator.history.records import CellRecord, DeviceRecord, Filter, RunLine, RunRecord
from tests.fakes import sides
from tests.fakes.nvml import ROOT

Changed = TypeVar("Changed", bound=msgspec.Struct)

UUID = "GPU-5317350e-1111-2222-3333-444455556666"


def run_id(number: int) -> str:
    return f"202604{number:02}-213000-1f2e3d"


def record(number: int = 1, value: float = 100.0, **changes: object) -> RunRecord:
    """A run of that day of April, of resnet50 on one GPU. changes: of its line, its device's or its cell's record."""
    line = RunLine(
        run_id=run_id(number),
        test_date=f"2026-04-{number:02}T21:30:00Z",
        folder=f"/runs/{run_id(number)}",
        hostname="node-01",
        profile="standard",
        seconds=60.0,
        verdict="complete",
        exit_code=0,
        finished=True,
        tainted=False,
        health="PASS",
        burn_in="",
        planned=1,
        ok=1,
        stack=sides.STACK,
        devices=("1 x NVIDIA H200",),
    )
    device = DeviceRecord(
        device=sides.device(gpu_uuid=UUID), health="PASS", health_words="", burn_in="", burn_in_words=""
    )
    cell = CellRecord(
        gpu_uuid=UUID,
        key=sides.cell().key,
        status="ok",
        doubt="",
        metric="throughput_samples_per_sec",
        launches=(value, value * 1.01, value * 0.99),
        figures={"throughput_samples_per_sec": value, "peak_memory_mb": 900.0},
    )
    return RunRecord(
        run=_changed(line, changes), devices=(_changed(device, changes),), cells=(_changed(cell, changes),)
    )


def _changed(made: Changed, changes: dict[str, object]) -> Changed:
    own = {name: value for name, value in changes.items() if name in made.__struct_fields__}
    return msgspec.structs.replace(made, **own)


def place(folder: Path) -> Place:
    return Place(folder / "history.db", default=True)


def kept(folder: Path, records: Sequence[RunRecord]) -> Place:
    with store.writing(place(folder)) as connection:
        for made in records:
            updates.record(connection, made)
    return place(folder)


def altered(where: Place, *statements: str) -> None:
    """Change the file of a history behind gpubench's back."""
    with closing(sqlite3.connect(where.path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def runs(where: Place) -> list[str]:
    with store.reading(where) as connection:
        return [] if connection is None else [line.run_id for line in queries.lines(connection, Filter())]


def child(source: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def recorded(path: Path) -> list[str]:
    """The ids of the runs in the history at `path`, as SQLite itself sees it; none where there is no such file."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs ORDER BY run_id")]
