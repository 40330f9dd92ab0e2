"""Environment variables that change what is measured: which count, and that a run says so and keeps them."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.gpu import environment
from orchestrator.store.records import Segment
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


@pytest.mark.parametrize("name", environment.EFFECTS)
def test_what_is_set_counts_with_its_value(name: str) -> None:
    """Every variable of the table; others of the environment are nobody's business."""
    assert environment.set_in({name: "1", "SECRET": "x"}) == ((name, "1"),)
    assert environment.words(name, "1").startswith(f"{name}=1: ")


@pytest.mark.parametrize(
    ("name", "value", "counts"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0", False),
        ("CUDA_LAUNCH_BLOCKING", "", False),
        ("NVIDIA_TF32_OVERRIDE", "0", True),
        ("NVIDIA_TF32_OVERRIDE", "", False),
    ],
)
def test_what_is_switched_off_has_no_effect(name: str, value: str, *, counts: bool) -> None:
    """0 means off, but for TF32, which it forbids."""
    assert bool(environment.set_in({name: value})) is counts


def test_a_value_can_always_be_written_down() -> None:
    """Bytes that are no text, and text without end, break no journal."""
    ((_, value),) = environment.set_in({"CUDA_INJECTION64_PATH": "\udcff" + "x" * 10_000})
    assert len(value) <= 200
    msgspec.msgpack.encode(value)


def test_a_run_on_gpus_says_so_and_keeps_it(tmp_path: Path) -> None:
    """One line as it begins, in the journal, in the JSON report and in the text."""
    nvml = FakeNvml(tmp_path, gpus=1)
    folder = tmp_path / "run"
    nvml.python(PREPARE.format(ids="all", folder=str(folder)))
    node = Node(folder, environment=nvml.environment | beside(nvml) | {"CUDA_LAUNCH_BLOCKING": "1"})
    node.wait()
    assert node.output.count(f"CUDA_LAUNCH_BLOCKING=1: {EFFECT}") == 1
    (segment,) = [one for one in node.records() if isinstance(one, Segment)]
    assert segment.settings == (("CUDA_LAUNCH_BLOCKING", "1"),)
    told = {"name": "CUDA_LAUNCH_BLOCKING", "value": "1", "effect": EFFECT}
    assert node.report()["metadata"]["settings"] == [told]
    text = " ".join((folder / "report.txt").read_text(encoding="utf-8").split())
    assert f"Changed by the environment: CUDA_LAUNCH_BLOCKING=1: {EFFECT}" in text


def test_on_cpu_devices_it_changes_nothing(tmp_path: Path) -> None:
    """Nothing of CUDA is measured there, so nothing is said."""
    nvml = FakeNvml(tmp_path, gpus=1)
    folder = tmp_path / "run"
    nvml.python(PREPARE.format(ids="cpu:0", folder=str(folder)))
    node = Node(folder, environment=nvml.environment | {"CUDA_LAUNCH_BLOCKING": "1"})
    assert node.wait() == 0, node.output
    assert "CUDA_LAUNCH_BLOCKING" not in node.output
    assert node.report()["metadata"]["settings"] == []


def test_what_every_process_had_set_is_told_once(tmp_path: Path) -> None:
    """A run that was resumed in another environment names what was set in either."""
    run = FakeRun(tmp_path)
    blocking, override = ("CUDA_LAUNCH_BLOCKING", "1"), ("NVIDIA_TF32_OVERRIDE", "0")
    run.segment(settings=(blocking,))
    run.segment(settings=(blocking, override))
    run.everything()
    run.finish()
    assert [(one.name, one.value) for one in run.report().metadata.settings] == [blocking, override]
