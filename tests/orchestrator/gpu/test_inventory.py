"""The one look at NVML before a run, on a fake driver that hangs, dies, is slow, or missing."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.gpu import inventory, nvml
from orchestrator.system import subprocess_query
from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.cuda import beside
from tests.fakes.node import ROOT
from tests.fakes.nvml import FakeNvml, slice_uuid, until_it_loads

LIMIT_S = 1.5
ENDING_S = 4.0
"""SIGTERM and SIGKILL get two seconds each."""
START_S = 10.0
"""For Python to start, twice, on a machine that is busy."""

COMMAND = f"""
import sys
from orchestrator.system import subprocess_query as asking; from orchestrator.gpu import inventory as seen
seen.TIMEOUT_S, seen.REMARK_S = {LIMIT_S}, 0.1
asked = []
ask = asking.ask
asking.ask = lambda module, *rest, **options: (asked.append(module), ask(module, *rest, **options))[1]
{{change}}
from orchestrator.cli.commands import orchestrate
try:
    orchestrate(prog_name="gpubench-orchestrate")
finally:
    print(asked, file=sys.stderr)
"""
"""The command with a limit that tests can wait for; at its end it prints the processes it has asked."""

PREPARED = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
faults.prepare(Path("run"), faults.model("good"), machines=devices.resolve("all", visible=None, cores=(0, 1)))
print("null")
"""

HANGS = [
    (None, "nvmlInit", ("resume", "run")),
    (1, "nvmlDeviceGetComputeRunningProcesses", ("run", "-m", "lstm")),
]
"""At the very start, and at the last call, of a GPU that works otherwise; and a command."""


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    """A node with two GPUs."""
    return FakeNvml(tmp_path, gpus=2)


