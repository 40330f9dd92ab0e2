"""`doctor` on nodes that are not there: each start-up error that people meet is named, with what to do about it."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.config import libraries
from orchestrator.config.libraries import Torch
from orchestrator.doctor import Level, gpus, software
from orchestrator.gpu.environment import EFFECTS
from orchestrator.gpu.inventory import Inventory, NvmlStatus
from protocol.exit_codes import ExitCode
from tests.fakes.cuda import beside
from tests.fakes.nvml import FakeNvml, uuid


class Patient:
    """A node with two GPUs, of our own NVML and CUDA, and what `doctor` says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nvml = FakeNvml(folder)

    def examined(self, *options: str, cuda: int | str = "", **environment: str) -> tuple[int, str]:
        """Exit code, and what is said, in one line."""
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "doctor", *options],
            cwd=self.folder,
            env=self.nvml.environment | beside(self.nvml, init=cuda) | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, " ".join(done.stdout.split())


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    """Healthy, until a test changes that."""
    return Patient(tmp_path)


def test_a_healthy_node_passes(patient: Patient) -> None:
    """Driver, CUDA and torch are named, and nothing stands in the way. Nothing is written."""
    before = sorted(patient.folder.iterdir())
    code, words = patient.examined()
    assert code == ExitCode.PASSED, words
    assert "ok Driver 580.95.05, CUDA up to 13.0, 2 GPUs ok CUDA works on 2 GPUs ok torch torch " in words
    assert "A run can begin; " in words
    assert "broken" not in words
    assert sorted(patient.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (46, "`nvidia-smi -c DEFAULT` (as root) allows CUDA again"),
        (802, "systemctl start nvidia-fabricmanager"),
        (803, "its library and its kernel module differ: reboot"),
        (805, "nvidia-cuda-mps-control -d"),
        (999, "load it (modprobe nvidia-uvm)"),
    ],
)
def test_a_cuda_that_refuses_is_explained(patient: Patient, code: int, advice: str) -> None:
    """By its code, and what people have done about it."""
    ended, words = patient.examined(cuda=code)
    assert ended == ExitCode.INCOMPLETE
    assert f"broken CUDA cuInit says {code} (" in words
    assert advice in words.partition(" do: ")[2]
    assert "A run on all GPUs cannot begin: 1 to mend" in words


@pytest.mark.parametrize(
    ("nvml", "words", "advice"),
    [
        (18, "broken Driver The NVIDIA driver is there but NVML cannot be used", "the driver was updated while in use"),
        (9, "broken Driver ", "--gpu-ids cpu:0,cpu:1"),
    ],
)
def test_a_driver_that_does_not_work_is_explained(patient: Patient, nvml: int, words: str, advice: str) -> None:
    """18 is the mismatch after an upgrade; 9 a driver that is not loaded. CUDA is not asked then."""
    patient.nvml.fail("nvmlInit", nvml)
    code, said = patient.examined()
    assert code == ExitCode.INCOMPLETE
    assert words in said
    assert advice in said or "install the NVIDIA driver, or load it (modprobe nvidia)" in said
    assert " CUDA works " not in said


def test_an_old_driver_is_held_against_torch(patient: Patient) -> None:
    """A driver for CUDA 11 serves no torch that is installed here."""
    patient.nvml.set({"cuda_driver_version": 11080})
    code, words = patient.examined()
    assert code == ExitCode.INCOMPLETE
    assert "and the driver serves CUDA 11.8 at most: it is too old do: update the driver to " in words


def test_how_the_gpus_are_set_up(patient: Patient) -> None:
    """Persistence mode off and exclusive mode are warnings; prohibited mode stands in the way."""
    patient.nvml.set({"gpu.0.persistence_mode": 0, "gpu.0.compute_mode": 3})
    code, words = patient.examined(CUDA_LAUNCH_BLOCKING="1")
    assert code == ExitCode.PASSED
    assert "warning Setup persistence mode is off on GPU 0: " in words
    assert "nvidia-persistenced" in words
    assert "warning Mode GPU 0 is in exclusive-process mode" in words
    effect = EFFECTS["CUDA_LAUNCH_BLOCKING"]
    assert f"warning Settings CUDA_LAUNCH_BLOCKING=1: {effect} do: unset CUDA_LAUNCH_BLOCKING" in words
    patient.nvml.set({"gpu.1.compute_mode": 2})
    code, words = patient.examined()
    assert code == ExitCode.INCOMPLETE
    assert f"GPU 1 is in prohibited mode: CUDA refuses every process (error 46) do: nvidia-smi -i {uuid(1)}" in words


