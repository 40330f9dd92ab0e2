"""Halts of a run: of its orchestrator alone, for longer than any deadline, of a worker alone, and of everything."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state.stopping import OUT_OF_TIME
from orchestrator.state.time_budget import CLOSING_S
from orchestrator.store.journal_records import ClockSet, Segment, Spawned, Start, Suspension
from protocol.cell import Scalar
from protocol.failure import Category, Phase
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
    (told,) = node.of(Suspension)
    assert HALTED_S - 0.2 <= told.seconds < HALTED_S + 3
    assert node.of(ClockSet) == []
    words = f" for {told.seconds:.0f} s (SIGSTOP, "
    assert words in node.output
    assert [segment["suspended_seconds"] for segment in report["metadata"]["segments"]] == [[told.seconds]]
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
        (Phase.MEASURE, "", {"seconds": LASTS_S}),
    ],
    ids=["the zygote imports", "import", "measure"],
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
def test_a_time_limit_goes_on_while_the_orchestrator_does_not(tmp_path: Path) -> None:
    """Nobody could end the launch in time; it is ended as soon as somebody can, and its end is waited for."""
    model = faults.model("one", seconds=LASTS_S + 3.0)
    node = start(tmp_path / "run", model, time_limit_s=CLOSING_S + 6.0)  # a start takes seconds beside other tests
    node.until(lambda: entered(node.paths) == Phase.MEASURE)
    halt(node, HALTED_S + 3.0)
    node.wait()
    (attempt,) = node.archive().attempts
    assert attempt.failure is not None, "it was measured"
    assert attempt.failure.message == OUT_OF_TIME
    assert node.report()["metadata"]["segments"][0]["suspended_seconds"]


CGROUPS = (
    (Path("/sys/fs/cgroup/freezer"), "freezer.state", "FROZEN", "THAWED"),
    (Path("/sys/fs/cgroup"), "cgroup.freeze", "1", "0"),
)
"""Where processes can be frozen, by the first and the second version of cgroups."""


@contextmanager
def frozen(node: Node) -> Iterator[None]:
    """Freeze every process of a run, as `docker pause` does: no process of it sees a signal."""
    processes = [node.process.pid, *(child.pid for child in node.children())]
    for root, name, freeze, thaw in CGROUPS:
        group = root / f"gpubench-test-{node.process.pid}"
        try:
            group.mkdir()
        except OSError:
            continue
        if not (group / name).exists():
            group.rmdir()
            continue
        for pid in processes:
            (group / "cgroup.procs").write_text(str(pid))
        (group / name).write_text(freeze)
        try:
            yield
        finally:
            (group / name).write_text(thaw)
            for pid in (group / "cgroup.procs").read_text().split():
                (root / "cgroup.procs").write_text(pid)
            group.rmdir()
        return
    pytest.skip("no process can be frozen here (no cgroup can be made)")


@contextmanager
def stopped(*processes: int) -> Iterator[None]:
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in processes:
            os.kill(pid, number)
        if number is signal.SIGSTOP:
            yield


def signalled(node: Node) -> AbstractContextManager[None]:
    return stopped(node.process.pid, *(child.pid for child in node.children()))


@pytest.mark.parametrize(("how", "seconds"), [(frozen, 3.0), (signalled, 3.0), (frozen, 1.2)])
def test_a_launch_that_is_halted_while_it_measures_is_measured_again(
    tmp_path: Path, how: Callable[[Node], AbstractContextManager[None]], seconds: float
) -> None:
    """With everything else: its result, which tells of the halt alone, is taken back, and the next one counts."""
    node = start(tmp_path / "run", faults.model("one", seconds=1.5))
    node.until(lambda: entered(node.paths) == Phase.MEASURE)
    time.sleep(0.3)
    with how(node):
        time.sleep(seconds)
    report = node.ended()
    first, second = node.archive().attempts
    assert first.promised is None
    assert first.failure is not None
    assert (first.failure.category, first.failure.phase) == (Category.HALTED, Phase.MEASURE)
    assert second.promised is not None, second.failure
    assert [cell["status"] for cell in report["cells"]] == ["ok"]


def measures(node: Node, number: int) -> bool:
    """Whether this launch, from 0, is in the phase that is measured."""
    starts = node.of(Start)
    if len(starts) <= number or len(node.of(Spawned)) <= number:
        return False
    phase = node.paths.launch(starts[number].cell, starts[number].attempt).phase
    return phase.exists() and phase.read_text() == Phase.MEASURE


def test_a_launch_that_is_halted_each_time_has_failed(tmp_path: Path) -> None:
    """By itself alone, three times, then the cell is given up: a result is never believed, and a run always ends."""
    node = start(tmp_path / "run", faults.model("one", seconds=1.0))
    for number in range(3):
        node.until(partial(measures, node, number))
        with stopped(node.of(Spawned)[number].pid):
            time.sleep(0.1)
    report = node.ended(4)
    assert [one.failure and one.failure.category for one in node.archive().attempts] == [Category.HALTED] * 3
    assert [cell["status"] for cell in report["cells"]] == ["failed"]


def test_a_halt_before_the_warm_up_costs_nothing(tmp_path: Path) -> None:
    """A worker that was stopped while it built its model has measured nothing meanwhile."""
    model = faults.model("one", seconds=0.5, do="leave an orphan", **{"in": "build", "after": 1.0})
    node = start(tmp_path / "run", model)
    node.until(lambda: entered(node.paths) == Phase.BUILD)
    with stopped(node.worker("one").pid):
        time.sleep(0.2)
    node.ended()
    assert [one.failure for one in node.archive().attempts] == [None]