def command(fake: FakeNvml, folder: Path, *arguments: str, change: str = "") -> subprocess.CompletedProcess[str]:
    """The program on that node."""
    environment = {name: fake.environment[name] for name in ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML")} | beside(fake)
    return python(
        "-c", COMMAND.format(change=change), *arguments, cwd=folder, CUDA_VISIBLE_DEVICES="0,1", **environment
    )


def left_behind(fake: FakeNvml) -> list[int]:
    """Processes that ask this NVML."""
    script = fake.environment["GPUBENCH_FAKE_NVML"]
    return [process.pid for process in psutil.process_iter() if script in _environment(process)]


def _environment(process: psutil.Process) -> str:
    try:
        return process.environ().get("GPUBENCH_FAKE_NVML", "")
    except psutil.Error:
        return ""


# ── a hang ────────────────────────────────────────────────────────────────────────────────────────────────────────────


HANGING = re.compile(r"The NVIDIA driver hangs: .* 1\.5 s")


def in_time(fake: FakeNvml, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program on a driver that hangs: it ends in time, and none of its processes remains."""
    began = time.monotonic()
    done = command(fake, folder, *arguments)
    assert time.monotonic() - began < LIMIT_S + ENDING_S + START_S
    assert left_behind(fake) == []
    return done


@pytest.mark.parametrize(("gpu", "function", "arguments"), HANGS)
def test_a_run_is_not_started_or_resumed_on_a_driver_that_hangs(
    fake: FakeNvml, tmp_path: Path, gpu: int | None, function: str, arguments: tuple[str, ...]
) -> None:
    """Exit code 2, with what hangs and what to do; nothing is written, and the run can be resumed later."""
    fake.python(f"import os; os.chdir({str(tmp_path)!r})\n{PREPARED}")
    fake.hang(gpu, function)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    refused = in_time(fake, tmp_path, *arguments)
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "still waiting" in refused.stderr
    assert HANGING.search(refused.stderr)
    assert "Nothing was started." in refused.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "code"), [("info", ExitCode.PASSED), ("selftest", ExitCode.USAGE), ("doctor", ExitCode.INCOMPLETE)]
)
def test_other_commands_report_that_the_driver_hangs(fake: FakeNvml, tmp_path: Path, name: str, code: ExitCode) -> None:
    """`info` and the doctor show everything else, as for a driver that is broken in another way."""
    fake.hang(1 if name == "info" else None, "nvmlDeviceGetComputeRunningProcesses" if name == "info" else "nvmlInit")
    done = in_time(fake, tmp_path, name)
    assert done.returncode == code, done.stderr
    assert HANGING.search(" ".join((done.stdout + done.stderr).split()))
    assert "torch " in done.stdout or name != "info"


def test_waiting_is_not_reported_in_json_or_quietly(fake: FakeNvml, tmp_path: Path) -> None:
    """With --log-format json every line is JSON; --quiet means this line too."""
    fake.set({"delay.nvmlInit": 300})
    for option in ("--log-format=json", "--quiet"):
        shown = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", option, change="seen.TIMEOUT_S = 60.0")
        assert shown.returncode == ExitCode.PASSED, shown.stderr
        assert "still waiting" not in shown.stderr


# ── one look ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nvml_is_opened_once_before_a_run(fake: FakeNvml, tmp_path: Path) -> None:
    """For GPUs, their processes, and hidden ones, also as the run starts."""
    change = "from orchestrator.engine import run\nrun._work = lambda *_, **__: 1 / 0"
    ended = command(fake, tmp_path, "run", "-m", "lstm", change=change)
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "['orchestrator.gpu.inventory', 'orchestrator.gpu.cuda_probe']"


def test_a_run_on_the_cpu_does_not_open_nvml(fake: FakeNvml, tmp_path: Path) -> None:
    """A driver that hangs does not matter to it."""
    fake.hang(None, "nvmlInit")
    shown = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "cpu:0")
    assert shown.returncode == ExitCode.PASSED, shown.stderr
    assert shown.stderr.splitlines()[-1] == "[]"


def test_the_answer_may_be_longer_than_a_pipe(tmp_path: Path) -> None:
    """Eight GPUs of seven slices each, near many cores, all in use, are more than the 64 KiB that a pipe holds."""
    fake = FakeNvml(tmp_path, gpus=8)
    busy = " ".join(f"{pid} 1048576" for pid in range(1000, 1009))
    for gpu in range(8):
        fake.cut(gpu, *["1g.18gb"] * 7)
        fake.set({f"gpu.{gpu}.mig.{place}.compute": busy for place in range(7)})
        fake.set({f"gpu.{gpu}.cpus": " ".join(map(str, range(64)))})
    look = (
        "import sys, msgspec; from orchestrator.gpu import inventory as seen;"
        "sys.stdout.buffer.write(msgspec.json.encode(seen.look()))"
    )
    shown: Any = fake.python(look)
    assert len(json.dumps(shown, separators=(",", ":"))) > 64 * 1024
    assert (len(shown["inventory"]["gpus"]), len(shown["inventory"]["slices"])) == (8, 56)
    assert [one["pid"] for one in shown["uses"][slice_uuid(7, 6)]["processes"]] == [*range(1000, 1009)]


def test_unknown_processes_matter_only_on_requested_gpus(fake: FakeNvml, tmp_path: Path) -> None:
    """A GPU that does not return its processes is refused only where it is requested."""
    fake.fail("nvmlDeviceGetComputeRunningProcesses", 15, gpu=1)
    other = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "0")
    assert other.returncode == ExitCode.PASSED, other.stderr
    refused = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "1")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "GPU 1 cannot be read: NVML: " in refused.stderr


# ── nobody to ask, and one that dies ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("driver", "status", "words"), [(False, "absent", "no NVIDIA driver"), (True, "broken", "")])
def test_without_the_library_no_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: bool, status: str, words: str
) -> None:
    """`info` on a machine without GPUs is quick; a driver without its library is broken, not absent."""
    monkeypatch.setattr(nvml, "_LIBRARY", "libgpubench-none.so.1")
    monkeypatch.setattr(nvml, "_DRIVER_IS_THERE", tmp_path if driver else tmp_path / "none")
    monkeypatch.setattr(subprocess_query, "ask", lambda *_, **__: pytest.fail("a process was started"))
    found = inventory.look().inventory
    assert (found.nvml, found.gpus, found.hangs) == (status, (), False)
    assert words in found.reason


@contextmanager
def looking(fake: FakeNvml) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """An orchestrator that looks at a driver that hangs, and the process that asks."""
    fake.hang(None, "nvmlInit")
    source = "from orchestrator.gpu import inventory as seen; print(seen.look().inventory.reason)"
    environment = fake.environment | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        yield parent, until_it_loads("libnvidia-ml.so.1", parent.pid)


def test_a_look_that_dies_has_a_reason(fake: FakeNvml) -> None:
    """With the signal, and what to do."""
    with looking(fake) as (parent, look):
        look.kill()
        reason, _ = parent.communicate(timeout=30)
    assert re.search("killed by SIGKILL.*nvidia-smi", reason)


def test_a_look_that_hangs_does_not_outlive_a_killed_orchestrator(fake: FakeNvml) -> None:
    """The kernel ends it with its parent."""
    with looking(fake) as (parent, look):
        parent.kill()
    gone, _ = psutil.wait_procs([look], timeout=10)
    assert gone == [look]
