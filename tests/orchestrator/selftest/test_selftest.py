"""What a self-test makes of an account: right rows, each way to be wrong, exit codes, what is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis.outcomes import Status
from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.engine.launches.link import Link
from orchestrator.selftest import Outcome, Row, campaign, leftovers
from orchestrator.selftest.faults import FAULTS, Done, Fault
from orchestrator.selftest.judge import Account, NamedFailure, Try, judge
from orchestrator.selftest.log_watch import Seen, Watch
from orchestrator.selftest.table import as_builtins, details, rows
from orchestrator.system.log_files import CAP_BYTES
from protocol.cell import Device, DeviceKind
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Phase
from protocol.paths import RunPaths
from tests.fakes.runs import cpus, gpus
from worker.workloads import fault as worker_faults

KILL = next(fault for fault in FAULTS if fault.expected.category is Category.KILLED)
FAILED = Try(
    batch_size=1,
    category="killed, cause unknown",
    message="killed by SIGKILL, cause unknown",
    signal="SIGKILL",
    injected=True,
    seconds=1.0,
    output_bytes=0,
    phase="measure",
)


def said(status: Status, tries: tuple[Try, ...], *, taken_out: str = "", skipped: bool = False) -> Account:
    """An account whose report says what the journal does."""
    told = tuple(NamedFailure(one.category, one.message, one.phase) for one in tries if one.category is not None)
    return Account(status=status, tries=tries, reported=told, taken_out=taken_out, skipped=skipped)


RIGHT = said(Status.FAILED, (FAILED, msgspec.structs.replace(FAILED, seconds=1.5)))
TOLD = RIGHT.reported[0]


def account(
    status: Status = Status.FAILED, *, taken_out: str = "", skipped: bool = False, **changes: object
) -> Account:
    """The right account of KILL, with its second try changed."""
    second = msgspec.structs.replace(FAILED, **changes)
    return said(status, (FAILED, second), taken_out=taken_out, skipped=skipped)


def test_what_is_as_expected_is_right() -> None:
    """Nothing is wrong, and the slowest verdict counts."""
    assert judge(KILL.expected, RIGHT) == ()
    assert RIGHT.seconds == 1.5


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (said(Status.MISSING, ()), "it was never tried"),
        (account(injected=False), "it did not happen in every process"),
        (
            account(category="crashed"),
            "category: expected killed, cause unknown, not killed, cause unknown and crashed",
        ),
        (account(signal="SIGTERM"), "ended by: expected SIGKILL, not SIGKILL and SIGTERM"),
        (said(Status.FAILED, (FAILED,) * 3), "tries: expected 2, not 3"),
        (account(batch_size=2), "expected to be tried again, not half the batch"),
        (account(skipped=True), "expected to be tried again, not model skipped"),
        (account(taken_out="it is lost"), "expected to be tried again, not device taken out (it is lost)"),
        (account(Status.OK), "status: expected failed, not ok"),
        (account(output_bytes=CAP_BYTES + 1), f"output: {CAP_BYTES + 1} bytes were kept, and {CAP_BYTES} are the most"),
        (account(phase="warm-up"), "phase: expected measure, not measure and warm-up"),
        (account(message="?"), 'message: expected one with "killed by SIGKILL", not "?"'),
        (
            account(printed_bytes=CAP_BYTES, disk_bytes=2 * CAP_BYTES),
            f"output: its log took {2 * CAP_BYTES} bytes of the disk while it ran, of {CAP_BYTES} printed",
        ),
    ],
)
def test_each_deviation_is_told(found: Account, words: str) -> None:
    """One thing is otherwise than expected, and one sentence says which."""
    assert judge(KILL.expected, found) == (words,)


WRITTEN = 'and the journal killed, cause unknown in measure: "killed by SIGKILL, cause unknown"'


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (
            (TOLD, msgspec.structs.replace(TOLD, category="exception")),
            f'report: it says exception in measure: "killed by SIGKILL, cause unknown", {WRITTEN}',
        ),
        (
            (msgspec.structs.replace(TOLD, message="?"), TOLD),
            f'report: it says killed, cause unknown in measure: "?", {WRITTEN}',
        ),
        (
            (TOLD, msgspec.structs.replace(TOLD, phase="build")),
            f'report: it says killed, cause unknown in build: "killed by SIGKILL, cause unknown", {WRITTEN}',
        ),
        ((TOLD,), "report: 1 failures, and 2 in the journal"),
    ],
)
def test_a_report_that_says_otherwise_than_the_journal_is_wrong(reported: tuple[NamedFailure, ...], words: str) -> None:
    """Category, message and phase of each failure, and none is left out."""
    assert judge(KILL.expected, msgspec.structs.replace(RIGHT, reported=reported)) == (words,)


def test_a_fault_that_is_not_noticed_is_wrong() -> None:
    """A result where there should be none is told as nothing said."""
    missed = msgspec.structs.replace(FAILED, category=None, signal=None)
    wrong = judge(KILL.expected, said(Status.OK, (missed,)))
    assert "category: expected killed, cause unknown, not nothing" in wrong
    assert "status: expected failed, not ok" in wrong


HANG = next(fault for fault in FAULTS if fault.expected.prints)
HUNG = Try(
    batch_size=1,
    category="deadline exceeded",
    message="the phase 'warm-up' took longer than 2 s",
    signal="SIGTERM",
    injected=True,
    seconds=2.0,
    phase="warm-up",
    stacks=True,
    output_bytes=4_000_000,
    printed_bytes=4_600_000_000,
    disk_bytes=200_000_000,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ()),
        ({"stacks": False}, ("its stacks are not in fault.log",)),
        ({"output_bytes": 4}, ("output: 4 bytes were kept of what has no end, and 65536 are the least",)),
        (
            {"disk_bytes": 4_600_000_000},
            ("output: its log took 4600000000 bytes of the disk while it ran, of 4600000000 printed",),
        ),
        ({"printed_bytes": 9_000_000, "disk_bytes": 9_000_000}, ()),
    ],
)
def test_endless_output_leaves_its_stacks_and_some_of_it_and_is_held(
    changes: dict[str, object], words: tuple[str, ...]
) -> None:
    """What is printed between two looks at the log is no fault, however quick the disk; that nothing was cut is one."""
    assert judge(HANG.expected, said(Status.FAILED, (msgspec.structs.replace(HUNG, **changes),))) == words


def test_stacks_and_output_are_asked_of_some_faults_alone() -> None:
    """Of hangs and crashes; who is stopped or killed cannot leave any."""
    asked = {fault.name for fault in FAULTS if fault.expected.stacks}
    deaf = "freeze, deaf to SIGTERM"
    assert asked == {deaf, "freeze, holding the GIL", "endless output", "segfault", "abort", "endless kernel"}
    assert [fault.name for fault in FAULTS if fault.expected.prints] == ["endless output"]
    assert all(fault.expected.says for fault in FAULTS)
    for fault in FAULTS:
        assert fault.expected.phase == fault.config.get("in", Phase.WARM_UP)


class Shown:
    """A display that keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def show(self, snapshot: Snapshot) -> None:
        """Keep it."""
        self.given.append(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        """Keep it."""
        self.given.append(event)

    def close(self) -> None:
        """Keep that too."""
        self.given.append("closed")


def test_a_log_is_looked_at_while_its_launch_runs_and_when_it_is_over(tmp_path: Path) -> None:
    """The largest size counts, that on the disk apart from the length; everything is handed on to the display."""
    shown, paths = Shown(), RunPaths(tmp_path)
    watch = Watch(shown, paths)
    idle = DeviceLine(uuid="cpu:1", label="cpu:1", name="")
    line = DeviceLine(uuid="cpu:0", label="cpu:0", name="", cell="a", cell_id="a", attempt=2)
    now = Snapshot(devices=(idle, line), done=0, total=1, share=0.0, failed=0, elapsed_s=1.0, eta_s=None)
    over = CellEnded(label="cpu:0", cell="a", batch_size=1, attempt=2, summary="", cell_id="a")
    log = paths.launch("a", 2).stdout
    watch.show(now)
    assert watch.seen(log) == Seen()
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 100_000)
    watch.show(now)
    blocks = log.stat().st_blocks * 512
    assert watch.seen(log) == Seen(printed_bytes=100_000, disk_bytes=blocks)
    os.truncate(log, 0)
    os.truncate(log, 5_000_000)  # a hole takes nothing of the disk
    watch.tell(over)
    assert watch.seen(log) == Seen(printed_bytes=5_000_000, disk_bytes=blocks)
    os.truncate(log, 10)
    watch.tell(over)
    assert watch.seen(log) == Seen(printed_bytes=5_000_000, disk_bytes=blocks)
    watch.tell(Notice(level="info", message="m"))
    watch.close()
    assert shown.given == [now, now, over, over, Notice(level="info", message="m"), "closed"]


