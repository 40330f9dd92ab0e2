"""A forked launch is as fresh as an exec'd one: same threads, same switches, same state of the collector."""

import copy
from pathlib import Path

import msgspec
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state import archive
from protocol.paths import RunPaths
from protocol.result import Environment
from tests.fakes.commands import python

WORKLOADS = ("inference", "training")


def environments(folder: Path, isolation: Isolation) -> dict[str, Environment]:
    """What workers say about their processes, by what they measured, after a real measurement."""
    options = f"run --gpu-ids cpu:0 -m lstm -b 1 -p fp32 -i 3 -w 2 --phases {','.join(WORKLOADS)} -f json"
    places = ("--isolation", isolation, "--runs-folder", str(folder / isolation))
    done = python("-m", "orchestrator", *options.split(), *places, cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / isolation).iterdir()
    found = archive.load(RunPaths(run))
    cells = {cell.id: cell.workload for cell in found.stored.plan.cells}
    return {cells[attempt.start.cell]: found.result(attempt).environment for attempt in found.attempts}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[Isolation, dict[str, Environment]]:
    """Of each kind of isolation."""
    folder = tmp_path_factory.mktemp("isolation")
    return {isolation: environments(folder, isolation) for isolation in Isolation}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_forked_and_execd_launches_are_alike(both: dict[Isolation, dict[str, Environment]], workload: str) -> None:
    """Nothing that changes a measurement tells them apart."""
    forked, executed = (copy.deepcopy(both[isolation][workload]) for isolation in Isolation)
    assert forked.isolation != executed.isolation
    assert msgspec.structs.replace(forked, isolation="") == msgspec.structs.replace(executed, isolation="")
    assert forked.threads >= 1
    assert forked.collector_enabled
    assert forked.flags["gc.frozen"] == "True"
    assert forked.flags["cuda.matmul.allow_tf32"] == "False"
