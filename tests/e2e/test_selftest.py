"""`selftest` on this machine: real faults in real workers, what is said of them, and what a wrong row leads to."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.commands import orchestrate
from orchestrator.selftest.faults import FAULTS
from orchestrator.state.failure_policy import POLICY
from protocol.cell import DeviceKind
from protocol.failure import Category
from tests.fakes.commands import python
from tests.fakes.cuda import beside
from tests.fakes.node import ROOT
from tests.fakes.nvml import FakeNvml

QUICK = ("kill (SIGKILL)", "out of memory", "exception", "import error", "NaN")
LOGGED = ("endless output", "segfault")
"""What these leave in the folders of their launches is part of their rows."""

SCRIPT = """
import sys
from orchestrator.gpu import inventory as seen
from orchestrator.selftest import faults
none = seen.Inventory(gpus=(), nvml=seen.NvmlStatus.ABSENT, reason="no driver")
seen.look = lambda *_: seen.Seen(inventory=none)
names = sys.argv.pop(1).split(",")
faults.FAULTS = tuple(one for one in faults.FAULTS if one.name in names)
{change}
from orchestrator.cli.commands import orchestrate
orchestrate(prog_name="gpubench-orchestrate")
"""
"""The command with some of its faults, on a machine without GPUs; `change` may break what it expects."""

SWAPPED = """
import msgspec
from protocol.failure import Category
def broken(fault):
    expected = msgspec.structs.replace(fault.expected, category=Category.CRASHED)
    return msgspec.structs.replace(fault, expected=expected) if fault.name == "out of memory" else fault
