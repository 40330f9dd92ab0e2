"""What is imported ahead of a launch: by the zygote for all, by a new interpreter for its own cell."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import msgspec
import psutil
import pytest

from orchestrator.config.run_configuration import Isolation
from protocol.cell import ModelSpec
from tests.fakes import faults
from tests.fakes.node import ROOT, Node, name_of

THREADS = """
import os, pathlib
pathlib.Path(os.environ["SEEN"]).write_text(str(len(os.listdir("/proc/self/task"))))
"""


def needing(name: str, module: str, **config: float) -> ModelSpec:
    """A model for which `module` is imported ahead."""
    return msgspec.structs.replace(faults.model(name, **config), preload=(module,))


def node(folder: Path, models: Iterable[ModelSpec], isolation: Isolation, module: str, source: str) -> Node:
    """A run of `models` with a module that Python finds."""
    library = folder / "library"
    library.mkdir()
    (library / f"{module}.py").write_text(source)
    faults.prepare(folder / "run", *models, isolation=isolation)
    path = os.pathsep.join((str(ROOT), str(library)))
    return Node(folder / "run", environment={"PYTHONPATH": path, "SEEN": str(folder / "seen")})


@pytest.mark.parametrize("isolation", Isolation)
def test_all_is_imported_before_there_are_threads(tmp_path: Path, isolation: Isolation) -> None:
    """A launch connects, and so gets threads, only then: libraries lie where they lie in every other launch."""
    running = node(tmp_path, [needing("good", "counts_threads")], isolation, "counts_threads", THREADS)
    assert running.wait() == 0, running.output
    assert (tmp_path / "seen").read_text() == "1"


@pytest.mark.parametrize("source", ["raise RuntimeError('broken')", "raise SystemExit(3)"])
@pytest.mark.parametrize("isolation", Isolation)
def test_what_cannot_be_imported_ahead_disables_its_own_model_alone(
    tmp_path: Path, isolation: Isolation, source: str
) -> None:
    """Also where it asks the process to leave."""
    models = [needing("bad", "cannot"), faults.model("good")]
    running = node(tmp_path, models, isolation, "cannot", source)
    assert running.wait() == 4, running.output
    assert {cell["model_name"]: cell["status"] for cell in running.report()["cells"]} == {"bad": "failed", "good": "ok"}


def test_a_crash_ahead_of_one_launch_leaves_other_models_alone(tmp_path: Path) -> None:
    """A new interpreter imports what its own cell needs."""
    models = [needing("bad", "crashes"), faults.model("good")]
    running = node(tmp_path, models, Isolation.EXEC, "crashes", "import ctypes; ctypes.string_at(1)")
    assert running.wait() == 4, running.output
    assert {cell["model_name"]: cell["status"] for cell in running.report()["cells"]} == {"bad": "failed", "good": "ok"}
    assert "killed by SIGSEGV" in running.output


@pytest.mark.parametrize("isolation", Isolation)
def test_whoever_imports_ends_with_the_orchestrator(tmp_path: Path, isolation: Isolation) -> None:
    """However long the import takes."""
    running = node(tmp_path, [needing("slow", "sleeps")], isolation, "sleeps", "import time; time.sleep(300)")
    running.until(lambda: (tmp_path / "run" / "journal.gpj").exists() and importing(running))
    children = running.children()
    running.kill(signal.SIGKILL)
    running.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def importing(running: Node) -> bool:
    """Whether a child has got as far as its first import ahead: its name is the one that it takes before."""
    return any(name_of(child) in {"gpubench-zygote", "gpubench-worker"} for child in running.children())
