"""`doctor` on fake nodes: each start-up error that people meet is reported with a remedy."""

import re
from pathlib import Path

import pytest

from orchestrator.config import libraries
from orchestrator.config.libraries import Torch
from orchestrator.doctor import Level, gpus, software
from orchestrator.gpu.environment import EFFECTS
from orchestrator.gpu.inventory import Inventory, NvmlStatus
from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.cuda import beside
from tests.fakes.nvml import FakeNvml, uuid


class Patient:
    """A node with two GPUs, on fake NVML and CUDA."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nvml = FakeNvml(folder)

    def examined(self, expected: ExitCode, *options: str, cuda: int | str = "", **environment: str) -> str:
        """The output of `doctor` in one line, after checking its exit code."""
        environment = self.nvml.environment | beside(self.nvml, init=cuda) | environment
        done = python("-m", "orchestrator", "doctor", *options, cwd=self.folder, **environment)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == expected, done.stdout
        return " ".join(done.stdout.split())


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    """Healthy, until a test changes that."""
    return Patient(tmp_path)


def test_a_healthy_node_passes(patient: Patient) -> None:
    """With driver, CUDA and torch. Nothing is written."""
    before = sorted(patient.folder.iterdir())
    words = patient.examined(ExitCode.PASSED)
    assert re.search(r"ok Driver 580\.95\.05, .*13\.0, 2 GPUs ok CUDA .*2 GPUs ok torch ", words)
    assert "broken" not in words
    assert sorted(patient.folder.iterdir()) == before


def test_errors_of_cuda_have_advice(patient: Patient) -> None:
    """That of the probe (test_cuda_probe.py)."""
    words = patient.examined(ExitCode.INCOMPLETE, cuda=46)
    assert re.search(r"broken CUDA cuInit .*46 \(.* do: .*`nvidia-smi -c DEFAULT`", words)


def test_errors_of_the_driver_have_advice(patient: Patient) -> None:
    """Such as the mismatch after an upgrade. CUDA is not tried then."""
    patient.nvml.fail("nvmlInit", 18)
    words = patient.examined(ExitCode.INCOMPLETE)
    assert re.search("broken Driver .*updated", words)
    assert " CUDA works " not in words


def test_settings_that_let_a_run_pass_are_warnings(patient: Patient) -> None:
    """Of the GPUs, of CUDA, an MPS daemon (by CUDA's pipe folder), and no C compiler, which only --compile needs."""
    patient.nvml.set({"gpu.0.persistence_mode": 0, "gpu.0.compute_mode": 3})
    environment = {"CUDA_LAUNCH_BLOCKING": "1", "CC": "none", "CUDA_MPS_PIPE_DIRECTORY": str(patient.folder)}
    words = patient.examined(ExitCode.PASSED, **environment)
    assert re.search(r"warning Setup .*GPU 0.*nvidia-persistenced", words)
    assert re.search(r"warning Mode GPU 0 .*exclusive", words)
    effect = EFFECTS["CUDA_LAUNCH_BLOCKING"]
    assert f"warning Settings CUDA_LAUNCH_BLOCKING=1: {effect} do: unset CUDA_LAUNCH_BLOCKING" in words
    assert "warning CUDA an MPS " in words
    assert re.search(r"warning Compiler .*CC=none.* do: .*apt install gcc", words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"gpu.1.compute_mode": 2}, rf"GPU 1 .*prohibited.*46.* do: nvidia-smi -i {uuid(1)}"),
        ({"cuda_driver_version": 11080}, r" up to 11\.8.* do: Update"),  # serves no installed torch
    ],
)
def test_settings_with_which_no_run_passes_are_errors(patient: Patient, setting: dict[str, int], words: str) -> None:
    """Prohibited mode, and a driver for CUDA 11."""
    patient.nvml.set(setting)
    assert re.search(words, patient.examined(ExitCode.INCOMPLETE))


def test_the_devices_of_a_job_are_examined(patient: Patient) -> None:
    """Slurm and Docker show a part of the GPUs and of the cores."""
    patient.nvml.set({"gpu.0.compute_mode": 2})  # of a GPU that is not ours
    assert "CUDA works on 1 GPU " in patient.examined(ExitCode.PASSED, CUDA_VISIBLE_DEVICES=uuid(1))
    assert "CUDA_VISIBLE_DEVICES is ''" in patient.examined(ExitCode.INCOMPLETE, CUDA_VISIBLE_DEVICES="")