def test_programs_read_what_is_asked_and_what_was_said() -> None:
    """Phases, the message and the stacks too."""
    (row,) = as_builtins(outcome(RIGHT))["faults"]
    asked = {key: row["expected"][key] for key in ("phase", "message", "stacks", "output")}
    assert asked == {"phase": "measure", "message": "killed by SIGKILL", "stacks": False, "output": False}
    found = {key: row["said"][key] for key in ("phases", "stacks", "output_bytes", "log_disk_bytes")}
    assert found == {"phases": ["measure"], "stacks": False, "output_bytes": 0, "log_disk_bytes": 0}


def outcome(*accounts: Account, left_behind: tuple[str, ...] = (), interrupted: bool = False) -> Outcome:
    """A self-test of so many kills, each on a device of its own."""
    _, injections = campaign.prepare((KILL,), cpus(len(accounts)), Path("run"), Path("told"), ())
    found = tuple(
        Row(injection=one, account=account, wrong=judge(KILL.expected, account))
        for one, account in zip(injections, accounts, strict=True)
    )
    return Outcome(rows=found, left_behind=left_behind, interrupted=interrupted, seconds=3.0, folder=None)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (outcome(RIGHT, RIGHT), ExitCode.PASSED),
        (outcome(RIGHT, account(Status.OK)), ExitCode.INTERNAL),
        (outcome(RIGHT, left_behind=("a socket",)), ExitCode.INTERNAL),
        (outcome(RIGHT, interrupted=True), ExitCode.INCOMPLETE),
        (outcome(account(Status.OK), interrupted=True), ExitCode.INCOMPLETE),
        (outcome(RIGHT, left_behind=("a socket",), interrupted=True), ExitCode.INTERNAL),
    ],
)
def test_exit_codes(found: Outcome, code: ExitCode) -> None:
    """One wrong row, or anything left behind, is 5; what a person has ended is never 0."""
    assert found.exit_code is code


