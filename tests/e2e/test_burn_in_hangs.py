"""A burn-in whose worker hangs, or that stands still itself for a while: there is no PASS, and the reason is told."""

import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_burn_in import burn_in, report
from tests.fakes.node import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def hanging(folder: Path, after_s: float) -> str:
    """A PYTHONPATH with which the first worker that makes a product so long after now does not come back from it."""
    injected = folder / "injected"
    injected.mkdir()
    (injected / "sitecustomize.py").write_text(f"""
import os, sys, time
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "worker.verify.watch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def executed(module):
            run(module)
            step = module.Watch.step
            def hang(watch):
                if time.time() > {time.time() + after_s} and watch._stage.phase == "measure":
                    try:
                        os.mkdir({str(folder / "hung")!r})
                    except FileExistsError:
                        return step(watch)
                    while True:
                        time.sleep(1000)
                return step(watch)
            module.Watch.step = hang
        spec.loader.exec_module = executed
        return spec

sys.meta_path.insert(0, Finder())
""")
    return f"{injected}:{ROOT}"


@pytest.mark.parametrize(("duration", "after_s"), [("150s", 15.0), ("90s", 40.0)], ids=["deadline", "time is up"])
def test_a_hung_launch_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, duration: str, after_s: float
) -> None:
    """Ended by its deadline, or with the run when that comes first: exit code 4, and it is named either way."""
    monkeypatch.setenv("PYTHONPATH", hanging(tmp_path, after_s))
    assert burn_in(tmp_path, duration).wait(timeout=300) == 4
    assert (tmp_path / "hung").is_dir()
    gpus = report(tmp_path)["burn_in"]["gpus"]
    (text,) = {one["text"] for gpu in gpus for one in gpu["reasons"] if "deadline" in one["text"]}
    assert "products" in text or "truth" in text


def test_time_in_which_the_orchestrator_stood_still_was_not_served(tmp_path: Path) -> None:
    """Its clock goes on, and no device has anything to do: UNKNOWN, with what was served."""
    running = burn_in(tmp_path, "60s")
    time.sleep(20)
    running.send_signal(signal.SIGSTOP)
    time.sleep(32)
    running.send_signal(signal.SIGCONT)
    assert running.wait(timeout=100) == 4
    for gpu in report(tmp_path)["burn_in"]["gpus"]:
        assert gpu["served_seconds"] < 46
        assert any("at work for" in one["text"] for one in gpu["reasons"])
