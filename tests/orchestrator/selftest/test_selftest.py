"""The judgement of a self-test: right rows, each way to be wrong, exit codes, and leftovers."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.engine.launches.link import Link
from orchestrator.figures.cells import Status
from orchestrator.selftest import Outcome, Row, accounts, campaign
from orchestrator.selftest.accounts import Seen, Watch
from orchestrator.selftest.faults import FAULTS, Done, Fault
from orchestrator.selftest.judge import Account, NamedFailure, Try, judge
from orchestrator.selftest.table import as_builtins, details, rows
from orchestrator.system.log_files import CAP_BYTES
from protocol.cell import Device, DeviceKind
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Phase
from protocol.paths import RunPaths
from tests.fakes.displays import RecordingDisplay
from tests.fakes.runs import cpus, gpus
from worker.workloads import fault as worker_faults

KILL = next(fault for fault in FAULTS if fault.expected.category is Category.KILLED)
FAILED = Try(
    batch_size=1,
    category="killed, cause unknown",
    message="killed by SIGKILL",
    signal="SIGKILL",
    injected=True,
    seconds=1.0,
    output_bytes=0,
    phase="measure",
)


def consistent_account(
    status: Status, tries: tuple[Try, ...], *, quarantined: str = "", skipped: bool = False
) -> Account:
    """Return an account whose report agrees with its journal."""
    reported = tuple(NamedFailure(one.category, one.message, one.phase) for one in tries if one.category is not None)
    return Account(status=status, tries=tries, reported=reported, quarantined=quarantined, skipped=skipped)


RIGHT = consistent_account(Status.FAILED, (FAILED, msgspec.structs.replace(FAILED, seconds=1.5)))
TOLD = RIGHT.reported[0]


def account(
    status: Status = Status.FAILED, *, quarantined: str = "", skipped: bool = False, **changes: object
) -> Account:
    """The right account of KILL, with its second try changed."""
    second = msgspec.structs.replace(FAILED, **changes)
    return consistent_account(status, (FAILED, second), quarantined=quarantined, skipped=skipped)


def reporting(*failures: NamedFailure) -> Account:
    """The right account of KILL, with another report."""
    return msgspec.structs.replace(RIGHT, reported=failures)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (consistent_account(Status.MISSING, ()), "never"),
        (account(injected=False), "every process"),
        (account(category="crashed"), "^category: .*killed, cause unknown.*crashed"),
        (account(signal="SIGTERM"), "ended by: .*SIGKILL.*SIGTERM"),
        (consistent_account(Status.FAILED, (FAILED,) * 3), "^tries: .*2.*3"),
        (account(batch_size=2), "half the batch"),
        (account(skipped=True), "model skipped"),
        (account(quarantined="it is lost"), "it is lost"),
        (account(Status.OK), "^status: .*failed.*ok"),
        (account(output_bytes=CAP_BYTES + 1), f"^output: {CAP_BYTES + 1} bytes.*{CAP_BYTES}"),
        (account(phase="warm-up"), "^phase: .*measure.*warm-up"),
        (account(message="?"), r'^message: .*"killed by SIGKILL".*"\?"'),
        (account(printed_bytes=CAP_BYTES, disk_bytes=2 * CAP_BYTES), f"^output: .*{2 * CAP_BYTES} bytes.*{CAP_BYTES}"),
        (reporting(TOLD, msgspec.structs.replace(TOLD, category="exception")), "^report: .*exception in measure"),
        (reporting(msgspec.structs.replace(TOLD, message="?"), TOLD), r'^report: .* in measure: "\?"'),
        (reporting(TOLD, msgspec.structs.replace(TOLD, phase="build")), "^report: .* in build"),
        (reporting(TOLD), "^report: 1 .*2"),
    ],
)
def test_each_deviation_is_reported_once(found: Account, words: str) -> None:
    """In what happened, and in the report: category, message and phase of each failure."""
    (wrong,) = judge(KILL.expected, found)
    assert re.search(words, wrong)


def test_a_fault_that_is_not_noticed_is_wrong() -> None:
    """There is a result where there should be none."""
    missed = msgspec.structs.replace(FAILED, category=None, signal=None)
    wrong = {one.partition(":")[0] for one in judge(KILL.expected, consistent_account(Status.OK, (missed,)))}
    assert {"category", "status"} <= wrong


HANG = next(fault for fault in FAULTS if fault.expected.prints)
HUNG = msgspec.structs.replace(
    FAILED,
    category="deadline exceeded",
    message="the phase 'warm-up' took longer than 2 s",
    signal="SIGTERM",
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
        ({"stacks": False}, ("fault.log",)),
        ({"output_bytes": 4}, ("output: 4 bytes",)),
        ({"disk_bytes": 4_600_000_000}, ("output: .*4600000000 bytes",)),
        ({"printed_bytes": 9_000_000, "disk_bytes": 9_000_000}, ()),
    ],
)
def test_endless_output_has_stacks_and_is_capped(changes: dict[str, object], words: tuple[str, ...]) -> None:
    """A log that grew between two looks is right, however fast the disk; one that was never cut is not."""
    wrong = judge(HANG.expected, consistent_account(Status.FAILED, (msgspec.structs.replace(HUNG, **changes),)))
    assert all(re.search(word, one) for word, one in zip(words, wrong, strict=True))


def test_logs_are_measured_during_and_after_a_launch(tmp_path: Path) -> None:
    """The largest size counts, on the disk apart from the length; every event reaches the display."""
    shown, paths = RecordingDisplay(), RunPaths(tmp_path)
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


def test_the_right_account_is_right_in_json_too() -> None:
    """Nothing is wrong, and the slowest try counts."""
    assert not list(judge(KILL.expected, RIGHT))
    assert RIGHT.seconds == 1.5
    (row,) = as_builtins(outcome(RIGHT))["faults"]
    asked = {"phase": "measure", "message": "killed by SIGKILL", "stacks": False, "output": False}
    assert row["expected"] == row["expected"] | asked
    found = {"phases": ["measure"], "stacks": False, "output_bytes": 0, "log_disk_bytes": 0}
    assert row["said"] == row["said"] | found


def outcome(*found: Account, left_behind: tuple[str, ...] = (), interrupted: bool = False) -> Outcome:
    """A self-test of so many kills, each on a device of its own."""
    _, injections = campaign.prepare((KILL,), cpus(len(found)), Path("run"), Path("told"), ())
    table = tuple(
        Row(injection=one, account=account, wrong=tuple(judge(KILL.expected, account)))
        for one, account in zip(injections, found, strict=True)
    )
    return Outcome(rows=table, left_behind=left_behind, interrupted=interrupted, seconds=3.0, folder=None)


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
    """One wrong row, or anything left behind, is 5; an interrupted self-test is never 0."""
    assert found.exit_code is code


def test_the_table_has_devices_reasons_and_the_sum() -> None:
    """With several devices each line has its own; the reasons follow."""
    found = outcome(RIGHT, account(Status.OK), left_behind=("the process 7 (sleep)",))
    assert [(line[0], line[-2], line[-1]) for line in rows(found)] == [
        ("kill (SIGKILL) on cpu:0", "1.5 s", "right"),
        ("kill (SIGKILL) on cpu:1", "1.0 s", "WRONG"),
    ]
    wrong, left, _, total = details(found)
    assert re.match(r"kill .*cpu:1: status: ", wrong)
    assert left.endswith("the process 7 (sleep)")
    assert re.match("1 of 2 .* 1 .* 3 s", total)


@pytest.mark.parametrize("devices", [cpus(1), cpus(2), gpus(3), (*gpus(1), *cpus(1))])
def test_every_device_gets_every_fault_it_can_have(devices: tuple[Device, ...]) -> None:
    """Each in a cell of its own with a model of its own, and each device starts with another one."""
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
def test_every_fault_is_expected_as_the_worker_does_it(fault: Fault) -> None:
    """Torch is preloaded only for those that need a GPU. A stopped or killed process leaves no stacks."""
    stacks = {"hang, deaf to SIGTERM", "hold the GIL", "print without end", "segfault", "abort", "endless kernel"}
    assert fault.do in worker_faults.FAULTS
    assert fault.expected.says
    assert fault.expected.phase == fault.config.get("in", Phase.WARM_UP)
    assert fault.expected.stacks is (fault.do in stacks)
    assert fault.expected.prints is (fault.do == "print without end")
    assert bool(fault.preload) == (fault.kinds == {DeviceKind.CUDA}) == (fault.do in worker_faults._ON_A_GPU)
    assert (fault.expected.done is Done.HALVED) == (fault.batch_size > 1)


def test_leftovers_are_found(tmp_path: Path) -> None:
    """Processes, also one that is no child of ours, sockets, temporary files; nothing when they are gone."""
    paths = RunPaths(tmp_path / "20260401-213000-1f2e3d")
    paths.folder.mkdir()
    before = {*accounts.left_behind(paths)}  # the browser of other tests is our child too
    assert all(words.startswith("the process ") for words in before)
    temporary = paths.folder / "half.tmp"
    temporary.touch()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begin = f"sleep 600 > {paths.log('stray')} & echo $!"
    orphan = int(subprocess.run(["sh", "-c", begin], check=True, stdout=subprocess.PIPE).stdout)
    try:
        with Link(paths.folder.name):
            *processes, socket, file = (words for words in accounts.left_behind(paths) if words not in before)
    finally:
        child.communicate()
        os.kill(orphan, signal.SIGKILL)
    assert sorted(words.split()[2] for words in processes) == sorted((str(child.pid), str(orphan)))
    assert socket.startswith("the socket folder ")
    assert socket.endswith(f"{paths.folder.name}-{os.getpid()}")
    assert file == f"the temporary file {temporary}"
    temporary.unlink()
    assert [words for words in accounts.left_behind(paths) if str(orphan) not in words and words not in before] == []
