"""report/text_burn_in.py: a night of eight GPUs on one page."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.report.as_text import to_text
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.findings import mismatch
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
    folded = " ".join(whole.split())
    assert "Level quick, 10 minutes asked for, 10 min at work. PASS says" in folded
    covered = "[0-9,.]+ GB, 92 % of it covered, at most"
    assert re.search(rf"memory: [0-9,]+ checks in \d+ launches, {covered}", folded)
    assert "rates: judged without 2 min of warming up, until it had taken as long as it may" in whole
    health = "health: GPU 0 to GPU 7: PASS (19 of 19 applicable signals were read); the machine: PASS"
    assert health in " ".join(whole.split())
    assert "Verdict: COMPLETE" in whole


def test_a_node_with_two_bad_gpus_fits_one_page(tmp_path: Path) -> None:
    """One with wrong bits, in two rounds, and one that lost a launch: both with the board to look for."""
    night = eight(tmp_path)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    what = "product of 8192 x 8192 in bf16"
    wrong = mismatch(what=what, at_ns=night.now_ns, wrong_again=10, beyond_rounding=True)
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
    lost_words = r"a launch has no result: \w.* of \w+ in \w+, round \d, 20\d\d-\S+Z: crashed: SIGSEGV"
    assert re.search(f"GPU 5, serial .* {lost_words}", whole)
    assert "launches without a result: 1; where" in whole
    assert "1 bit wrong; wrong again in 10 of 10 repetitions (16 times)" in whole


def test_eight_gpus_with_wrong_bits_fit_one_page(tmp_path: Path) -> None:
    """Each with its gravest reason and its board; how many more there are; no bound where something was found."""
    night = eight(tmp_path)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    wrong = mismatch(what="product of 8192 x 8192 in bf16", at_ns=night.now_ns, wrong_again=10, beyond_rounding=True)
    found = {}
    for gpu in range(8):
        bad = msgspec.structs.replace(sound(cell), mismatches=100 + gpu, kept=(wrong,) * 16)
        found |= {(gpu, Workload.SOAK, round_): bad for round_ in range(gpu % 2 + 1)}
    night.work(verified=found)
    lines = text(night)
    assert on_one_page(lines), "\n".join(lines)
    for device in night.stored.devices:
        assert any(f"serial {device.serial}" in line for line in lines)
    assert "  all reasons, in full, are in the JSON report" in lines
    (soak,) = [line for line in lines if line.startswith("soak: ")]
    assert soak.endswith("of them wrong")


def test_eight_gpus_that_slow_alike_fit_one_page(tmp_path: Path) -> None:
    """Each by another figure, so that none are told of together."""
    night = Night(tmp_path, gpus(8), "1h")
    night.work(rate=lambda gpu, hours: 1 - (0.1 + 0.001 * gpu) * hours)
    lines = text(night)
    assert on_one_page(lines), "\n".join(lines)
    assert sum("| WARN " in line for line in lines) == 8
    assert sum("all slow alike, the room perhaps" in line for line in lines) == 8


def test_links_are_counted_once_for_all_devices(tmp_path: Path) -> None:
    """A launch of links is one of eight processes."""
    night = eight(tmp_path)
    night.work()
    cells = {cell.id for cell in night.stored.plan.cells if cell.workload is Workload.LINKS}
    first = night.stored.devices[0].uuid
    launched = sum(cell in cells for cell, _ in night.stored.plan.order[first])
    assert any(re.match(rf"links: [\d,]+ checks in {launched} launches", line) for line in text(night))


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
    assert "with rounds that are still to be done" in "\n".join(lines)
