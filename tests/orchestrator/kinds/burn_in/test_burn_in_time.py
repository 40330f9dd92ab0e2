"""kinds/burn_in/busy_time.py and lost_launches.py: no PASS for time that was not served, or for what hung."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.config.run_configuration import Configuration
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import busy_time, gpu_waits
from orchestrator.kinds.burn_in.served_time import Load
from orchestrator.state import stopping
from orchestrator.state.archive import assemble
from orchestrator.state.attempts import Attempt
from orchestrator.store import journal
from orchestrator.store.journal_records import Beside, End, Foreign, Left, Segment, Start, Suspension
from orchestrator.system.calendar_times import iso
from protocol.cell import Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.burn_ins import FakeBurnIn, reasons, soak, sound, ten_minutes
from tests.fakes.runs import SECOND_NS, cpus

LAST = 16
"""The number of the last whole round, from zero."""
HUNG, IDLE, UNEXPLAINED = str(Category.DEADLINE), "no load", "unknown reason"
"""What reasons call a launch that hung, a gap, and a gap that no record explains."""

pytestmark = pytest.mark.usefixtures("unsynced")


def without_last_soak(folder: Path) -> FakeBurnIn:
    """All of the plan but the soak of the last round on the first device."""
    burn_in_run = ten_minutes(folder)
    place = burn_in_run.stored.plan.order["cpu:0"].index((soak(burn_in_run).id, LAST))
    burn_in_run.work(last=place)
    burn_in_run.work(first=place + 1)
    return burn_in_run


def ended(
    burn_in_run: FakeBurnIn, lasted_s: float, words: str = stopping.OUT_OF_TIME, phase: Phase = Phase.MEASURE
) -> None:
    """The soak of the last round is ended with the run."""
    burn_in_run.failed(soak(burn_in_run), Category.STOPPED, number=LAST, phase=phase, message=words, lasted_s=lasted_s)


def test_a_whole_burn_in_was_served(tmp_path: Path) -> None:
    """Between launches of three seconds an ordinary gap counts."""
    burn_in_run = ten_minutes(tmp_path)
    begin_ns = burn_in_run.now_ns
    burn_in_run.work()
    for gpu in burn_in_run.finished().gpus:
        assert gpu.verdict is HealthVerdict.PASS
        assert gpu.served_seconds == pytest.approx((burn_in_run.now_ns - begin_ns) / 1e9, abs=6)
        assert gpu.under_load_seconds < gpu.served_seconds * 2 / 3


@pytest.mark.parametrize(("pause_s", "reported"), [(40, False), (65, True)])
def test_a_pause_is_not_time_at_work(tmp_path: Path, pause_s: int, reported: bool) -> None:
    """The longest of two pauses is reported when it is longer than a minute."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.play(f"work 0-20, pause {pause_s}, work 20-40, pause {pause_s}, work 40-60")
    for gpu in burn_in_run.finished().gpus:
        assert gpu.verdict is HealthVerdict.UNKNOWN
        assert gpu.served_seconds == pytest.approx(60 * 5 + 2 * 20 - 2 * 2, abs=6)
        assert [part in reasons(gpu) for part in (f"{IDLE} for 67 s from 2024-01-15T10:", "2 such")] == [reported] * 2


