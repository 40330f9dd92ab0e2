"""tests/fakes/node.py: a test that fails leaves nothing to the next one."""

import re
from pathlib import Path

from tests.fakes.commands import python
from tests.fakes.node import ROOT

TWO_TESTS = """
import gc
from pathlib import Path
from tests.fakes import faults, node

def test_that_fails(tmp_path: Path) -> None:
    running = node.start(tmp_path / "run", faults.model("endless", do="hang"))
    running.until(lambda: running.working("endless"))
    print(f"PID {running.process.pid} of the run")
    raise ValueError("the one failure")

def test_that_passes() -> None:
    gc.collect()
"""


def test_a_run_that_a_failed_test_has_left_is_ended(tmp_path: Path) -> None:
    """Its process and its pipe: there is one failure, and no second one in the test after it."""
    file = tmp_path / "test_two.py"
    file.write_text(TWO_TESTS)
    plugins = [word for name in ("cacheprovider", "xdist", "anyio") for word in ("-p", f"no:{name}")]
    options = ("-q", *plugins, "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest")
    told = python("-m", "pytest", *options, "--rootdir", str(tmp_path), str(file), cwd=tmp_path).stdout
    assert "1 failed, 1 passed" in told, told
    assert "the one failure" in told
    (pid,) = re.findall(r"PID (\d+) of the run", told)
    assert not Path(f"/proc/{pid}").exists()
