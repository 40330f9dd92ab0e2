"""A GPU that stays SUSPECT gets more launches: a run of real processes on made-up GPUs, one of which is slower."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.plan import planner
from orchestrator.stats.stragglers import MOST_LAUNCHES
from orchestrator.store import journal, run_files
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Added, End, Start, ZygoteStarted
from protocol.cell import Workload
from protocol.paths import RunPaths
from tests.fakes import faults, gpu_runs, rates
from tests.fakes.cuda import beside
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml, uuid

pytestmark = pytest.mark.slow

SLOW = uuid(1)
LAUNCHES = 3


class Runs:
    """Runs on the same four GPUs, GPU 1 of which is 7.5 % slower, by launches that scatter by 1.5 %."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nvml = FakeNvml(folder, gpus=4)
        self._environment = {
            **self._nvml.environment,
            **beside(self._nvml),
            **rates.installed(folder, slow=SLOW, percent=7.5, noise=0.015),
        }

    def prepared(self, name: str, *, adds: bool = True) -> Path:
        folder, found = self._folder / name, gpu_runs.find_devices(self._nvml)
        models = faults.model("one"), faults.model("two")
        stored = faults.prepare(folder, *models, machines=found, launches=LAUNCHES)
        requested = replace(stored.configuration, workloads=(Workload.INFERENCE,), adds_launches=adds)
        run_files.store(replace(stored, configuration=requested, plan=planner.make(requested, found)), RunPaths(folder))
        return folder

    def resumed(self, folder: Path) -> Node:
        return Node(folder, environment=self._environment)

    def finished(self, folder: Path) -> Node:
        node = self.resumed(folder)
        node.ended(timeout_s=120)
        return node


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def whole(runs: Runs) -> Node:
    return runs.finished(runs.prepared("whole"))


def rounds_of(node: Node) -> list[tuple[set[tuple[str, int]], tuple[str, ...]]]:
    return [(set(record.slots), record.suspects) for record in node.of(Added)]


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
    return [one["verdict"] for one in node.report()["stragglers"]]


def test_a_suspect_is_launched_more_often_until_it_is_settled(runs: Runs, whole: Node) -> None:
    """Without them it stays SUSPECT; with them it is a STRAGGLER, nobody else is, and no more are made than needed."""
    bare = runs.finished(runs.prepared("bare", adds=False))
    assert verdicts(bare)[1] == "SUSPECT"
    assert not bare.of(Added)
    assert verdicts(whole) == ["OK", "STRAGGLER", "OK", "OK"]
    rounds = whole.of(Added)
    assert 1 <= len(rounds) <= MOST_LAUNCHES - LAUNCHES
    assert SLOW in rounds[0].suspects
    report = whole.report()
    assert {one["launches_added"] for one in report["stragglers"]} == {2 * len(rounds)}
    assert {cell["launches_planned"] for cell in report["cells"]} == {LAUNCHES}
    assert {cell["launches"] for cell in report["cells"]} == {LAUNCHES + len(rounds)}
    assert len(whole.of(ZygoteStarted)) == 1


def require_the_same(node: Node, whole: Node) -> None:
    assert found(node) == found(whole)
    assert rounds_of(node) == rounds_of(whole)


def test_a_kill_among_the_added_launches_changes_nothing(runs: Runs, whole: Node) -> None:
    """Killed in the middle of each added round and resumed: the same launches, values, verdicts; nothing made twice."""
    folder = runs.prepared("killed")
    for number in range(1, len(whole.of(Added)) + 1):
        node = runs.resumed(folder)
        node.until(lambda node=node, number=number: in_the_middle_of(node, number), timeout_s=60)
        node.kill()
    last = runs.finished(folder)
    require_the_same(last, whole)
    good = {record.launch for record in last.of(End) if record.failure is None}
    measured = [(one.cell, one.round) for one in last.of(Start) if one.launch in good]
    assert len(measured) == len(set(measured))


def in_the_middle_of(node: Node, number: int) -> bool:
    """Whether of the added round `number` some launches are over and others at work."""
    rounds = node.of(Added)
    if len(rounds) < number:
        return False
    own = {one.launch for one in node.of(Start) if (one.cell, one.round) in rounds[-1].slots}
    over = {one.launch for one in node.of(End)}
    return bool(own & over) and bool(own - over)


@pytest.mark.parametrize("killed", ["before it was written", "before the end of a result"])
def test_a_kill_at_the_decision_changes_nothing(runs: Runs, whole: Node, tmp_path: Path, killed: str) -> None:
    """The decision is made again, or read; a result whose END is nowhere is made again, with the same value."""
    begin = decision(whole)
    following = (place for place, one in enumerate(whole.records()) if place > begin and isinstance(one, End))
    cut(whole.paths, tmp_path / "cut", end=begin if killed == "before it was written" else next(following))
    require_the_same(runs.finished(tmp_path / "cut"), whole)


def decision(whole: Node) -> int:
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