@pytest.mark.parametrize(
    "script",
    [
        ", ".join(["segment, pause 60"] * 4),
        # Resumed, and ended before any launch came to work.
        ", ".join(["segment, import, segment, build"] * 6),
    ],
    ids=["no launch", "not at work"],
)
def test_a_segment_without_work_has_served_nothing(tmp_path: Path, script: str) -> None:
    """The clock went on, no device did anything."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=40)
    for step in script.split(", "):
        if step in {"import", "build"}:
            ended(burn_in_run, 20, "asked to stop", Phase.IMPORT if step == "import" else Phase.BUILD)
        else:
            burn_in_run.play(step)
    for gpu in burn_in_run.finished().gpus:
        assert gpu.served_seconds == pytest.approx(40 * 5, abs=6)
        assert gpu.verdict is HealthVerdict.UNKNOWN
        assert re.search(rf"UNKNOWN: .* {gpu.served_seconds:.0f} s .*600 s", reasons(gpu))


@pytest.mark.parametrize(
    ("lasted_s", "counted_s", "words"),
    [
        (15, 15, stopping.OUT_OF_TIME),
        (28, 3 + 20, "the run was asked to stop"),  # a cell, and what came before as an ordinary gap
        (30, None, "the run was asked to stop"),
    ],
)
def test_a_launch_that_the_run_ended_counts_until_it_hung(
    tmp_path: Path, lasted_s: float, counted_s: float | None, words: str
) -> None:
    """After three times its three seconds and twenty more: UNKNOWN for its device."""
    burn_in_run = without_last_soak(tmp_path)
    ended(burn_in_run, lasted_s, words)
    first, second = burn_in_run.finished().gpus
    hung = counted_s is None
    assert second.verdict is HealthVerdict.PASS
    assert first.verdict is (HealthVerdict.UNKNOWN if hung else HealthVerdict.PASS), reasons(first)
    assert [part in reasons(first) for part in (HUNG, "30 s", "29 s")] == [hung] * 3
    assert first.served_seconds - second.served_seconds == pytest.approx(counted_s or 0, abs=1)


@pytest.mark.parametrize("suspended", [False, True])
def test_a_repeated_launch_makes_up_for_no_hang(tmp_path: Path, suspended: bool) -> None:
    """It may hang again. suspended: the whole run was, so that no deadline went on."""
    burn_in_run = without_last_soak(tmp_path)
    ended(burn_in_run, 40)
    if suspended:
        burn_in_run._journal.append(Suspension(at_ns=burn_in_run.now_ns, seconds=38.0))
    burn_in_run.segment()
    burn_in_run.one(soak(burn_in_run), LAST)
    first, second = burn_in_run.finished().gpus
    assert bool(re.search(f"{HUNG}: .* 40 s", reasons(first))) is not suspended
    if not suspended:
        assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS), reasons(second)


@pytest.mark.parametrize(("phase", "stopped"), [(Phase.IMPORT, False), (Phase.MEASURE, True)])
def test_a_deadline_that_was_not_missed_at_work_is_made_up_for(tmp_path: Path, phase: Phase, stopped: bool) -> None:
    """Nothing had touched the device yet, or somebody had stopped the process."""
    burn_in_run = without_last_soak(tmp_path)
    burn_in_run.failed(soak(burn_in_run), Category.DEADLINE, number=LAST, phase=phase, lasted_s=5, stopped=stopped)
    burn_in_run.one(soak(burn_in_run), LAST)
    first, _ = burn_in_run.finished().gpus
    assert first.verdict is HealthVerdict.WARN, reasons(first)


@pytest.mark.parametrize(
    ("other_s", "lasted_s", "absent"),
    [
        (15, 29.5, ""),  # on a busy host: the same check took half of that elsewhere
        (40, 75, UNEXPLAINED),  # more than a minute does not count as served, but is no unexplained gap
    ],
)
def test_a_launch_as_slow_as_others_did_not_hang(tmp_path: Path, other_s: int, lasted_s: float, absent: str) -> None:
    """It is slow: other devices took about as long for the same check."""
    burn_in_run = without_last_soak(tmp_path)
    burn_in_run.one(soak(burn_in_run, "cpu:1"), LAST, blocks=other_s)
    ended(burn_in_run, lasted_s)
    first, _ = burn_in_run.finished().gpus
    assert HUNG not in reasons(first)
    if absent:
        assert absent not in reasons(first)
    else:
        assert first.verdict is HealthVerdict.PASS, reasons(first)


def test_a_planned_cell_that_was_dropped_is_no_pass(tmp_path: Path) -> None:
    """Though others of its kind did their work; with why."""
    burn_in_run = ten_minutes(tmp_path)
    dropped = [cell for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.SOAK][1]
    places = [at for at, slot in enumerate(burn_in_run.stored.plan.order["cpu:0"]) if slot[0] == dropped.id]
    for first, last in zip([0, *(at + 1 for at in places)], [*places, None], strict=True):
        burn_in_run.work(first=first, last=last)
    burn_in_run.dropped(dropped, "no time was left")
    for gpu, why in zip(burn_in_run.finished().gpus, (": no time was left", ""), strict=True):
        (reason,) = (one for one in gpu.reasons if f"of gemm in {dropped.precision} never completed" in one.text)
        assert (reason.verdict, why in reason.text) == (HealthVerdict.UNKNOWN, True)


def test_work_beside_others_is_no_pass(tmp_path: Path) -> None:
    """--allow-busy lets a run begin; its load was not that of the burn-in alone."""
    burn_in_run = without_last_soak(tmp_path)
    launch = burn_in_run.one(soak(burn_in_run), LAST)
    burn_in_run._journal.append(Beside(launch=launch, at_ns=burn_in_run.now_ns, by="python (PID 7)"))
    first, second = burn_in_run.finished().gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS)
    assert re.search(r"1 launch .*\(python \(PID 7\)\)", reasons(first))


def test_a_worker_is_believed_within_the_journal() -> None:
    """What it reports of its time cannot make a burn-in longer than it was."""
    segment = Segment(boot_id="b", driver_version=None, tool_version="", pid=1, wall=0.0, monotonic_ns=0)
    start = Start(launch=1, cell="c", attempt=1, round=0, device="cpu:0", batch_size=1, at_ns=100)
    attempt = Attempt(segment, start, lasted_ms=50e-6)
    reported = cast("LaunchEvidence", SimpleNamespace(worked_ns=(1, 10**18), stalls=()))
    assert busy_time.work((), (), {}, 3) == {}  # its process ended before any segment was begun
    assert busy_time.work([(attempt, reported)], (), {segment: ()}, 3) == {segment: Load([(100, 150)], since_ns=0)}


@pytest.mark.parametrize(("not_tested", "verdict"), [({}, HealthVerdict.UNKNOWN), ({"vae": "why"}, HealthVerdict.PASS)])
def test_a_planned_cell_without_a_check_is_no_pass(
    tmp_path: Path, not_tested: dict[str, str], verdict: HealthVerdict
) -> None:
    """Unless it reports that it cannot be verified, and others of its kind were."""
    burn_in_run = ten_minutes(tmp_path)
    cell = soak(burn_in_run)
    empty = msgspec.structs.replace(sound(cell), checks=0, digests=(), not_tested=not_tested)
    for place, slot in enumerate(burn_in_run.stored.plan.order["cpu:0"]):
        if slot[0] == cell.id:
            burn_in_run.one(cell, slot[1], verification=empty)
        else:
            burn_in_run.work(first=place, last=place + 1)
    first, _ = burn_in_run.finished().gpus
    assert first.verdict is verdict, reasons(first)


class Busy(FakeBurnIn):
    """One that was begun though others use its devices."""

    def asked(self, configuration: Configuration) -> Configuration:
        """With --allow-busy."""
        return msgspec.structs.replace(super().asked(configuration), allow_busy=True)


@pytest.mark.parametrize(
    ("kind", "seen", "pause_s", "unexplained"),
    [
        (FakeBurnIn, "", 200, True),
        (FakeBurnIn, "came", 200, False),
        (FakeBurnIn, "came and left", 200, False),
        (FakeBurnIn, "came", 630 + 70, True),  # it was given up before
        (Busy, "came and left", 200, True),  # and waited for by nobody
    ],
)
def test_a_gap_is_explained_by_others_who_use_the_gpu(
    tmp_path: Path, kind: type[FakeBurnIn], seen: str, pause_s: int, unexplained: bool
) -> None:
    """Until they leave, or it is given up; also for the devices that wait with it."""
    burn_in_run = kind(tmp_path, cpus(2), "10m")
    burn_in_run.work(last=20)
    if seen:
        burn_in_run._journal.append(Foreign(device="cpu:0", at_ns=burn_in_run.now_ns, by="python (PID 7)"))
    burn_in_run.play(f"pause {pause_s}")
    if "left" in seen:
        burn_in_run._journal.append(Foreign(device="cpu:0", at_ns=burn_in_run.now_ns, by=""))
    burn_in_run.work(first=20)
    for gpu in burn_in_run.finished().gpus:
        assert (UNEXPLAINED in reasons(gpu)) is unexplained, reasons(gpu)


def test_a_gap_is_explained_by_memory_that_stays_taken(tmp_path: Path) -> None:
    """From its last launch to its next, where its memory was not back within half a minute."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=20)
    begun_ns = burn_in_run.now_ns
    last = max(at for at, one in enumerate(journal.read(burn_in_run.paths.journal)) if isinstance(one, Left))
    burn_in_run.play("pause 200, work 20-40")
    launches = [(begun_ns - SECOND_NS, begun_ns), (begun_ns + 205 * SECOND_NS, burn_in_run.now_ns)]
    for teardown_s, idle in ((29.0, True), (30.5, False)):
        records = list(journal.read(burn_in_run.paths.journal))
        records[last] = msgspec.structs.replace(records[last], teardown_ms=teardown_s * 1000)
        archive = assemble(burn_in_run.stored, burn_in_run.paths, tuple(records))
        work = {archive.segments[0]: Load(launches)}
        assert bool([*busy_time.idle(work, gpu_waits.waits_by_segment(archive, ()))]) is idle


