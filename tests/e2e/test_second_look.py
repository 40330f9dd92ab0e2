"""A GPU that stays SUSPECT gets more launches: a run of real processes on made-up GPUs, one of which is slower."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.stats.siblings import MOST_LAUNCHES
from orchestrator.store import journal
from orchestrator.store.journal import Journal
from orchestrator.store.records import Added, End, Start, ZygoteStarted
from protocol.paths import RunPaths
from tests.fakes import rates
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

pytestmark = pytest.mark.slow

PREPARE = """
from pathlib import Path
from msgspec.structs import replace
from orchestrator.store import run_files
from orchestrator.gpu import devices
from orchestrator.plan import planner as plan
from protocol.cell import Workload
from protocol.paths import RunPaths
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
folder = Path({folder!r})
stored = faults.prepare(folder, faults.model("one"), faults.model("two"), machines=found, launches=3)
asked = replace(stored.configuration, workloads=(Workload.INFERENCE,), adds_launches={adds})
run_files.store(replace(stored, configuration=asked, plan=plan.make(asked, found)), RunPaths(folder))
print("null")
"""
SLOW = uuid(1)


class Runs:
    """Runs on the same four GPUs, GPU 1 of which is 5.5 % slower, by launches that scatter by 1.5 %."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nvml = FakeNvml(folder, gpus=4)
        self._environment = {
            **self._nvml.environment,
            **beside(self._nvml),
            **rates.installed(folder, slow=SLOW, percent=5.5, noise=0.015),
        }

    def prepared(self, name: str, *, adds: bool = True) -> Path:
        """The folder of a run that has not begun."""
        folder = self._folder / name
        self._nvml.python(PREPARE.format(folder=str(folder), adds=adds))
        return folder

    def resumed(self, folder: Path) -> Node:
        """Somebody works on it from now on."""
        return Node(folder, environment=self._environment)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Nothing has begun."""
    return Runs(tmp_path)


def added(node: Node) -> list[Added]:
    """The rounds that were added."""
    return [record for record in node.records() if isinstance(record, Added)]


def rounds_of(node: Node) -> list[tuple[set[tuple[str, int]], tuple[str, ...]]]:
    """What was added, and for whom; in which order depends on what was launched last before."""
    return [(set(record.slots), record.suspects) for record in added(node)]


def found(node: Node) -> dict[str, Any]:
    """What the report says that must not depend on who was killed when."""
    report = node.report()
    return {
        "stragglers": report["stragglers"],
        "verdict": report["verdict"],
        "cells": [{**cell, "attempts": None} for cell in report["cells"]],
        "values": {
            (result["gpu_id"], key): metric["launch_values"]
            for result in report["results"]
            for key, metric in result["inference_metrics"].items()
        },
    }


def verdicts(node: Node) -> list[str]:
    """By the number of the GPU."""
    return [one["verdict"] for one in node.report()["stragglers"]]


def test_a_suspect_is_launched_more_often_until_it_is_settled(runs: Runs) -> None:
    """Without them it stays SUSPECT; with them it is a STRAGGLER, nobody else is, and no more are made than needed."""
    bare = runs.resumed(runs.prepared("bare", adds=False))
    assert bare.wait() == 0, bare.output
    assert verdicts(bare)[1] == "SUSPECT"
    assert not added(bare)
    node = runs.resumed(runs.prepared("run"))
    assert node.wait(timeout_s=120) == 0, node.output
    assert verdicts(node) == ["OK", "STRAGGLER", "OK", "OK"]
    rounds = added(node)
    assert 1 <= len(rounds) <= MOST_LAUNCHES - 3
    assert SLOW in rounds[0].suspects
    assert "GPU 1" in node.output
    assert "SUSPECT. 8 launches of 8 cells more" in " ".join(node.output.split())
    report = node.report()
    assert {one["launches_added"] for one in report["stragglers"]} == {2 * len(rounds)}
    assert {cell["launches_planned"] for cell in report["cells"]} == {3}
    assert {cell["launches"] for cell in report["cells"]} == {3 + len(rounds)}
    assert sum(isinstance(record, ZygoteStarted) for record in node.records()) == 1
    assert leftovers(node.paths.folder) == NOTHING


def test_a_kill_among_the_added_launches_changes_nothing(runs: Runs) -> None:
    """Killed in the middle of each added round and resumed: the same launches, values, verdicts; nothing made twice."""
    whole = runs.resumed(runs.prepared("whole"))
    assert whole.wait(timeout_s=120) == 0, whole.output
    folder = runs.prepared("killed")
    for number in range(1, len(added(whole)) + 1):
        node = runs.resumed(folder)
        node.until(lambda node=node, number=number: in_the_middle_of(node, number), timeout_s=60)
        node.kill()
        node.wait()
    last = runs.resumed(folder)
    assert last.wait(timeout_s=120) == 0, last.output
    assert found(last) == found(whole)
    assert rounds_of(last) == rounds_of(whole)
    good = {record.launch for record in last.records() if isinstance(record, End) and record.failure is None}
    measured = [(one.cell, one.round) for one in last.records() if isinstance(one, Start) and one.launch in good]
    assert len(measured) == len(set(measured))


def in_the_middle_of(node: Node, number: int) -> bool:
    """Whether of the added round `number` some launches are over and others at work."""
    rounds = added(node)
    if len(rounds) < number:
        return False
    own = {one.launch for one in node.records() if isinstance(one, Start) and (one.cell, one.round) in rounds[-1].slots}
    over = {one.launch for one in node.records() if isinstance(one, End)}
    return bool(own & over) and bool(own - over)


@pytest.mark.parametrize("decided", [False, True], ids=["before it was written", "before any was made"])
def test_a_kill_at_the_decision_changes_nothing(runs: Runs, tmp_path: Path, decided: bool) -> None:
    """Killed when all planned launches were over: the decision is made again, or read, and the same launches follow."""
    whole = runs.resumed(runs.prepared("whole"))
    assert whole.wait(timeout_s=120) == 0, whole.output
    cut(whole.paths, tmp_path / "cut", end=decision(whole) + decided)
    node = runs.resumed(tmp_path / "cut")
    assert node.wait(timeout_s=120) == 0, node.output
    assert ("8 cells, 32 launches, 8 of them left" in " ".join(node.output.split())) is decided
    assert found(node) == found(whole)
    assert rounds_of(node) == rounds_of(whole)


def test_a_kill_before_the_end_of_a_result_changes_nothing(runs: Runs, tmp_path: Path) -> None:
    """Killed when a result of the added round was in its file and its END nowhere: made again, with the same value."""
    whole = runs.resumed(runs.prepared("whole"))
    assert whole.wait(timeout_s=120) == 0, whole.output
    begin = decision(whole)
    end = next(place for place, one in enumerate(whole.records()) if place > begin and isinstance(one, End))
    cut(whole.paths, tmp_path / "cut", end=end)
    node = runs.resumed(tmp_path / "cut")
    assert node.wait(timeout_s=120) == 0, node.output
    assert found(node) == found(whole)
    assert rounds_of(node) == rounds_of(whole)


def decision(whole: Node) -> int:
    """The place in the journal of the first round that was added."""
    return next(place for place, record in enumerate(whole.records()) if isinstance(record, Added))


def cut(whole: RunPaths, folder: Path, *, end: int) -> None:
    """Put into `folder` what a run was like when the record at `end` was about to be written."""
    records = journal.read(whole.journal)
    shutil.copytree(whole.folder, folder)
    paths = RunPaths(folder)
    paths.journal.unlink()
    with Journal(paths.journal) as written:
        for record in records[:end]:
            written.append(record)
    for record in records[end:]:
        if isinstance(record, Start):
            shutil.rmtree(paths.launch(record.cell, record.attempt).folder)
    for report in folder.glob("report.*"):
        report.unlink()
