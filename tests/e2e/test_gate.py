"""A gate of two sides in whole: rounds until it is decided, an exit code, files for CI."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from orchestrator.config.report_formats import ReportFormat
from orchestrator.state import archive
from protocol.paths import RunPaths
from tests.fakes.commands import python
from tests.fakes.nvml import ROOT

MODELS = """
import time
import torch

class Old(torch.nn.Linear):
    seconds = 0.004

    def __init__(self):
        super().__init__(8, 8)

    def forward(self, x):
        time.sleep(self.seconds)
        return super().forward(x)

    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 8)

class Same(Old):
    pass

class Twice(Old):
    seconds = 0.008
"""
"""Their time is that of a sleep, so that other work on this machine changes little."""
VARYING = """
import pathlib

STARTS = pathlib.Path(__file__).with_name("starts")
with STARTS.open("ab") as file:
    file.write(b"x")
Old.seconds = 0.002 if STARTS.stat().st_size % 2 else 0.006
"""
"""Every other process sleeps three times as long."""
OPTIONS = "--allow-code --gpu-ids cpu:0 --phases inference -b 1 -i 30 -w 3 --no-history --junit gate.xml -o gate.json"


def gate(
    folder: Path, second: str, limit: str, expected: tuple[int, ...], more: str = ""
) -> tuple[dict[str, Any], archive.Archive]:
    """Compare Old with `second`; return the comparison and the run."""
    (folder / "net.py").write_text(MODELS)
    words = f"gate --ab net.py:Old net.py:{second} --time-limit {limit} {OPTIONS} {more}"
    done = python("-m", "orchestrator", *words.split(), cwd=folder)
    assert done.returncode in expected, done.stdout + done.stderr
    (made,) = (folder / "runs").iterdir()
    answer: dict[str, Any] = json.loads((folder / "gate.json").read_bytes())
    assert answer["exit_code"] == done.returncode
    return answer, archive.load(RunPaths(made))


def test_twice_the_work_is_found(tmp_path: Path) -> None:
    """Exit code 1, a failure for CI, and launches of both sides in turn. A resume says the same."""
    answer, run = gate(tmp_path, "Twice", "60s", (1,))
    [cell] = answer["comparison"]["cells"]
    assert cell["verdict"] == "SLOWER"
    assert cell["ratio"] == pytest.approx(0.5, abs=0.15)
    assert ElementTree.parse(tmp_path / "gate.xml").find(".//failure") is not None
    rounds = [attempt.start.round for attempt in run.attempts]
    sides = ["Twice" in run.cells[attempt.start.cell].model for attempt in run.attempts]
    assert rounds == sorted(rounds)
    assert all(sides[place] != sides[place + 1] for place in range(0, len(sides), 2))
    assert [one == other for one, other in pairwise(sides)][1:2] == [True]
    report = json.loads(run.paths.report(ReportFormat.JSON).read_bytes())
    assert report["verdict"]["exit_code"] == 1
    again = python("-m", "orchestrator", "resume", str(run.paths.folder), "--no-history", cwd=tmp_path)
    assert again.returncode == 1
    assert "SLOWER" in again.stdout
    assert len(archive.load(run.paths).attempts) == len(run.attempts)


def test_a_gate_that_is_stopped_while_it_adds_rounds_does_not_pass(tmp_path: Path) -> None:
    """In the last launch of a round no planned launch is left, but the gate would have gone on, and `resume` can."""
    (tmp_path / "net.py").write_text(MODELS + VARYING.replace("0.00", "0.02"))
    words = f"gate --ab net.py:Old net.py:Same --time-limit 240s {OPTIONS}"
    log = (tmp_path / "log").open("wb")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "orchestrator", *words.split()]
    with log, subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log) as started:
        while not last_of_a_round(tmp_path):
            assert started.poll() is None
            time.sleep(0.05)
        started.terminate()
        assert started.wait(timeout=60) == 4
    (made,) = (tmp_path / "runs").iterdir()
    run = archive.load(RunPaths(made))
    assert Counter(attempt.start.round for attempt in run.attempts) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert run.finished is not None
    assert run.finished.interrupted


def last_of_a_round(folder: Path) -> bool:
    """Whether the second launch of the fourth round runs: the plan has three rounds."""
    for made in (folder / "runs").glob("2*"):
        if RunPaths(made).journal.exists():
            attempts = [one for one in archive.load(RunPaths(made), alive=True).attempts if one.start.round == 3]
            return len(attempts) == 2 and attempts[-1].end is None
    return False


def test_the_second_side_runs_in_its_own_interpreter(tmp_path: Path) -> None:
    """Here the same one behind a script, which notes each of its starts: one to check it, and one for each launch.

    An unchanged model is never slower: it passes, or is undecided where this machine varies too much within the time.
    """
    other, starts = tmp_path / "python", tmp_path / "starts"
    other.write_text(f'#!/bin/sh\necho start >> {starts}\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    answer, run = gate(tmp_path, "Same", "30s", (0, 4), f"--python-b {other} --launches 1")
    assert not {cell["verdict"] for cell in answer["comparison"]["cells"]} & {"SLOWER", "PROBABLY SLOWER"}
    of_second = [attempt for attempt in run.attempts if "Same" in run.cells[attempt.start.cell].model]
    assert 0 < len(of_second) < len(run.attempts)
    assert len(starts.read_text().splitlines()) == 1 + len(of_second)
    assert any(change["after"].endswith(str(other)) for change in answer["comparison"]["changes"])


def test_a_machine_that_varies_is_named_by_the_launches_of_one_cell(tmp_path: Path) -> None:
    """After two launches of both its sides, when most cells have had none. Then the gate is stopped."""
    (tmp_path / "net.py").write_text(MODELS + VARYING)
    words = f"gate --ab net.py:Old net.py:Same {OPTIONS.replace('-b 1', '-b 1,2,4,8')} --log-format json"
    command = [sys.executable, "-m", "orchestrator", *words.split()]
    paths = os.environ | {"PYTHONPATH": str(ROOT)}
    launches, warnings = Counter[str](), list[str]()
    with subprocess.Popen(
        command, cwd=tmp_path, env=paths, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for event in map(json.loads, process.stderr):
            if event["event"] == "cell_ended":
                launches[event["cell_id"]] += 1
            if "varies by" in event.get("message", ""):
                warnings.append(event["message"])
                break
        process.terminate()
        process.communicate(timeout=60)
    assert ["--time-limit" in warning for warning in warnings] == [True]
    assert list(launches.values()) == [2, 2]
