"""A burn-in whose worker hangs or is stopped, or that stands still itself: no PASS, and the reason is told."""

import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_burn_in import burn_in, report
from tests.fakes.injection import inject

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(400)]


FOR_EVER = "while True: time.sleep(1000)"
UNTIL_CONTINUED = "os.kill(os.getpid(), signal.SIGSTOP)"


HANGING = """
import os, signal, sys, time
if {hangs_s} and "orchestrator" in sys.orig_argv:
    from orchestrator.kinds.burn_in import kind
    kind.HANGS_S = {hangs_s}
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
                if time.time() > {when} and watch._stage.phase == "measure":
                    try:
                        os.mkdir({hung!r})
                    except FileExistsError:
                        return step(watch)
                    open({hung!r} + "/" + str(os.getpid()), "w").close()
                    {how}
                return step(watch)
            module.Watch.step = hang
        spec.loader.exec_module = executed
        return spec

sys.meta_path.insert(0, Finder())
"""


def hanging(folder: Path, after_s: float, how: str = FOR_EVER, hangs_s: float = 0.0) -> dict[str, str]:
    """The first worker that makes a product so long from now hangs, its PID in "hung". hangs_s: the patience."""
    when, hung = time.time() + after_s, str(folder / "hung")
    code = HANGING.format(when=when, hung=hung, how=how, hangs_s=hangs_s)
    return inject(folder / "injected", code)


@pytest.mark.parametrize(
    ("duration", "after_s", "hangs_s"), [("50s", 15.0, 10.0), ("70s", 15.0, 0.0)], ids=["deadline", "time is up"]
)
def test_a_hung_launch_is_no_pass(tmp_path: Path, duration: str, after_s: float, hangs_s: float) -> None:
    """Ended by its deadline, or with the run when that comes first: exit code 4, and it is named either way."""
    assert burn_in(tmp_path, duration, **hanging(tmp_path, after_s, hangs_s=hangs_s)).wait(timeout=300) == 4
    assert (tmp_path / "hung").is_dir()
    gpus = report(tmp_path)["burn_in"]["gpus"]
    texts = {one["text"] for gpu in gpus for one in gpu["reasons"] if "deadline" in one["text"]}
    assert any("no result: " in text for text in texts)
    assert all("products" in text or "truth" in text for text in texts)


def test_time_in_which_the_orchestrator_was_suspended_was_not_served(tmp_path: Path) -> None:
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
        assert gpu["served_seconds"] < 60 - 17 - 9 + 3  # a launch goes on for a moment
        assert any("orchestrator was" in one["text"] for one in gpu["reasons"])
