"""report/text_burn_in.py: a night of eight GPUs on one page."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.report.as_text import to_text
from protocol.cell import Workload
from protocol.failure import Category
from protocol.verification import Mismatch
from tests.fakes.nights import Night, sound
from tests.fakes.runs import gpus

PAGE = 60


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here depends on what survives a crash, and a night has thousands of records."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _fd: None)


def eight(folder: Path) -> Night:
    """A quick burn-in of eight GPUs."""
    return Night(folder, gpus(8), "10m")


def text(night: Night, *, interrupted: bool = False) -> list[str]:
    """The lines of its report."""
    for gpu in range(8):
        night.climate(gpu)
    night.well()
    night.finish(interrupted=interrupted, reason="stopped on request" if interrupted else "")
    return to_text(night.report()).splitlines()


def on_one_page(lines: list[str]) -> bool:
    """Of a printer, or of a tall terminal."""
    return len(lines) <= PAGE and max(map(len, lines)) <= 80


def test_a_healthy_node_of_eight_fits_one_page(tmp_path: Path) -> None:
    """Verdict, load, checks and temperature of every GPU, the evidence and what was left out."""
    night = eight(tmp_path)
    night.work()
    lines = text(night)
    assert on_one_page(lines)
    assert sum("| PASS " in line for line in lines) == 8
    whole = "\n".join(lines)
    for words in ("soak: ", "truth: ", "memory: ", "replay: ", "errors a check (95 %)"):
        assert words in whole
    assert "rates: judged without 2 min of warming up, until it had taken as long as it may" in whole
    assert "health: GPU 0 to GPU 7: PASS (19 of 19 signals were read); the machine: PASS" in whole
    assert "Verdict: COMPLETE" in whole


def test_a_node_with_two_bad_gpus_fits_one_page(tmp_path: Path) -> None:
    """One with wrong bits, in two rounds, and one that lost a launch: both with the board to look for."""
    night = eight(tmp_path)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    wrong = Mismatch(
        what="product of 8192 x 8192 in bf16",
        at_ns=night.now_ns,
        iteration=0,
        elements=1,
        bits=1,
        first=(),
        same_when_read_again=True,
        repeated=10,
        wrong_again=10,
        beyond_rounding=True,
    )
    bad = msgspec.structs.replace(sound(cell), mismatches=100, kept=(wrong,) * 16)
    mine = night.stored.plan.order[night.stored.devices[5].uuid]
    night.work(verified={(3, Workload.SOAK, round_): bad for round_ in (0, 1)}, last=len(mine) - 1)
    cell_id, number = mine[-1]
    lost = next(one for one in night.stored.plan.cells if one.id == cell_id)
    night.failed(lost, Category.CRASHED, number=number, message="SIGSEGV")
    lines = text(night)
    assert on_one_page(lines), "\n".join(lines)
    whole = " ".join(" ".join(lines).split())
    serials = [device.serial for device in night.stored.devices]
    assert f"GPU 3, serial {serials[3]}, at 00000000:1B:00.0: FAIL (take it out of service)" in whole
    assert f"GPU 5, serial {serials[5]}, at" in whole
    assert re.search(r"GPU 5, serial .* a launch has no result: \w.* of \w+ in \w+, round \d: crashed: SIGSEGV", whole)
    assert "launches without a result: 1; where" in whole
    assert "1 bit wrong; wrong again in 10 of 10 repetitions (16 times)" in whole


@pytest.mark.parametrize("gpu", [0, 7])
def test_what_holds_for_all_is_said_once(tmp_path: Path, gpu: int) -> None:
    """An interrupted night is a line, not eight."""
    night = eight(tmp_path)
    night.work(last=10)
    lines = text(night, interrupted=True)
    assert on_one_page(lines)
    assert "GPU 0 to GPU 7: UNKNOWN" in lines
    chapter = "\n".join(lines).partition("Verdict: ")[0]
    assert chapter.count("the night was cut short: stopped on request") == 1
    assert f"GPU {gpu}, serial" not in chapter
