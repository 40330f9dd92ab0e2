"""How much memory a launch took, from the kernel's and the module's own figures."""

from pathlib import Path

import pytest
import torch

from tests.fakes.assignments import run_script
from worker import memory

MIB = 1024 * 1024


def test_shared_weights_count_once() -> None:
    """A head that is tied to its embedding takes no memory of its own; buffers do."""
    module = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False), torch.nn.BatchNorm1d(3))
    module[1].weight = module[0].weight
    assert memory.parameter_count(module) == 40 + 6
    assert memory.module_bytes(module) == (40 + 6 + 6) * 4 + 8


def test_resident_peak_is_that_since_the_reset() -> None:
    """Memory that imports, or the process before a fork, used earlier is not part of the launch's peak."""
    words = run_script("""
from worker import memory
ballast = bytearray(256 << 20); ballast[::4096] = b"1" * len(ballast[::4096])
before = memory.resident_peak()
del ballast
memory.reset_resident()
print(before >> 20, memory.resident_peak() >> 20)
""")
    before, after = map(int, words.split())
    assert before >= 256
    if after >= 256:
        pytest.skip("this kernel does not let a process reset its peak (/proc/self/clear_refs)")
    assert after < before - 200


def test_kernel_without_peaks_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc's files the peak comes from getrusage, and nothing is raised."""
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "absent" / "clear_refs")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "absent")
    memory.reset_resident()
    assert memory.resident_peak() > 10 * MIB
    assert memory.headroom().data is None


def test_unknown_figures_are_absent() -> None:
    """Evidence has only known figures; a CPU device has no allocator with peaks or retries."""
    known = memory.Headroom(device_free=1, device_total=None, available=3).as_text()
    assert known == {"device_free_bytes": "1", "available_bytes": "3"}
    cpu = torch.device("cpu")
    memory.reset_peaks(cpu)
    assert memory.peaks(cpu) == memory.Peaks(None, None)
    assert memory.allocator_retries(cpu) == 0