def test_what_a_job_was_given_is_what_is_looked_at(patient: Patient) -> None:
    """Slurm and Docker show a part of the GPUs and of the cores."""
    patient.nvml.set({"gpu.0.compute_mode": 2})  # of a GPU that is not ours
    code, words = patient.examined(CUDA_VISIBLE_DEVICES=uuid(1))
    assert code == ExitCode.PASSED, words
    assert "CUDA works on 1 GPU " in words
    code, words = patient.examined(CUDA_VISIBLE_DEVICES="")
    assert code == ExitCode.INCOMPLETE
    assert "No NVIDIA GPU was found (CUDA_VISIBLE_DEVICES is '')" in words


def test_only_the_devices_that_are_named_stand_in_the_way(patient: Patient) -> None:
    """A gate for a run on a part of the node, or on CPU devices, for which the driver is not asked at all."""
    patient.nvml.set({"gpu.0.compute_mode": 2})
    code, words = patient.examined("--gpu-ids", "1,cpu:0")
    assert code == ExitCode.PASSED, words
    assert "CUDA works on 1 GPU " in words
    code, words = patient.examined("--gpu-ids", "0")
    assert code == ExitCode.INCOMPLETE
    assert "A run on 0 cannot begin" in words
    code, words = patient.examined("--gpu-ids", "7")
    assert code == ExitCode.INCOMPLETE
    assert "--gpu-ids: there is no GPU 7" in words
    code, words = patient.examined("--gpu-ids", "cpu:0", cuda=802)
    assert code == ExitCode.PASSED, words
    assert "CUDA cu" not in words
    assert "Driver" not in words
    assert patient.examined("--gpu-ids", "gpu0")[0] == ExitCode.USAGE


def test_slices_are_counted_and_each_is_tried(patient: Patient) -> None:
    """A GPU in MIG mode is looked at as CUDA shows it; a slice that CUDA does not have is named."""
    slices = patient.nvml.cut(0, "1g.18gb", "1g.18gb")
    seen = beside(patient.nvml, slices=slices)
    code, words = patient.examined(**seen)
    assert code == ExitCode.PASSED, words
    assert "2 GPUs and 2 MIG slices ok CUDA works on 1 GPU and 2 MIG slices " in words
    code, words = patient.examined(**beside(patient.nvml, slices=slices[:1]))
    assert code == ExitCode.INCOMPLETE
    assert "broken CUDA cuInit says 100 (CUDA_ERROR_NO_DEVICE, " in words
    assert f"so CUDA has no GPU 0:1 ({slices[1]})" in words


def test_mps_is_told(patient: Patient) -> None:
    """It is found by where CUDA is pointed to."""
    _, words = patient.examined(CUDA_MPS_PIPE_DIRECTORY=str(patient.folder))
    assert "warning CUDA an MPS daemon runs" in words


# ── judged without a machine ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_gpu_without_a_driver_is_another_thing_than_none() -> None:
    """The PCI bus tells."""
    none = Inventory(gpus=(), nvml=NvmlStatus.ABSENT, reason="no NVIDIA driver on this machine")
    [bare] = gpus.judge(gpus.Facts(inventory=none, on_bus=2))
    assert bare.words.startswith("2 GPUs on the PCI bus, and no driver for it")
    assert "modprobe nvidia" in bare.fix
    [empty] = gpus.judge(gpus.Facts(inventory=none, on_bus=0))
    assert "no NVIDIA GPU in this machine" in empty.words
    assert (bare.level, empty.level) == (Level.BROKEN, Level.BROKEN)


@pytest.mark.parametrize(("gpu_ids", "level"), [("all", Level.BROKEN), ("0", Level.WARNING)])
def test_a_gpu_that_cannot_be_opened_stands_in_the_way_of_all(gpu_ids: str, level: Level) -> None:
    """Who names others is only told of it."""
    found = Inventory(gpus=(), nvml=NvmlStatus.OK, unreadable={1: "GPU is lost; reboot"})
    told = tuple(gpus.judge(gpus.Facts(inventory=found, gpu_ids=gpu_ids)))
    assert [(one.level, one.words) for one in told[1:]] == [(level, "GPU 1 cannot be used: GPU is lost")]


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
def test_torch_is_held_against_the_driver(torch: Torch | None, driver: str | None, level: Level) -> None:
    """What counts is the major version of CUDA."""
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
    """From its version.py, in the forms that it has had."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "torch" / "version.py").write_text(text)
    assert libraries.torch_cuda([str(tmp_path)]) == expected
    assert libraries.torch_cuda([str(tmp_path / "nowhere")]) is None
