"""The socket of the workers, deleted from outside while a run goes on: by a cleaner of temporary files, say."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store.journal_records import End, Finished
from protocol.failure import Category
from tests.fakes import faults
from tests.fakes.node import Node, start


@pytest.fixture
def runtime() -> Iterator[Path]:
    """An XDG_RUNTIME_DIR: short, because a socket's path may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gb-", dir="/tmp") as folder:
        yield Path(folder)


def begun(tmp_path: Path, runtime: Path) -> tuple[Node, Path]:
    """A run of four cells, one of which is measured, and the folder of its socket."""
    models = [faults.model(f"m{number}", seconds=0.3) for number in range(4)]
    node = start(tmp_path / "run", *models, environment={"XDG_RUNTIME_DIR": str(runtime)})
    node.until(lambda: bool(node.of(End)))
    (folder,) = (runtime / f"gpubench-{os.getuid()}").glob("run-*")
    return node, folder


@pytest.mark.parametrize("what", ["socket", "runtime"])
def test_a_deleted_socket_is_made_again(tmp_path: Path, runtime: Path, what: str) -> None:
    """No cell is lost, the log names the cause, and the launch that is just starting is the only one to start again."""
    node, folder = begun(tmp_path, runtime)
    if what == "socket":
        (folder / "link").unlink()
    else:
        shutil.rmtree(runtime)
    report = node.ended()
    runtime.mkdir(exist_ok=True)
    failures = [end.failure for end in node.of(End) if end.failure is not None]
    assert [failure.category for failure in failures] in ([], [Category.START_FAILED])
    assert report["summary"]["cells"]["ok"] == 4
    assert re.search(f"{folder}.*deleted", node.output)


def test_a_socket_that_cannot_be_made_again_ends_the_run_with_a_report(tmp_path: Path, runtime: Path) -> None:
    """Exit code 5 with the cause, in the journal too; what was measured is in the report, and nothing is waited for."""
    node, folder = begun(tmp_path, runtime)
    shutil.rmtree(folder.parent)
    folder.parent.mkdir()
    folder.parent.chmod(0o777)
    report = node.ended(5, timeout_s=20)
    assert "Traceback" not in node.output
    (finished,) = node.of(Finished)
    assert finished.broken
    assert "private folder" in finished.reason
    assert 1 <= report["summary"]["cells"]["ok"] < 4
