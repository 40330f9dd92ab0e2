"""A GPU that is slowed down while it measures, as an NVML of our own reports it: it rests and is measured again."""

import signal
from functools import partial
from pathlib import Path

from orchestrator.store.journal_records import Start
from protocol.failure import Category
from tests.fakes import faults, gpu_runs
from tests.fakes.nvml import FakeNvml

HOT = {"gpu.0.reasons": "0x40", "gpu.0.temperature_c": 91}
COOL = {"gpu.0.reasons": "0x0", "gpu.0.temperature_c": 40}
withdrawn = partial(gpu_runs.count_withdrawn, category=Category.THROTTLED)


def test_the_third_throttled_launch_counts(tmp_path: Path) -> None:
    """Nothing is launched on a hot GPU; hot three times, it has a result. A stop ends its rest."""
    nvml, folder = FakeNvml(tmp_path, gpus=1), tmp_path / "run"
    nvml.set(HOT)
    stopped = gpu_runs.start(nvml, folder, faults.model("busy", seconds=0.5))
    stopped.until(lambda: withdrawn(stopped) == 1)
    stopped.kill(signal.SIGINT)
    assert stopped.ended(4, timeout_s=20)["cells"][0]["status"] == "missing"
    nvml.set(COOL)
    node = gpu_runs.resume(nvml, folder)
    node.until(lambda: len(node.of(Start)) == 2)
    nvml.set(HOT)
    node.until(lambda: withdrawn(node) == 2)
    assert len(node.of(Start)) == 2
    nvml.set(COOL)
    node.until(lambda: len(node.of(Start)) == 3)
    nvml.set(HOT)
    report = node.ended()
    (cell,) = report["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 3, 1)
    assert [failure["category"] for failure in report["failures"]] == [Category.THROTTLED] * 2
    assert all("91 °C" in failure["message"] for failure in report["failures"])
