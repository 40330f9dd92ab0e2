"""Environment variables that change measurements: which matter, and that a run reports and stores them."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.gpu import environment
from orchestrator.store.journal_records import Segment
from tests.fakes.cuda import beside
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml
from tests.fakes.runs import FakeRun

PREPARE = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve({ids!r}, visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy"), machines=found)
print("null")
"""
EFFECT = environment.EFFECTS["CUDA_LAUNCH_BLOCKING"]


@pytest.mark.parametrize(
    ("name", "value", "counts"),
    [
        *((name, "1", True) for name in environment.EFFECTS),
        ("CUDA_LAUNCH_BLOCKING", "0", False),
        ("CUDA_LAUNCH_BLOCKING", "", False),
        ("NVIDIA_TF32_OVERRIDE", "0", True),
        ("NVIDIA_TF32_OVERRIDE", "", False),
    ],
)
def test_variables_with_an_effect(name: str, value: str, *, counts: bool) -> None:
    """Every variable of the table unless it is off; 0 means off except for TF32, which it forbids."""
    assert environment.set_in({name: value, "SECRET": "x"}) == (((name, value),) if counts else ())
    assert environment.describe(name, value).startswith(f"{name}={value}: ")


def test_a_value_can_always_be_written_down() -> None:
    """Bytes that are no text, and text without end, break no journal."""
    ((_, value),) = environment.set_in({"CUDA_INJECTION64_PATH": "\udcff" + "x" * 10_000})
    assert len(value) <= 200
    msgspec.msgpack.encode(value)


def test_a_run_on_gpus_reports_and_stores_its_settings(tmp_path: Path) -> None:
    """In one line at start, in the journal, in the JSON report and in the text."""
    nvml = FakeNvml(tmp_path, gpus=1)
    folder = tmp_path / "run"
    nvml.python(PREPARE.format(ids="all", folder=str(folder)))
    node = Node(folder, environment=nvml.environment | beside(nvml) | {"CUDA_LAUNCH_BLOCKING": "1"})
    node.wait()
    assert node.output.count(f"CUDA_LAUNCH_BLOCKING=1: {EFFECT}") == 1
    (segment,) = [one for one in node.records() if isinstance(one, Segment)]
    assert segment.settings == (("CUDA_LAUNCH_BLOCKING", "1"),)
    expected = {"name": "CUDA_LAUNCH_BLOCKING", "value": "1", "effect": EFFECT}
    assert node.report()["metadata"]["settings"] == [expected]
    text = " ".join((folder / "report.txt").read_text(encoding="utf-8").split())
    assert f"CUDA_LAUNCH_BLOCKING=1: {EFFECT}" in text


def test_settings_have_no_effect_on_cpu_devices(tmp_path: Path) -> None:
    """Nothing of CUDA is measured there."""
    nvml = FakeNvml(tmp_path, gpus=1)
    folder = tmp_path / "run"
    nvml.python(PREPARE.format(ids="cpu:0", folder=str(folder)))
    node = Node(folder, environment=nvml.environment | {"CUDA_LAUNCH_BLOCKING": "1"})
    assert node.wait() == 0, node.output
    assert "CUDA_LAUNCH_BLOCKING" not in node.output
    assert node.report()["metadata"]["settings"] == []


def test_settings_of_all_sessions_are_reported_once(tmp_path: Path) -> None:
    """A run that was resumed in another environment has the settings of both."""
    run = FakeRun(tmp_path)
    blocking, override = ("CUDA_LAUNCH_BLOCKING", "1"), ("NVIDIA_TF32_OVERRIDE", "0")
    run.segment(settings=(blocking,))
    run.segment(settings=(blocking, override))
    run.everything()
    run.finish()
    assert [(one.name, one.value) for one in run.report().metadata.settings] == [blocking, override]
