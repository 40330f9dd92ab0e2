"""tests/fakes/node.py: a test that fails leaves nothing to the next one."""

from pathlib import Path

from tests.fakes import faults, node


def test_a_run_that_a_failed_test_has_left_is_ended(tmp_path: Path) -> None:
    """Its process and its pipe: what conftest.py calls after each test."""
    left = node.start(tmp_path / "run", faults.model("endless", do="hang"))
    left.until(lambda: left.working("endless"))
    node.end_all()
    assert (left.process.poll(), left.process.stdout.closed) == (-9, True)