faults.FAULTS = tuple(map(broken, faults.FAULTS))
"""


MISNAMED = """
import msgspec
from orchestrator.analysis import summary
failures = summary.failures
summary.failures = lambda *_: (msgspec.structs.replace(one, category="exception") for one in failures(*_))
"""
"""The report calls every fault the same."""

SIGNALLED = """
import os, signal
from {module} import {name} as before
def signalled(*words, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    return before(*words, **named)
import {module}
{module}.{name} = signalled
"""
"""The command is sent SIGTERM when it gets there."""


def selftest(
    folder: Path, *options: str, faults: tuple[str, ...] = QUICK, change: str = ""
) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(change=change)
    return python("-c", script, ",".join(faults), "selftest", *options, cwd=folder, TMPDIR=str(folder))


def kept(folder: Path) -> list[Path]:
    return [found.parent for found in folder.glob("gpubench-selftest-*/*/run.yaml")]


def by_fault(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["injected"]: one for one in answer["faults"]}


def test_faults_are_named_and_nothing_is_kept(tmp_path: Path) -> None:
    """Without a GPU it takes cpu:0; every row is right, exit code 0; neither report nor folder is left."""
    done = selftest(tmp_path, "--json", faults=(*QUICK, *LOGGED))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    rows = by_fault(answer)
    assert rows.keys() == {*QUICK, *LOGGED}
    assert {row["device"] for row in rows.values()} == {"cpu:0"}
    assert not any(row["wrong"] for row in rows.values())
    assert all(row["seconds"] > 0 for row in rows.values())
    said = {name: row["said"] for name, row in rows.items()}
    assert said["kill (SIGKILL)"]["categories"] == [Category.KILLED]
    assert said["kill (SIGKILL)"]["signals"] == ["SIGKILL"]
    assert said["kill (SIGKILL)"]["tries"] == 1 + POLICY[Category.KILLED].retries
    assert (said["out of memory"]["tries"], said["out of memory"]["status"]) == (3, "degraded")
    assert said["import error"]["done"] == "model skipped"
    assert [(said[name]["stacks"], said[name]["phases"]) for name in LOGGED] == [
        (True, ["warm-up"]),
        (True, ["measure"]),
    ]
    assert min(said["endless output"]["output_bytes"], said["endless output"]["log_disk_bytes"]) > 64 * 1024
    assert said["segfault"]["log_disk_bytes"] == 0
    assert (answer["passed"], answer["exit_code"], answer["left_behind"], answer["folder"]) == (True, 0, [], None)
    sockets = f"gpubench-{os.getuid()}"  # of all runs of a user; here where the path is short enough for sockets
    assert [path.name for path in tmp_path.glob("[!.]*") if path.name != sockets] == []


def test_a_wrong_row_ends_with_5_and_its_run_is_tainted(tmp_path: Path) -> None:
    """Both names are printed, and the run is kept. Its report is tainted and incomplete, though no cell failed."""
    done = selftest(tmp_path, faults=("out of memory",), change=SWAPPED)
    assert done.returncode == 5, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.endswith("WRONG") for line in lines if line.startswith("out of memory  ")] == [True]
    assert any(f"category: expected {Category.CRASHED}, not {Category.OUT_OF_MEMORY}" in line for line in lines)
    (run,) = kept(tmp_path)
    assert lines[-1].endswith(str(run))
    (run / "report.json").unlink()
    again = CliRunner().invoke(orchestrate, ["report", str(run)])
    assert again.exit_code == 0, again.stderr
    report = json.loads((run / "report.json").read_text())
    assert report["summary"]["cells"]["degraded"] == report["summary"]["cells"]["planned"] == 1
    assert (report["verdict"]["word"].split()[0], report["verdict"]["exit_code"]) == ("test", 4)
    assert "injected" in report["verdict"]["reasons"][0]


def test_a_report_that_misnames_is_wrong(tmp_path: Path) -> None:
    """Also where the journal is right: the report is what people read."""
    done = selftest(tmp_path, faults=("kill (SIGKILL)", "exception"), change=MISNAMED)
    assert done.returncode == 5, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith("WRONG")] == ["kill"]
    assert f"report: {Category.EXCEPTION} " in done.stdout


@pytest.mark.parametrize(
    ("module", "name", "begun"),
    [("orchestrator.gpu.devices", "resolve", False), ("orchestrator.engine.readiness", "check", True)],
)
def test_sigterm_before_the_first_fault_ends_it_in_order(tmp_path: Path, module: str, name: str, begun: bool) -> None:
    """Exit code 4 and the word `interrupted`, not the signal's end; where there is a run, its table too."""
    done = selftest(tmp_path, change=SIGNALLED.format(module=module, name=name))
    assert done.returncode == 4, done.stdout + done.stderr
    assert ("Interrupted: 0 of 5 faults" in done.stdout) is begun
    assert ("error: interrupted" in done.stderr) is not begun
    assert list(tmp_path.glob("gpubench-selftest-*")) == []


def test_ctrl_c_ends_it_gently(tmp_path: Path) -> None:
    """After Ctrl-C, running launches may end, the results so far are printed, exit code 4, and nothing is left."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(change=""), "freeze (SIGSTOP),NaN", "selftest", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up = time.monotonic() + 30
    while not list(tmp_path.glob("gpubench-selftest-*/injected")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, "nothing was injected in time"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=40)
    assert process.returncode == 4, stderr
    answer = json.loads(stdout)
    assert (answer["interrupted"], answer["passed"]) == (True, False)
    assert by_fault(answer)["freeze (SIGSTOP)"]["wrong"] == []
    [wrong] = by_fault(answer)["NaN"]["wrong"]
    assert "never injected" in wrong
    assert (answer["left_behind"], kept(tmp_path)) == ([], [])


@pytest.mark.slow
def test_every_fault_of_a_cpu_device_is_named(tmp_path: Path) -> None:
    """The whole of it, on two devices at once, as a user starts it: a line for each fault, all right."""
    done = python("-m", "orchestrator", "selftest", "--gpu-ids", "cpu:0,cpu:1", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("right")]
    possible = [fault for fault in FAULTS if DeviceKind.CPU in fault.kinds]
    assert len(rows) == 2 * len(possible)
    assert kept(tmp_path) == []


@pytest.mark.slow
def test_what_cannot_be_injected_is_wrong(tmp_path: Path) -> None:
    """On GPUs on which nothing can be computed, every fault that needs one is told as wrong, and no other."""
    nvml = FakeNvml(tmp_path, gpus=2)
    environment = nvml.environment | beside(nvml) | {"TMPDIR": str(tmp_path)}
    done = python("-m", "orchestrator", "selftest", "--json", cwd=ROOT, **environment)
    assert done.returncode == 5, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert {one["device"] for one in answer["faults"]} == {"GPU 0", "GPU 1"}
    needs_one = {fault.name for fault in FAULTS if DeviceKind.CPU not in fault.kinds}
    assert {one["injected"] for one in answer["faults"] if one["wrong"]} == needs_one
    assert len(answer["faults"]) == 2 * sum(DeviceKind.CUDA in fault.kinds for fault in FAULTS)
    assert answer["left_behind"] == []


@pytest.mark.gpu
def test_every_fault_of_a_gpu_is_named(tmp_path: Path) -> None:
    """On real GPUs, all of them at once: every row is right."""
    if not json.loads(python("-m", "orchestrator", "info", "--json", cwd=ROOT).stdout)["gpus"]:
        pytest.skip("there is no GPU in this machine")
    done = python("-m", "orchestrator", "selftest", "--json", cwd=ROOT, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(one["device"].startswith("GPU") for one in json.loads(done.stdout)["faults"])