def test_an_end_that_a_later_segment_wrote_has_no_time_of_its_own(tmp_path: Path) -> None:
    """The clock began anew with the machine: its reason has the beginning of the launch."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=20)
    begun = burn_in_run.archive().segments[0].at(burn_in_run.now_ns)
    launch = burn_in_run.interrupted(soak(burn_in_run), number=LAST)
    burn_in_run.segment(now_ns=10**9)
    failure = Failure(category=Category.CRASHED, message="it is gone", phase=Phase.MEASURE)
    burn_in_run._journal.append(End(launch=launch, at_ns=burn_in_run.now_ns, failure=failure))
    first, _ = burn_in_run.finished().gpus
    assert f"round {LAST + 1}, {iso(begun)}: {Category.CRASHED}: it is gone" in reasons(first), reasons(first)


def test_a_stall_is_neither_load_nor_slow(tmp_path: Path) -> None:
    """A worker that was stopped and went on was not at work meanwhile; its windows have the rate of its blocks."""
    burn_in_run = without_last_soak(tmp_path)
    launch = burn_in_run.one(soak(burn_in_run), LAST, blocks=30, suspended_s=64.0)
    first, second = burn_in_run.finished().gpus
    assert first.served_seconds - second.served_seconds == pytest.approx(30, abs=1)
    assert first.under_load_seconds - second.under_load_seconds == pytest.approx(30, abs=0.5)
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS)
    assert f"{IDLE} for 64 s from 2024-01-15T10:" in reasons(first)
    rates = [window.rate for window in evidence.gather(burn_in_run.archive()).launches[launch].rates]
    assert len(rates) in {2, 3, 4}
    assert rates == [pytest.approx(10, rel=0.05)] * len(rates)


@pytest.mark.parametrize(
    ("cause", "verdict", "said"),
    [
        (Category.DEADLINE, HealthVerdict.UNKNOWN, HUNG),
        (Category.CRASHED, HealthVerdict.WARN, "crashed"),  # its retry takes more than a minute
        (None, HealthVerdict.UNKNOWN, IDLE),  # a stall
    ],
)
def test_a_gap_is_explained_by_another_device(
    tmp_path: Path, cause: Category | None, verdict: HealthVerdict, said: str
) -> None:
    """The links of a round take all devices: the second one waited."""
    burn_in_run = ten_minutes(tmp_path)
    place = burn_in_run.stored.plan.order["cpu:0"].index((soak(burn_in_run).id, LAST))
    burn_in_run.work(last=place)
    if cause is None:
        burn_in_run.one(soak(burn_in_run), LAST, suspended_s=64.0)
    else:
        burn_in_run.failed(
            soak(burn_in_run), cause, number=LAST, phase=Phase.MEASURE, lasted_s=70 if cause.name == "DEADLINE" else 30
        )
    if cause is Category.CRASHED:
        burn_in_run.one(soak(burn_in_run), LAST, blocks=70)
    burn_in_run.work(first=place + 1)
    first, second = burn_in_run.finished().gpus
    assert (first.verdict, second.verdict) == (verdict, HealthVerdict.PASS), reasons(second)
    assert said in reasons(first)


@pytest.mark.parametrize(("launches", "short"), [(18, False), (15, True)])
def test_the_longest_launch_may_be_missing_at_the_end(tmp_path: Path, launches: int, short: bool) -> None:
    """Where there was no time for it: of CPU devices a replay, which lasts for several cells of a short burn-in."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "50s", start_s=1)
    burn_in_run.work(last=launches)
    for gpu in burn_in_run.finished().gpus:
        assert ("of the 50 s" in reasons(gpu)) is short