def test_only_requested_devices_must_work(patient: Patient) -> None:
    """For a run on a part of the node, or on CPU devices, whose compiler is C++ and whose driver is not tried."""
    patient.nvml.set({"gpu.0.compute_mode": 2})
    assert "CUDA works on 1 GPU " in patient.examined(ExitCode.PASSED, "--gpu-ids", "1,cpu:0")
    assert re.search("--gpu-ids: .*GPU 7", patient.examined(ExitCode.INCOMPLETE, "--gpu-ids", "7"))
    words = patient.examined(ExitCode.PASSED, "--gpu-ids", "cpu:0", cuda=802, CXX="none")
    assert "CUDA cu" not in words
    assert "Driver" not in words
    assert re.search(r"warning Compiler .*CXX=none.* do: .*apt install g\+\+", words)
    patient.examined(ExitCode.USAGE, "--gpu-ids", "gpu0")


def test_slices_are_counted_and_each_is_tried(patient: Patient) -> None:
    """A slice that CUDA does not have is reported with its label and UUID."""
    slices = patient.nvml.cut(0, "1g.18gb", "1g.18gb")
    words = patient.examined(ExitCode.PASSED, **beside(patient.nvml, slices=slices))
    assert re.search("2 GPUs and 2 MIG slices.* CUDA .*1 GPU and 2 MIG ", words)
    words = patient.examined(ExitCode.INCOMPLETE, **beside(patient.nvml, slices=slices[:1]))
    assert re.search(rf"broken CUDA .*CUDA_ERROR_NO_DEVICE, .*GPU 0:1 \({slices[1]}\)", words)


# ── judged without a machine ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_gpu_without_a_driver_differs_from_none() -> None:
    """The PCI bus shows it."""
    none = Inventory(gpus=(), nvml=NvmlStatus.ABSENT, reason="no NVIDIA driver on this machine")
    [bare] = gpus.judge(gpus.Facts(inventory=none, on_bus=2))
    assert bare.message.startswith("2 GPUs ")
    assert "modprobe nvidia" in bare.fix
    [empty] = gpus.judge(gpus.Facts(inventory=none, on_bus=0))
    assert "no NVIDIA GPU" in empty.message
    assert (bare.level, empty.level) == (Level.BROKEN, Level.BROKEN)


@pytest.mark.parametrize(("gpu_ids", "level"), [("all", Level.BROKEN), ("0", Level.WARNING)])
def test_a_gpu_that_cannot_be_opened_breaks_runs_on_all(gpu_ids: str, level: Level) -> None:
    """For runs on others it is a warning."""
    found = Inventory(gpus=(), nvml=NvmlStatus.OK, unreadable={1: "GPU is lost. Reboot"})
    _, *findings = gpus.judge(gpus.Facts(inventory=found, gpu_ids=gpu_ids))
    assert [(one.level, one.message[:5], one.message[-13:]) for one in findings] == [(level, "GPU 1", ": GPU is lost")]


@pytest.mark.parametrize(
    ("torch", "driver", "level"),
    [
        (Torch(version="2.11.0+cu130", cuda="13.0"), "13.0", Level.OK),
        (Torch(version="2.15.0+cu132", cuda="13.2"), "13.0", Level.OK),  # minor versions are compatible
        (Torch(version="2.11.0+cu130", cuda="13.0"), "12.8", Level.BROKEN),
        (Torch(version="2.11.0+cu126", cuda="12.6"), "13.0", Level.OK),
        (Torch(version="2.11.0+cu126", cuda="12.6"), None, Level.OK),  # no driver is another finding
        (Torch(version="2.11.0+cpu", cuda=None), "13.0", Level.BROKEN),
        (Torch(version="2.11.0+cpu", cuda=None), None, Level.WARNING),
        (None, "13.0", Level.BROKEN),
    ],
)
def test_torch_is_compared_with_the_driver(torch: Torch | None, driver: str | None, level: Level) -> None:
    """By the major version of CUDA."""
    [found] = software.judge(torch, driver)
    assert found.level is level
    assert bool(found.fix) == (level is not Level.OK)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\n", Torch(version="2.15.0+cu132", cuda="13.2")),
        ("__version__ = '2.6.0'\ncuda = '12.4'\n", Torch(version="2.6.0", cuda="12.4")),
        ("__version__ = '2.6.0+cpu'\ncuda: Optional[str] = None\n", Torch(version="2.6.0+cpu", cuda=None)),
    ],
)
def test_torch_is_read_and_not_imported(tmp_path: Path, text: str, expected: Torch) -> None:
    """From its version.py, in the forms of its versions."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "torch" / "version.py").write_text(text)
    assert libraries.torch_cuda([str(tmp_path)]) == expected
    assert libraries.torch_cuda([str(tmp_path / "nowhere")]) is None
