"""Whole runs on an NVML of our own whose GPUs fail in the middle: results are kept, the verdict says what happened."""

from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.gpu.health import records
from orchestrator.gpu.health.records import Vitals
from orchestrator.store.records import TelemetryEnded
from protocol.paths import RunPaths
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml

PREPARE = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy", seconds=1.0), machines=found, required_signals={required!r})
print("null")
"""


def prepare(nvml: FakeNvml, folder: Path, *required: str) -> StoredRun:
    """A run on every GPU that the fake NVML shows. required: signals without which there is no PASS."""
    from orchestrator.store import run_files

    nvml.python(PREPARE.format(folder=str(folder), required=required))
    return run_files.load(RunPaths(folder))


def looked_at(node: Node) -> bool:
    """Whether the telemetry process has looked at the GPUs once, and so listens too."""
    return any(isinstance(record, Vitals) for record in records.read(node.paths.health))


def test_a_run_on_sound_gpus_passes(tmp_path: Path) -> None:
    """Nothing happens: every GPU is looked at from beginning to end, and the exit code is 0."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 0, node.output
    health = node.report()["health"]
    assert {gpu["verdict"] for gpu in health["gpus"]} <= {"PASS", "WARN"}
    assert all(gpu["looks"] >= 2 for gpu in health["gpus"])
    assert leftovers(folder) == NOTHING


def test_an_xid_in_the_middle_fails_its_gpu(tmp_path: Path) -> None:
    """Exit code 3 with the GPU and the number; the results of all GPUs are in the report."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    stored = prepare(nvml, folder)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    node.until(lambda: looked_at(node))
    nvml.xid(1, 74)
    assert node.wait() == 3, node.output
    report = node.report()
    assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, True]
    assert report["health"]["gpus"][1]["gpu_uuid"] == stored.devices[1].uuid
    assert report["health"]["gpus"][1]["xids"][0]["xid"] == 74
    assert report["summary"]["cells"]["ok"] == 2


def test_what_is_required_and_cannot_be_read_is_no_pass(tmp_path: Path) -> None:
    """ECC counters of one GPU are refused: a run that does not require them ends with 0, one that does with 4."""
    nvml = FakeNvml(tmp_path, gpus=2)
    nvml.fail("nvmlDeviceGetTotalEccErrors", 4, gpu=1)
    ended = {}
    for required in ((), ("xid", "ecc_uncorrected", "ecc_corrected")):
        folder = tmp_path / f"run{len(required)}"
        prepare(nvml, folder, *required)
        node = Node(folder, environment=nvml.environment | beside(nvml))
        ended[required] = node.wait(), node.report()["health"]["gpus"]
        read = [f"{gpu['readable']} of {gpu['applicable']}" for gpu in ended[required][1]]
        assert read == [
            "18 of 19",
            "16 of 19",
        ]  # nothing here is under load, so nobody knows the generation of the link
    (code, free), (strict_code, strict) = ended.values()
    assert (code, strict_code) == (0, 4)
    assert {gpu["verdict"] for gpu in free} <= {"PASS", "WARN"}
    assert [gpu["verdict"] == "UNKNOWN" for gpu in strict] == [False, True]
    assert strict[1]["lacking"] == ["ecc_uncorrected", "ecc_corrected"]


def test_telemetry_that_is_killed_is_no_pass(tmp_path: Path) -> None:
    """It is gone for the last second of the work only: that is in the journal, and nobody vouches for the GPU."""
    nvml = FakeNvml(tmp_path, gpus=1)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    node.until(lambda: node.working("busy") and looked_at(node))
    next(child for child in node.children() if "orchestrator.gpu.telemetry.sampler" in child.cmdline()).kill()
    assert node.wait() == 4, node.output
    assert sum(isinstance(record, TelemetryEnded) for record in node.records()) == 1
    (device,) = node.report()["health"]["gpus"]
    assert (device["verdict"], device["note"][:27]) == ("UNKNOWN", "the readings broke off for ")


@pytest.mark.slow
def test_an_nvml_that_hangs_leaves_the_run_alone(tmp_path: Path) -> None:
    """The run ends with its results; health is unknown, never PASS: exit code 4, and nothing is left behind."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    nvml.hang(0, "nvmlDeviceGetTotalEccErrors")
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 4, node.output
    assert node.report()["summary"]["cells"]["ok"] == 2
    assert {gpu["verdict"] for gpu in node.report()["health"]["gpus"]} == {"UNKNOWN"}
    assert any(isinstance(record, TelemetryEnded) for record in node.records())
    assert leftovers(folder) == NOTHING
