"""What is done about a launch that is over: whose fault it was, and whether its device is used again."""

import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import UNSET, structs

import protocol
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.live import Concluded, Gone, Live
from orchestrator.gpu.health import xids
from orchestrator.gpu.health.xids import XidKind
from orchestrator.state.slots import SlotStatus
from orchestrator.store import journal
from orchestrator.store import journal_records as records
from orchestrator.store.journal_records import End, Quarantine, Start
from protocol.failure import Category, Failure, Phase
from protocol.messages import Ack, GpuBroken, Hello, Outcome, TooHot, ToWorker, XidSeen
from tests.fakes.conducting import Held, conducting
from tests.fakes.results import result
from tests.fakes.runs import gpus

OOM = Failure(category=Category.OUT_OF_MEMORY, message="CUDA out of memory", phase=Phase.MEASURE)
GPU, OTHER = (device.uuid for device in gpus(2))
MISSED = Failure(category=Category.DEADLINE, message="not over in time", phase=Phase.MEASURE)
STRANGER = "PID 7 stranger"


def gang(held: Held) -> Live:
    """The launch on GPU, made one of both devices."""
    live = held.live[GPU]
    live.next = structs.replace(live.next, cell=structs.replace(live.next.cell, devices=(GPU, OTHER)))
    return live


@pytest.mark.parametrize(
    ("where", "left", "allow_busy", "both", "expected"),
    [
        (GPU, "", False, False, Category.CONTAMINATED),
        (GPU, "during", False, False, Category.CONTAMINATED),
        (GPU, "before", False, False, Category.OUT_OF_MEMORY),
        (OTHER, "", False, False, Category.OUT_OF_MEMORY),
        (GPU, "", True, False, Category.OUT_OF_MEMORY),
        # The processes of a gang wait for the one beside the stranger: any of them may be the first to miss a deadline.
        (OTHER, "", False, True, Category.CONTAMINATED),
    ],
)
def test_a_failure_beside_a_stranger_is_the_strangers(
    tmp_path: Path, where: str, left: str, expected: Category, *, allow_busy: bool, both: bool
) -> None:
    """One that was on that GPU at any time of the launch is to blame, unless the user has allowed for others."""
    with conducting(tmp_path / "run", gpus(2), allow_busy=allow_busy) as held:
        live = gang(held) if both else held.live[GPU]
        held.conductor.failure_context.foreign.note(where, STRANGER, 1)
        if left:
            held.conductor.failure_context.foreign.note(where, "", 2 if left == "before" else time.monotonic_ns())
        held.conductor.carry_out([Concluded(live, MISSED if both else OOM)])
        ((category, message),) = ended_as(held)
    assert category is expected
    assert (STRANGER in message) is (expected is Category.CONTAMINATED)


def test_a_result_stays_and_its_device_goes_where_the_worker_cannot_be_killed(tmp_path: Path) -> None:
    """It has told its outcome and then hangs for ever: that counts, and nothing more is begun beside it."""
    with conducting(tmp_path / "run", gpus(2)) as held:
        live = held.conductor.fleet.live.pop(held.live[GPU].spec.token)
        held.conductor.carry_out([Concluded(live, result(live.next.cell)), Gone(live, None, unkillable=True)])
        held.conductor.launch_what_is_due()
        assert held.conductor.state.slots[live.next.slot].status is SlotStatus.MEASURED
        assert [other.next.device for other in held.conductor.fleet.live.values()] == [OTHER]
        (out,) = [one for one in journal.read(held.paths.journal) if isinstance(one, Quarantine)]
    assert out.device == GPU


