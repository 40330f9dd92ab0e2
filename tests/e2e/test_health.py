"""Whole runs on an NVML of our own whose GPUs fail in the middle: results are kept, the verdict says what happened."""

from pathlib import Path

import pytest

from orchestrator.store.journal_records import Quarantine, TelemetryEnded
from tests.fakes import faults, gpu_runs
from tests.fakes.nvml import FakeNvml, uuid

BUSY = faults.model("busy", seconds=1.0)


def test_an_xid_in_the_middle_fails_its_gpu(tmp_path: Path) -> None:
    """Exit code 3 with the GPU and the number; all results are kept. An Xid of the application is reported, no more."""
    nvml = FakeNvml(tmp_path, gpus=3)
    node = gpu_runs.start(nvml, tmp_path / "run", BUSY)
    node.until(lambda: node.looked_at(3))
    nvml.xid(1, 74)
    nvml.xid(2, 13)
    report = node.ended(3)
    _, failed, other = report["health"]["gpus"]
    assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, True, False]
    assert (failed["gpu_uuid"], [one["xid"] for one in failed["xids"]]) == (uuid(1), [74])
    assert [one["xid"] for one in other["xids"]] == [13]
    assert "GPU 2: Xid 13 " in node.output
    assert node.of(Quarantine) == []
    assert report["summary"]["cells"]["ok"] == 3


def test_a_required_signal_that_cannot_be_read_is_no_pass(tmp_path: Path) -> None:
    """ECC counters of one GPU are refused: a run that does not require them ends with 0, one that does with 4."""
    nvml = FakeNvml(tmp_path, gpus=2)
    nvml.fail("nvmlDeviceGetTotalEccErrors", 4, gpu=1)
    refused = ("ecc_uncorrected", "ecc_corrected")
    verdicts = []
    nodes = [
        (code, gpu_runs.start(nvml, tmp_path / f"run{code}", BUSY, required_signals=required))
        for code, required in ((0, ()), (4, ("xid", *refused)))
    ]
    for code, node in nodes:
        gpus = node.ended(code)["health"]["gpus"]
        readable, fewer = (gpu["applicable"] - gpu["readable"] for gpu in gpus)
        assert readable == 1  # the generation of a link is known under load only, and there is none
        assert fewer == readable + len(refused)
        assert all(gpu["looks"] >= 2 for gpu in gpus)
        verdicts.append([gpu["verdict"] for gpu in gpus])
    assert {*verdicts[0]} <= {"PASS", "WARN"}
    assert [verdict == "UNKNOWN" for verdict in verdicts[1]] == [False, True]
    assert gpus[1]["lacking"] == [*refused]


def test_the_only_gpu_of_a_virtual_machine_passes(tmp_path: Path) -> None:
    """It has no links and the machine no counters, by the words of driver and kernel: PASS, exit code 0."""
    nvml = FakeNvml(tmp_path, gpus=1)
    nvml.set(dict.fromkeys(("gpu.0.nvlinks", "gpu.0.fabric_state", *(f"gpu.0.field.{n}" for n in (38, 52, 59)))))
    report = gpu_runs.start(nvml, tmp_path / "run", BUSY, required_signals=("nvlinks", "nvlink_errors")).ended(0)
    (gpu,) = report["health"]["gpus"]
    assert (gpu["verdict"], gpu["lacking"]) == ("PASS", [])
    states = {signal["name"]: signal["state"] for signal in gpu["signals"]}
    assert {states[name] for name in ("nvlinks", "nvlink_errors", "fabric")} == {"not applicable"}


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["killed", "hangs in NVML"])
def test_telemetry_that_ends_is_no_pass(tmp_path: Path, hangs: bool) -> None:
    """The run ends with its results. That telemetry ended is in the journal, and health is UNKNOWN: exit code 4."""
    nvml = FakeNvml(tmp_path, gpus=2)
    if hangs:
        nvml.hang(0, "nvmlDeviceGetTotalEccErrors")
    node = gpu_runs.start(nvml, tmp_path / "run", BUSY)
    if not hangs:
        node.until(lambda: node.working("busy") and node.looked_at(2))
        next(child for child in node.children() if "orchestrator.gpu.telemetry.sampler" in child.cmdline()).kill()
    report = node.ended(4)
    assert report["summary"]["cells"]["ok"] == 2
    assert {gpu["verdict"] for gpu in report["health"]["gpus"]} == {"UNKNOWN"}
    assert all(gpu["note"] for gpu in report["health"]["gpus"])
    assert len(node.of(TelemetryEnded)) == 1
