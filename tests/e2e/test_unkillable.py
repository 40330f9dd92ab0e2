"""A worker that no signal ends, as one that waits in the driver for ever: the kernel is made to look like that."""

from pathlib import Path

from orchestrator.store.journal_records import Quarantine
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.injection import inject
from tests.fakes.node import start

SHORT = Deadlines(start=20, import_=20, build=20, warm_up=0.6, measure=20, finish=20)
INJECTED = """
import sys
if "resume" in sys.orig_argv:
    from pathlib import Path
    from orchestrator.system import host
    from orchestrator.engine.launches import lifecycle
    from orchestrator.system import process_end
    lifecycle.TERM_GRACE_S, lifecycle.UNKILLABLE_S = 0.5, 1.0
    process_end.signal_group = lambda pid, number: None
    process_end.signal_quietly = lambda pid, number: None
    host._PROC = Path({proc!r})
"""


def test_a_worker_that_cannot_be_killed_costs_its_device_alone(tmp_path: Path) -> None:
    """It is named with its state, its device is left alone from then on, and the other device measures everything."""
    proc = tmp_path / "proc"
    bad = faults.model("bad", do="hang, deaf to SIGTERM", on="cpu:0")
    injected = inject(tmp_path / "injected", INJECTED.format(proc=str(proc)))
    node = start(tmp_path / "run", bad, faults.model("good"), devices=2, deadlines=SHORT, environment=injected)
    hanging = "bad-fault-fp32-b1-cpu-0"
    node.until(lambda: node.working(hanging))
    pid = node.worker(hanging).pid  # as the journal has it: it is nobody's child yet while the process between is there
    state = proc / str(pid)
    state.mkdir(parents=True)
    (state / "status").write_text("State:\tD (disk sleep)\n")
    (state / "stat").write_text(f"{pid} (python) D {' '.join(['0'] * 40)}\n")
    (failure,) = [one for one in node.ended(4)["failures"] if one["gpu_id"] == 0]
    assert failure["category"] == Category.UNKILLABLE
    assert failure["evidence"]["state"].startswith("D (disk sleep)")
    assert [one.device for one in node.of(Quarantine)] == ["cpu:0"]
    assert sum(one.promised is not None for one in node.archive().attempts if one.start.device == "cpu:1") == 2