@pytest.mark.parametrize(
    ("word", "category"),
    [
        (GpuBroken(uuid=GPU, reason="why", at_ns=7, lost=True), Category.DEVICE_LOST),
        (GpuBroken(uuid=GPU, reason="why", at_ns=7, lost=False), Category.DEVICE_HARDWARE),
        (TooHot(uuid=GPU, reason="why", at_ns=7), Category.TOO_HOT),
    ],
)
def test_a_gpu_that_breaks_or_is_too_hot_is_quarantined(
    tmp_path: Path, word: GpuBroken | TooHot, category: Category
) -> None:
    """Its launch has failed under the right name, heat is written down for the verdict, the other launch goes on."""
    with conducting(tmp_path / "run", gpus(2)) as held:
        held.conductor.beware(word)
        assert [one.next.device for one in held.conductor.fleet.live.values()] == [OTHER]
        read = journal.read(held.paths.journal)
        assert ended_as(held) == [(category, "why")]
    heat = [one for one in read if isinstance(one, records.TooHot)]
    assert heat == [records.TooHot(device=GPU, at_ns=7, reason="why")] * isinstance(word, TooHot)
    assert [(one.device, one.reason) for one in read if isinstance(one, Quarantine)] == [(GPU, "why")]


XID = XidSeen(uuid=GPU, xid=79, at_ns=1)
LOST = GpuBroken(uuid=GPU, reason="GPU is lost", at_ns=1, lost=True)
STICKY = Failure(category=Category.CUDA_STICKY, message="CUDA error 999", phase=Phase.MEASURE, code=999)
UNHEARD = Failure(category=Category.COMMUNICATION, message="a peer is gone", phase=Phase.MEASURE)
LOST_OTHER = structs.replace(LOST, uuid=OTHER)
HARDWARE = (Category.DEVICE_HARDWARE, xids.described(79))


