"""An orchestrator that is stopped by SIGSTOP for longer than the deadline of what it waits for, and then goes on."""

import os
import signal
import time
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state.stopping import OUT_OF_TIME
from orchestrator.state.time_budget import CLOSING_S
from orchestrator.store.records import ClockSet, Segment, Start, StoodStill
from protocol.cell import Scalar
from protocol.failure import Phase
from protocol.messages import Deadlines
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.injection import inject
from tests.fakes.node import Node, start

ALLOWED_S = 3.0
HALTED_S = 4.0
"""Longer than any deadline here."""
LASTS_S = 5.5
"""What a phase takes that is still under way when the orchestrator goes on."""
HALF_S = 1.5
DEADLINES = Deadlines(
    start=HALF_S, import_=ALLOWED_S, build=ALLOWED_S, warm_up=ALLOWED_S, measure=ALLOWED_S, finish=ALLOWED_S
)
SHORT_START = Deadlines(start=HALF_S, import_=HALF_S, build=20, warm_up=20, measure=20, finish=20)
SLOW_IMPORT = """
import importlib, time
_real = importlib.import_module
def _slowly(name, package=None):
    with open("/proc/self/comm") as file:
        is_zygote = file.read().strip() == "gpubench-zygote"
    if name == "worker.workloads.fault" and not is_zygote:
        time.sleep({seconds})
    return _real(name, package)
importlib.import_module = _slowly
"""
SLOW_ZYGOTE = """
import sys, time
if "worker.zygote" in sys.orig_argv:
    time.sleep({seconds})
"""


def halt(node: Node, seconds: float = HALTED_S) -> None:
    node.kill(signal.SIGSTOP)
    os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WNOWAIT)
    time.sleep(seconds)
    node.kill(signal.SIGCONT)


def entered(paths: RunPaths) -> str:
    """The phase that the launch has entered last, by its own word; empty before the first."""
    found = list(paths.launches.rglob("phase"))
    return found[0].read_text() if found else ""


def require_told(node: Node) -> None:
    """The cell was measured at the first attempt; journal, log and report say for how long nobody supervised it."""
    report = node.ended()
    (attempt,) = node.archive().attempts
    assert attempt.promised is not None, attempt.failure
    (told,) = node.of(StoodStill)
    assert HALTED_S - 0.2 <= told.seconds < HALTED_S + 3
    assert node.of(ClockSet) == []
    words = f" for {told.seconds:.0f} s (stopped by SIGSTOP, "
    assert words in node.output
    assert [segment["stood_still_seconds"] for segment in report["metadata"]["segments"]] == [[told.seconds]]
    assert words in " ".join(node.paths.report("txt").read_text().split())


def test_a_halt_while_a_launch_starts_costs_nothing(tmp_path: Path) -> None:
    """Nobody answers its first word in time, because nobody can: it gets its work when somebody can again."""
    node = start(tmp_path / "run", faults.model("one"), isolation=Isolation.EXEC, deadlines=SHORT_START)
    node.until(lambda: bool(node.of(Start)))
    halt(node)
    assert entered(node.paths) in {"", Phase.IMPORT, Phase.BUILD}, "it was halted too late to show anything"
    require_told(node)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "code", "config"),
    [
        (None, SLOW_ZYGOTE, {}),
        (Phase.IMPORT, SLOW_IMPORT, {}),
        (Phase.BUILD, "", {"do": "leave an orphan", "in": "build", "after": LASTS_S}),
        (Phase.MEASURE, "", {"seconds": LASTS_S}),
    ],
    ids=["the zygote imports", "import", "build", "measure"],
)
def test_a_halt_while_others_work_costs_nothing(
    tmp_path: Path, phase: Phase | None, code: str, config: dict[str, Scalar]
) -> None:
    """Zygote or launch is still at it when the orchestrator goes on, and has as much time left as before."""
    deadlines = SHORT_START if phase is None else DEADLINES
    environment = inject(tmp_path / "injected", code.format(seconds=LASTS_S))
    node = start(tmp_path / "run", faults.model("one", **config), deadlines=deadlines, environment=environment)
    node.until(lambda: bool(node.of(Segment)) and (phase is None or entered(node.paths) == phase))
    time.sleep(0.3)  # it has reported that, too
    halt(node)
    require_told(node)


@pytest.mark.slow
@pytest.mark.parametrize("halted_s", [HALTED_S, 9.0])
def test_a_time_limit_goes_on_while_the_orchestrator_does_not(tmp_path: Path, halted_s: float) -> None:
    """Nobody could end the launch in time; it is ended as soon as somebody can, and its end is waited for."""
    model = faults.model("one", seconds=halted_s + LASTS_S - HALTED_S)
    node = start(tmp_path / "run", model, time_limit_s=CLOSING_S + 3.0)
    node.until(lambda: entered(node.paths) == Phase.MEASURE)
    halt(node, halted_s)
    node.wait()
    (attempt,) = node.archive().attempts
    assert attempt.failure is not None, "it was measured"
    assert attempt.failure.message == OUT_OF_TIME
    assert node.report()["metadata"]["segments"][0]["stood_still_seconds"]