def test_the_table_tells_devices_apart_and_ends_with_what_is_wrong() -> None:
    """With several devices each line names its own; below stand the reasons, and the sum."""
    found = outcome(RIGHT, account(Status.OK), left_behind=("the process 7 (sleep)",))
    assert [(line[0], line[-2], line[-1]) for line in rows(found)] == [
        ("kill (SIGKILL) on cpu:0", "1.5 s", "right"),
        ("kill (SIGKILL) on cpu:1", "1.0 s", "WRONG"),
    ]
    assert list(details(found)) == [
        "kill (SIGKILL) on cpu:1: status: expected failed, not ok",
        "left behind: the process 7 (sleep)",
        "",
        "1 of 2 faults named and handled right, 1 thing left behind, 3 s.",
    ]


@pytest.mark.parametrize("devices", [cpus(1), cpus(2), gpus(3), (*gpus(1), *cpus(1))])
def test_every_device_gets_every_fault_it_can_have(devices: tuple[Device, ...]) -> None:
    """Each in a cell of its own with a model of its own, and each device begins with another one."""
    stored, injections = campaign.prepare(FAULTS, devices, Path("run"), Path("told"), ())
    assert [(one.device, one.fault.name) for one in injections if one.device.kind not in one.fault.kinds] == []
    for device in devices:
        mine = [one.fault.name for one in injections if one.device == device]
        assert sorted(mine) == sorted(fault.name for fault in FAULTS if device.kind in fault.kinds)
        assert len(stored.plan.order[device.uuid]) == len(mine)
    cells = [one.cell for one in injections]
    assert len({cell.id for cell in cells}) == len({cell.model for cell in cells}) == len(cells)
    assert stored.configuration.by_name.keys() == {cell.model for cell in cells}
    assert stored.configuration.tainted
    first = [next(one.fault.name for one in injections if one.device == device) for device in devices]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_worker_knows_every_fault(fault: Fault) -> None:
    """Its key is one of worker/workloads/fault.py; torch is loaded for those alone that need a GPU."""
    assert fault.do in worker_faults.FAULTS
    assert bool(fault.preload) == (fault.kinds == {DeviceKind.CUDA}) == (fault.do in worker_faults._ON_A_GPU)
    assert (fault.expected.done is Done.HALVED) == (fault.batch_size > 1)


def test_what_is_left_behind_is_found(tmp_path: Path) -> None:
    """Its processes, also one that is no child of ours, its sockets, temporary files; nothing when they are gone."""
    paths = RunPaths(tmp_path / "20260401-213000-1f2e3d")
    paths.folder.mkdir()
    before = {*leftovers.find(paths)}  # the browser of other tests, which is a child of this process for all of them
    assert all(words.startswith("the process ") for words in before)
    temporary = paths.folder / "half.tmp"
    temporary.touch()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begin = f"sleep 600 > {paths.log('stray')} & echo $!"
    orphan = int(subprocess.run(["sh", "-c", begin], check=True, stdout=subprocess.PIPE).stdout)
    try:
        with Link(paths.folder.name):
            *processes, socket, file = (words for words in leftovers.find(paths) if words not in before)
    finally:
        child.communicate()
        os.kill(orphan, signal.SIGKILL)
    assert sorted(words.split()[2] for words in processes) == sorted((str(child.pid), str(orphan)))
    assert socket.startswith("the socket folder ")
    assert socket.endswith(f"{paths.folder.name}-{os.getpid()}")
    assert file == f"the temporary file {temporary}"
    temporary.unlink()
    assert [words for words in leftovers.find(paths) if str(orphan) not in words and words not in before] == []
