"""The one look at NVML before a run, on a driver of our own that hangs, dies, dawdles, or is not there."""

import json
import subprocess
import sys
import time
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
from tests.fakes.nvml import FakeNvml, slice_uuid

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
"""The command with a limit that tests can wait for; at its end it says which processes it has asked."""

PREPARED = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
faults.prepare(Path("run"), faults.model("good"), machines=devices.resolve("all", visible=None, cores=(0, 1)))
print("null")
"""

HANGS = [(None, "nvmlInit"), (None, "nvmlDeviceGetCount"), (1, "nvmlDeviceGetComputeRunningProcesses")]
"""At the very start, at the first question, and at the last: of a GPU that is fine otherwise."""


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


@pytest.mark.parametrize(("gpu", "function"), HANGS)
def test_a_run_is_not_begun_on_a_driver_that_hangs(
    fake: FakeNvml, tmp_path: Path, gpu: int | None, function: str
) -> None:
    """It ends in time with exit code 2, what hangs and what to do; nothing is written and nobody is left asking."""
    fake.hang(gpu, function)
    before, began = sorted(tmp_path.iterdir()), time.monotonic()
    refused = command(fake, tmp_path, "run", "-m", "lstm")
    assert time.monotonic() - began < LIMIT_S + ENDING_S + START_S
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "still waiting for the NVIDIA driver (NVML); it is given up after 1.5 s\n" in refused.stderr
    assert "error: The NVIDIA driver hangs: NVML did not answer within 1.5 s; the kernel log (dmesg: " in refused.stderr
    assert "if `nvidia-smi` hangs too, reboot. Nothing was started. " in refused.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert left_behind(fake) == []


@pytest.mark.parametrize(("gpu", "function"), HANGS)
def test_a_run_is_not_resumed_on_a_driver_that_hangs(
    fake: FakeNvml, tmp_path: Path, gpu: int | None, function: str
) -> None:
    """The same, and the run stays as it was: it can be resumed when the driver answers again."""
    folder = tmp_path / "run"
    fake.python(f"import os; os.chdir({str(tmp_path)!r})\n{PREPARED}")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    fake.hang(gpu, function)
    began = time.monotonic()
    refused = command(fake, tmp_path, "resume", "run")
    assert time.monotonic() - began < LIMIT_S + ENDING_S + START_S
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "still waiting for the NVIDIA driver (NVML)" in refused.stderr
    assert "The NVIDIA driver hangs: NVML did not answer within 1.5 s; " in refused.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert left_behind(fake) == []


@pytest.mark.parametrize(("gpu", "function"), HANGS)
def test_info_says_that_the_driver_hangs(fake: FakeNvml, tmp_path: Path, gpu: int | None, function: str) -> None:
    """It shows everything else, as it does for a driver that is broken in another way."""
    fake.hang(gpu, function)
    began = time.monotonic()
    shown = command(fake, tmp_path, "info")
    assert time.monotonic() - began < LIMIT_S + ENDING_S + START_S
    assert shown.returncode == ExitCode.PASSED, shown.stderr
    assert "NVML       broken: The NVIDIA driver hangs: NVML did not answer within 1.5 s; " in shown.stdout
    assert "Software   torch " in shown.stdout
    assert left_behind(fake) == []


def test_the_self_test_and_the_doctor_do_not_hang_either(fake: FakeNvml, tmp_path: Path) -> None:
    """Every command that asks for GPUs asks in the same way."""
    fake.hang(None, "nvmlInit")
    selftest, doctor = (command(fake, tmp_path, name) for name in ("selftest", "doctor"))
    assert selftest.returncode == ExitCode.USAGE, selftest.stderr
    assert "The NVIDIA driver hangs: " in selftest.stderr
    assert doctor.returncode == ExitCode.INCOMPLETE, doctor.stderr
    words = " ".join(doctor.stdout.split())
    assert (
        "broken Driver The NVIDIA driver hangs: NVML did not answer within 1.5 s do: the kernel log (dmesg: " in words
    )


def test_a_program_that_reads_standard_error_is_not_told_of_waiting(fake: FakeNvml, tmp_path: Path) -> None:
    """With --log-format json a line that is none would be in its way; --quiet means it too."""
    fake.set({"delay.nvmlInit": 600})
    for option in (("--log-format", "json"), ("--quiet",), ()):
        shown = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", *option, change="inventory.TIMEOUT_S = 60.0")
        assert shown.returncode == ExitCode.PASSED, shown.stderr
        assert ("still waiting" in shown.stderr) == (not option)


# ── one look ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_look_answers_all_who_ask_before_a_run(fake: FakeNvml, tmp_path: Path) -> None:
    """Which GPUs, who uses them, who cannot be seen: NVML is opened once, also as the run begins."""
    change = "from orchestrator.engine import run\nrun._work = lambda *_, **__: 1 / 0"
    ended = command(fake, tmp_path, "run", "-m", "lstm", change=change)
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "['orchestrator.gpu.inventory', 'orchestrator.gpu.cuda_probe']"


def test_a_run_on_the_cpu_asks_nobody(fake: FakeNvml, tmp_path: Path) -> None:
    """A driver that hangs is no matter to it."""
    fake.hang(None, "nvmlInit")
    shown = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "cpu:0")
    assert shown.returncode == ExitCode.PASSED, shown.stderr
    assert shown.stderr.splitlines()[-1] == "[]"


def test_the_answer_may_be_longer_than_a_pipe(tmp_path: Path) -> None:
    """Eight GPUs cut into seven slices each, near many cores, all in use: more than the 64 KiB that a pipe holds."""
    fake = FakeNvml(tmp_path, gpus=8)
    for gpu in range(8):
        fake.cut(gpu, *["1g.18gb"] * 7)
        fake.set(
            {
                f"gpu.{gpu}.mig.{place}.compute": " ".join(f"{pid} 1048576" for pid in range(1000, 1009))
                for place in range(7)
            }
        )
        fake.set({f"gpu.{gpu}.cpus": " ".join(map(str, range(64)))})
    look = (
        "import sys, msgspec; from orchestrator.gpu import inventory as seen;"
        "sys.stdout.buffer.write(msgspec.json.encode(seen.look()))"
    )
    shown: Any = fake.python(look)
    assert len(json.dumps(shown, separators=(",", ":"))) > 64 * 1024
    assert (len(shown["inventory"]["gpus"]), len(shown["inventory"]["slices"])) == (8, 56)
    assert [one["pid"] for one in shown["uses"][slice_uuid(7, 6)]["processes"]] == [*range(1000, 1009)]


def test_who_uses_a_gpu_that_nobody_wants_is_no_matter(fake: FakeNvml, tmp_path: Path) -> None:
    """Of a GPU that does not answer this question, it is said where that GPU is to be used."""
    fake.fail("nvmlDeviceGetComputeRunningProcesses", 15, gpu=1)
    other = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "0")
    assert other.returncode == ExitCode.PASSED, other.stderr
    refused = command(fake, tmp_path, "run", "--dry-run", "-m", "lstm", "--gpu-ids", "1")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "Who uses GPU 1 cannot be read: NVML: " in refused.stderr


# ── nobody to ask, and one that dies ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("driver", "status", "words"), [(False, "absent", "no NVIDIA driver"), (True, "broken", "")])
def test_without_the_library_no_process_is_started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: bool,
    status: str,
    words: str,
) -> None:
    """`info` on a machine without GPUs is quick; a driver without its library is broken, not absent."""
    monkeypatch.setattr(nvml, "_LIBRARY", "libgpubench-none.so.1")
    monkeypatch.setattr(nvml, "_DRIVER_IS_THERE", tmp_path if driver else tmp_path / "none")
    monkeypatch.setattr(subprocess_query, "ask", lambda *_, **__: pytest.fail("a process was started"))
    found = inventory.look().inventory
    assert (found.nvml, found.gpus, found.hangs) == (status, (), False)
    assert words in found.reason


def test_a_look_that_dies_is_told(fake: FakeNvml) -> None:
    """The driver's library has fallen over: how, and what to do."""
    fake.hang(None, "nvmlInit")
    source = "from orchestrator.gpu import inventory as seen; print(seen.look().inventory.reason)"
    with subprocess.Popen(
        [sys.executable, "-c", source], env=fake.environment | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as parent:
        until_it_asks(parent.pid).kill()
        said, _ = parent.communicate(timeout=30)
    words = said.decode().strip()
    assert words == "The process that asks NVML ended: killed by SIGKILL; `nvidia-smi` and the kernel log may say more"


def test_a_look_that_hangs_does_not_outlive_a_killed_orchestrator(fake: FakeNvml) -> None:
    """The kernel ends it with its parent."""
    fake.hang(None, "nvmlInit")
    with subprocess.Popen(
        [sys.executable, "-c", "from orchestrator.gpu import inventory as seen; seen.look()"],
        env=fake.environment | {"PYTHONPATH": str(ROOT)},
    ) as parent:
        look = until_it_asks(parent.pid)
        parent.kill()
    gone, _ = psutil.wait_procs([look], timeout=10)
    assert gone == [look]


def until_it_asks(parent: int) -> psutil.Process:
    """The process that asks NVML, when it has loaded the library: it asked to end with its parent before that."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        for child in psutil.Process(parent).children():
            if "libnvidia-ml.so.1" in Path(f"/proc/{child.pid}/maps").read_text():
                return child
        time.sleep(0.02)
    raise AssertionError("it never loaded NVML")
