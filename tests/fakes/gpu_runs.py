"""Runs on GPUs that are not there: NVML and CUDA of our own, and launches of the fault workload, which use no GPU."""

from pathlib import Path
from typing import Any

import msgspec

from orchestrator.config.run_configuration import StoredRun
from orchestrator.store.journal_records import End
from protocol.cell import Device, ModelSpec
from protocol.failure import Category
from tests.fakes import faults
from tests.fakes.cuda import beside
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml

_FIND = """
import msgspec
from orchestrator.gpu import devices
print(msgspec.json.encode(devices.resolve("all", visible={visible!r}, cores=(0, 1))).decode())
"""
_found: dict[tuple[str, str | None], tuple[Device, ...]] = {}
"""By the script of the NVML: a process that loads it takes a second, and most tests have the same GPUs."""


def find_devices(nvml: FakeNvml, visible: str | None = None) -> tuple[Device, ...]:
    """Every GPU and slice that the NVML shows. visible: the value of CUDA_VISIBLE_DEVICES."""
    key = Path(nvml.environment["GPUBENCH_FAKE_NVML"]).read_text(), visible
    if key not in _found:
        _found[key] = msgspec.convert(nvml.python(_FIND.format(visible=visible)), tuple[Device, ...])
    return _found[key]


def prepare(nvml: FakeNvml, folder: Path, *models: ModelSpec, **options: Any) -> StoredRun:
    """Write a run of `models` on every device that the NVML shows. options: those of faults.prepare."""
    return faults.prepare(folder, *models, machines=find_devices(nvml), **options)


def start(nvml: FakeNvml, folder: Path, *models: ModelSpec, **options: Any) -> Node:
    prepare(nvml, folder, *models, **options)
    return resume(nvml, folder)


def resume(nvml: FakeNvml, folder: Path, **cuda: Any) -> Node:
    """Start `resume` with this NVML. cuda: the arguments of cuda.beside."""
    return Node(folder, environment=nvml.environment | beside(nvml, **cuda))


def count_withdrawn(node: Node, category: Category) -> int:
    """Count the results that were withdrawn as `category`."""
    return sum(end.failure is not None and end.failure.category is category for end in node.of(End))
