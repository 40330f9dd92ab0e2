"""A forked launch is as fresh as an exec'd one: same threads, same switches, same state of the collector."""

from pathlib import Path

import msgspec

from orchestrator.config.run_configuration import Isolation
from orchestrator.state import archive
from protocol.paths import RunPaths
from protocol.result import Environment
from tests.fakes.commands import python


def environment(folder: Path, isolation: Isolation) -> Environment:
    """What a worker says about its process after a real training, which computes whatever inference does."""
    options = "run --gpu-ids cpu:0 -m lstm -b 1 -p fp32 -i 2 -w 1 --seq-len 8 --phases training -f json"
    places = ("--isolation", isolation, "--runs-folder", str(folder / isolation))
    done = python("-m", "orchestrator", *options.split(), *places, cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / isolation).iterdir()
    found = archive.load(RunPaths(run))
    (attempt,) = found.attempts
    return found.result(attempt).environment


def test_forked_and_execd_launches_are_alike(tmp_path: Path) -> None:
    """Nothing that changes a measurement tells them apart."""
    forked, executed = (environment(tmp_path, isolation) for isolation in Isolation)
    assert forked.isolation != executed.isolation
    assert msgspec.structs.replace(forked, isolation="") == msgspec.structs.replace(executed, isolation="")
    assert forked.threads >= 1
    assert forked.collector_enabled
    assert forked.flags["gc.frozen"] == "True"
    assert forked.flags["cuda.matmul.allow_tf32"] == "False"