@contextmanager
def worker_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which is ended in any case."""
    with subprocess.Popen(["sleep", "60"], process_group=0) as process:
        try:
            yield process
        finally:
            process.kill()


def working(held: Held, process: subprocess.Popen[bytes], live: Live | None = None) -> Live:
    """The launch on GPU, or the one given, whose worker is `process` and has begun."""
    live, fleet = live or held.live[GPU], held.conductor.fleet
    hello = Hello(
        launch=live.spec.launch,
        token=live.spec.token,
        version=protocol.VERSION,
        pid=process.pid,
        root=live.spec.root,
    )
    held.conductor.carry_out(fleet.hear(hello, time.monotonic()))
    return live


def seen_dead(held: Held, live: Live) -> float:
    """The death of its process is waited for and told; when it was."""
    assert live.pidfd is not None
    select.select([live.pidfd], [], [], 10)
    now = time.monotonic()
    held.conductor.carry_out(held.conductor.fleet.died(live.pidfd, now))
    return now


def test_a_visit_that_is_over_by_the_end_of_a_launch_costs_its_result(tmp_path: Path) -> None:
    """The result does not count, although nobody is on the GPU any more when the launch ends."""
    with conducting(tmp_path / "run", gpus(2)) as held:
        live = held.conductor.fleet.live.pop(held.live[GPU].spec.token)
        for by in (STRANGER, ""):
            held.conductor.failure_context.foreign.note(GPU, by, time.monotonic_ns())
        held.conductor.carry_out([Concluded(live, result(live.next.cell)), Gone(live, None, unkillable=False)])
        ((category, message),) = ended_as(held)
        assert (category, STRANGER in message) == (Category.CONTAMINATED, True)


def ended_as(held: Held) -> list[tuple[Category, str]]:
    """How the launches have failed."""
    ends = [one.failure for one in journal.read(held.paths.journal) if isinstance(one, End)]
    return [(failure.category, failure.message) for failure in ends if failure is not None]


@pytest.mark.parametrize("aborts", [True, False])
@pytest.mark.parametrize(
    ("word", "expected"), [(XID, HARDWARE), (LOST, (Category.DEVICE_LOST, "GPU is lost")), (None, None)]
)
def test_a_failure_just_before_the_drivers_word_is_the_gpus(
    tmp_path: Path, word: XidSeen | GpuBroken | None, expected: tuple[Category, str] | None, *, aborts: bool
) -> None:
    """For a second a death, and what CUDA told, wait for the driver; without its word they stand."""
    with conducting(tmp_path / "run", gpus(2)) as held, worker_process() as process:
        live, fleet = working(held, process), held.conductor.fleet
        if aborts:
            process.send_signal(signal.SIGABRT)
            now, own = seen_dead(held, live), (Category.CRASHED, "killed by SIGABRT")
        else:
            now, own = time.monotonic(), (STICKY.category, STICKY.message)
            told = Outcome(launch=live.spec.launch, token=live.spec.token, failure=STICKY)
            held.conductor.carry_out(fleet.hear(told, now))
        assert ended_as(held) == []
        if word is not None:
            held.conductor.beware(word)
        held.conductor.carry_out(fleet.time_passed(now + 1))
        assert ended_as(held) == [expected or own]


@pytest.mark.parametrize(
    ("told", "word", "expected"),
    [
        (STICKY, LOST_OTHER, (Category.DEVICE_LOST, OTHER)),
        (UNHEARD, LOST_OTHER, (Category.DEVICE_LOST, OTHER)),
        (OOM, LOST_OTHER, (Category.OUT_OF_MEMORY, UNSET)),
        (STICKY, XidSeen(uuid=OTHER, xid=31, at_ns=1), (Category.CUDA_STICKY, UNSET)),
    ],
)
def test_every_gpu_of_a_gang_is_asked_what_the_driver_said(
    tmp_path: Path, told: Failure, word: XidSeen | GpuBroken, expected: tuple[Category, object]
) -> None:
    """The rank that told may suffer from another one's GPU: it is that one's fault, and Xids say whose they are."""
    with conducting(tmp_path / "run", gpus(2)) as held:
        held.conductor.failure_context.hazards.heard(structs.replace(word, at_ns=time.monotonic_ns()))
        held.conductor.carry_out([Concluded(gang(held), told)])
        (end,) = [one for one in journal.read(held.paths.journal) if isinstance(one, End)]
    assert end.failure is not None
    assert (end.failure.category, end.failure.device) == expected
    xid = f"GPU 1: 31 ({XidKind.APPLICATION})" if isinstance(word, XidSeen) else None
    assert end.failure.evidence.get("xids") == xid


def test_no_device_of_a_gang_begins_anything_before_its_end_is_written_down(tmp_path: Path) -> None:
    """The one that crashed is free before the others are gone: it would keep them waiting when the gang comes again."""
    with conducting(tmp_path / "run", gpus(2), together=True) as held, worker_process() as one, worker_process() as two:
        members = next(iter(held.conductor.fleet.live.values())).siblings
        first, second = (working(held, *pair) for pair in zip((one, two), members, strict=True))
        one.send_signal(signal.SIGSEGV)
        seen_dead(held, first)
        held.conductor.carry_out(held.conductor.fleet.time_passed(time.monotonic() + 1))
        assert first.spec.token not in held.conductor.fleet.live
        assert not held.conductor.launch_what_is_due()
        seen_dead(held, second)
        assert held.conductor.launch_what_is_due()
        said = [one for one in journal.read(held.paths.journal) if isinstance(one, Start | End)]
    assert [(type(one), one.launch) for one in said] == [(Start, 0), (End, 0), (Start, 1)]
    assert len({(one.cell, one.round) for one in said if isinstance(one, Start)}) == 1, "all of them try again"


def test_an_outcome_is_acknowledged_once_it_is_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker leaves at the acknowledgement. If the orchestrator dies just then, the result must be on disk."""
    at_the_ack: list[list[int]] = []
    send = Link.send

    def spy(link: Link, token: str, message: ToWorker) -> bool:
        if isinstance(message, Ack):
            at_the_ack.append([one.launch for one in journal.read(held.paths.journal) if isinstance(one, End)])
        return send(link, token, message)

    monkeypatch.setattr(Link, "send", spy)
    with conducting(tmp_path / "run", gpus(2)) as held, worker_process() as process:
        live = working(held, process)
        told = Outcome(launch=live.spec.launch, token=live.spec.token, result=result(live.next.cell))
        held.conductor.carry_out(held.conductor.fleet.hear(told, time.monotonic()))
    assert at_the_ack == [[live.spec.launch]]
