"""A forked launch is as fresh as an exec'd one: same threads, same switches, same state of the collector."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.configuration.resolved import Isolation
from orchestrator.disk import archive
from protocol.paths import RunPaths
from protocol.result import Environment
from tests.fakes.commands import python


def environment(folder: Path, isolation: Isolation, workload: str) -> Environment:
    """What a worker says about its process, after a real measurement."""
    options = f"run --gpu-ids cpu:0 -m lstm -b 1 -p fp32 -i 3 -w 2 --phases {workload} --isolation {isolation}"
    done = python("-m", "orchestrator", *options.split(), "--runs-folder", str(folder / isolation), cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / isolation).iterdir()
    found = archive.load(RunPaths(run))
    (attempt,) = found.attempts
    return found.result(attempt).environment


@pytest.mark.parametrize("workload", ["inference", "training"])
def test_forked_and_execd_launches_are_alike(tmp_path: Path, workload: str) -> None:
    """Nothing that changes a measurement tells them apart."""
    forked, executed = (environment(tmp_path, isolation, workload) for isolation in Isolation)
    assert forked.isolation != executed.isolation
    assert msgspec.structs.replace(forked, isolation="") == msgspec.structs.replace(executed, isolation="")
    assert forked.threads >= 1
    assert forked.collector_enabled
    assert forked.flags["gc.frozen"] == "True"
    assert forked.flags["cuda.matmul.allow_tf32"] == "False"
