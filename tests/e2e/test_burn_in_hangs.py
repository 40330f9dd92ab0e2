"""A burn-in whose worker hangs or is stopped, or that stands still itself: no PASS, and the reason is told."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_burn_in import burn_in, report
from tests.fakes.node import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


FOR_EVER = "while True: time.sleep(1000)"
UNTIL_CONTINUED = "os.kill(os.getpid(), signal.SIGSTOP)"


def hanging(folder: Path, after_s: float, how: str = FOR_EVER) -> str:
    """A PYTHONPATH with which the first worker that makes a product so long after now hangs in it like this.

    Its PID is the name of a file in the folder "hung".
    """
    injected = folder / "injected"
    injected.mkdir()
    (injected / "sitecustomize.py").write_text(f"""
import os, signal, sys, time
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
                    open({str(folder / "hung")!r} + "/" + str(os.getpid()), "w").close()
                    {how}
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
    texts = {one["text"] for gpu in gpus for one in gpu["reasons"] if "deadline" in one["text"]}
    assert any(text.startswith("a launch has no result: ") for text in texts)
    assert all("products" in text or "truth" in text for text in texts)


def test_time_in_which_the_orchestrator_stood_still_was_not_served(tmp_path: Path) -> None:
    """Its clock goes on, and no device has anything to do: UNKNOWN, though no gap is longer than a start may be."""
    running = burn_in(tmp_path, "60s")
    time.sleep(18)
    for still_s, then_s in ((17, 6), (9, 0)):
        running.send_signal(signal.SIGSTOP)
        time.sleep(still_s)
        running.send_signal(signal.SIGCONT)
        time.sleep(then_s)
    assert running.wait(timeout=100) == 4
    for gpu in report(tmp_path)["burn_in"]["gpus"]:
        assert gpu["served_seconds"] < 54 - 17 - 9 + 3
        assert any("the orchestrator stood still" in one["text"] for one in gpu["reasons"])


def test_time_in_which_a_worker_was_stopped_is_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGSTOP in the middle of its cell, SIGCONT later: it has a result, and its device was idle for so long."""
    monkeypatch.setenv("PYTHONPATH", hanging(tmp_path, 20.0, UNTIL_CONTINUED))
    running = burn_in(tmp_path, "75s")
    until = time.monotonic() + 70
    while not list((tmp_path / "hung").glob("*")) and time.monotonic() < until:
        time.sleep(0.1)
    (stopped,) = (tmp_path / "hung").iterdir()
    time.sleep(22)
    os.kill(int(stopped.name), signal.SIGCONT)
    assert running.wait(timeout=100) == 4
    idle = min(report(tmp_path)["burn_in"]["gpus"], key=lambda gpu: float(gpu["served_seconds"]))
    assert idle["served_seconds"] < 75 - 20
    assert any("at work for" in one["text"] for one in idle["reasons"])
    for check in idle["checks"]:
        if check["check"] in {"soak", "truth"}:  # of which one was stopped; their cells last a second
            assert check["measured_seconds"] < 5 * check["launches"]
