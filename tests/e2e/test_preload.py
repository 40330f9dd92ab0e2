"""What is imported ahead of a launch: by the zygote for all, by a new interpreter for its own cell."""

from pathlib import Path

import msgspec
import psutil
import pytest

from orchestrator.config.run_configuration import Isolation
from tests.fakes import faults
from tests.fakes.node import ROOT, Node, name_of, start

MODULES = {
    "counts_threads": """
import os, pathlib
pathlib.Path(os.environ["SEEN"]).write_text(str(len(os.listdir("/proc/self/task"))))
""",
    "raises": "raise RuntimeError('broken')",
    "leaves": "raise SystemExit(3)",
    "crashes": "import ctypes; ctypes.string_at(1)",
    "sleeps": "import time; time.sleep(300)",
}


def begin(folder: Path, isolation: Isolation, *modules: str) -> Node:
    """Start a run of a model for each of these modules, which is imported ahead for it, and of one that needs none."""
    library = folder / "library"
    library.mkdir()
    for module in modules:
        (library / f"{module}.py").write_text(MODULES[module])
    needing = [msgspec.structs.replace(faults.model(f"needs-{module}"), preload=(module,)) for module in modules]
    environment = {"PYTHONPATH": f"{ROOT}:{library}", "SEEN": str(folder / "seen")}
    return start(folder / "run", *needing, faults.model("good"), isolation=isolation, environment=environment)


@pytest.mark.parametrize(
    ("isolation", "broken"), [(Isolation.FORK, ("raises", "leaves")), (Isolation.EXEC, ("raises", "leaves", "crashes"))]
)
def test_a_module_that_cannot_be_imported_ahead_disables_its_own_model_alone(
    tmp_path: Path, isolation: Isolation, broken: tuple[str, ...]
) -> None:
    """Whether it raises, leaves or crashes. Others are imported before a launch connects, and so gets threads."""
    node = begin(tmp_path, isolation, "counts_threads", *broken)
    status = {cell["model_name"]: cell["status"] for cell in node.ended(4)["cells"]}
    assert status == {"good": "ok", "needs-counts_threads": "ok"} | {f"needs-{name}": "failed" for name in broken}
    assert (tmp_path / "seen").read_text() == "1"


@pytest.mark.parametrize("isolation", Isolation)
def test_whoever_imports_ends_with_the_orchestrator(tmp_path: Path, isolation: Isolation) -> None:
    """However long the import takes."""
    running = begin(tmp_path, isolation, "sleeps")
    running.until(lambda: (tmp_path / "run" / "journal.gpj").exists() and importing(running))
    children = running.children()
    running.kill()
    assert psutil.wait_procs(children, timeout=10)[1] == []


def importing(running: Node) -> bool:
    """Whether a child has got as far as its first import ahead: its name is the one that it takes before."""
    return any(name_of(child) in {"gpubench-zygote", "gpubench-worker"} for child in running.children())
