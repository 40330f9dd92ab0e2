"""kinds/burn_in/busy_time.py and lost_launches.py, by their reports: no PASS for time that was not served, or for
what hung.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.config.run_configuration import Configuration
from orchestrator.figures.burn_in import GpuBurnIn
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import busy_time, gpu_waits
from orchestrator.kinds.burn_in.served_time import Load
from orchestrator.state import stopping
from orchestrator.state.archive import Attempt, assemble
from orchestrator.store import journal
from orchestrator.store.records import Beside, End, Foreign, Left, Segment, Start, StoodStill
from orchestrator.system.calendar_times import iso
from protocol.cell import Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.nights import Night, soak, sound, ten_minutes
from tests.fakes.runs import SECOND_NS, cpus

LAST = 16
"""The number of the last whole round, from zero."""

pytestmark = pytest.mark.usefixtures("unsynced")


def finished(night: Night) -> tuple[GpuBurnIn, ...]:
    """What is said of each device when all is over."""
    night.finish()
    found = night.report().burn_in
    assert found is not None
    return found.gpus


def texts(gpu: GpuBurnIn) -> str:
    """Its reasons."""
    return "\n".join(f"{one.verdict}: {one.text}" for one in gpu.reasons)


def work_but_one(night: Night) -> None:
    """All of the plan, but for the soak of the last round."""
    place = night.stored.plan.order["cpu:0"].index((soak(night).id, LAST))
    night.work(last=place)
    night.work(first=place + 1)


def ended(night: Night, lasted_s: float, words: str = stopping.OUT_OF_TIME) -> None:
    """The soak of the last round was ended with the run."""
    night.failed(soak(night), Category.STOPPED, number=LAST, phase=Phase.MEASURE, message=words, lasted_s=lasted_s)


def test_a_whole_night_was_served(tmp_path: Path) -> None:
    """What lies between launches of three seconds counts, and of that no more than an ordinary gap."""
    night = ten_minutes(tmp_path)
    begin_ns = night.now_ns
    night.work()
    for gpu in finished(night):
        assert gpu.verdict is HealthVerdict.PASS
        assert gpu.served_seconds == pytest.approx((night.now_ns - begin_ns) / 1e9, abs=6)
        assert gpu.under_load_seconds < gpu.served_seconds * 2 / 3


@pytest.mark.parametrize(("pause_s", "told"), [(40, False), (65, True)])
def test_a_pause_is_not_time_at_work(tmp_path: Path, pause_s: int, told: bool) -> None:
    """An orchestrator that was stopped made no launches; its clock went on. Two such pauses are more than may miss."""
    night = ten_minutes(tmp_path)
    night.work(last=20)
    night.now_ns += pause_s * SECOND_NS
    night.work(first=20, last=40)
    night.now_ns += pause_s * SECOND_NS
    night.work(first=40, last=60)
    for gpu in finished(night):
        assert gpu.verdict is HealthVerdict.UNKNOWN
        assert gpu.served_seconds == pytest.approx(60 * 5 + 2 * 20 - 2 * 2, abs=6)
        assert ("without load for 67 s from 2024-01-15T10:" in texts(gpu)) is told, texts(gpu)
        assert ("the longest of 2 such gaps" in texts(gpu)) is told


def test_one_device_alone_may_have_been_idle(tmp_path: Path) -> None:
    """Each is judged by its own launches; waiting for another one's failed launch is explained by that."""
    night = ten_minutes(tmp_path)
    night.work(last=20)
    night.failed(soak(night), Category.DEADLINE, number=LAST - 1, lasted_s=70)
    night.work(first=20)
    first, second = finished(night)
    assert "deadline exceeded" in texts(first)
    assert second.verdict is HealthVerdict.PASS, texts(second)


def test_segments_without_a_launch_have_served_nothing(tmp_path: Path) -> None:
    """Started, and ended again while everything was imported: the clock went on, no device did anything."""
    night = ten_minutes(tmp_path)
    night.work(last=40)
    for _ in range(4):
        night.segment()
        night.now_ns += 60 * SECOND_NS
    for gpu in finished(night):
        assert gpu.served_seconds == pytest.approx(40 * 5, abs=6)
        assert f"UNKNOWN: at work for {gpu.served_seconds:.0f} s of the 600 s asked for" in texts(gpu)


@pytest.mark.parametrize("words", [stopping.OUT_OF_TIME, "the run was asked to stop"])
@pytest.mark.parametrize(("lasted_s", "hung"), [(28, False), (30, True)])
def test_what_the_run_ended_long_after_it_should_have_been_over_hung(
    tmp_path: Path, lasted_s: float, hung: bool, words: str
) -> None:
    """Three times its three seconds and twenty more: UNKNOWN for its device. Before, it was only too late."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    ended(night, lasted_s, words)
    first, second = finished(night)
    assert second.verdict is HealthVerdict.PASS
    assert first.verdict is (HealthVerdict.UNKNOWN if hung else HealthVerdict.PASS), texts(first)
    told = "deadline exceeded: still at work after 30 s, when the run ended it; 29 s are enough"
    assert (told in texts(first)) is hung
    assert first.served_seconds - second.served_seconds == pytest.approx(0 if hung else 3 + 20, abs=1)


def test_nothing_makes_up_for_a_launch_that_hung(tmp_path: Path) -> None:
    """`resume` measures it again, and that goes well: what hung once may hang again."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    ended(night, 40)
    night.segment()
    cell = soak(night)
    night.measured(cell, number=LAST, forward_ms=100.0, blocks=3, iterations=10, verification=sound(cell))
    first, second = finished(night)
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS), texts(first) + texts(second)
    assert "deadline exceeded: still at work after 40 s" in texts(first)


def test_what_stood_still_with_the_whole_run_did_not_hang(tmp_path: Path) -> None:
    """A batch system had suspended it: no deadline went on, and nothing is a finding on any device."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    ended(night, 40)
    night._journal.append(StoodStill(at_ns=night.now_ns, seconds=38.0))
    night.segment()
    cell = soak(night)
    night.measured(cell, number=LAST, forward_ms=100.0, blocks=3, iterations=10, verification=sound(cell))
    first, _ = finished(night)
    assert "deadline exceeded" not in texts(first)


@pytest.mark.parametrize(("phase", "stopped"), [(Phase.IMPORT, False), (Phase.MEASURE, True)])
def test_a_deadline_that_was_not_missed_at_work_is_made_up_for(tmp_path: Path, phase: Phase, stopped: bool) -> None:
    """Nothing had touched the device yet, or somebody had stopped the process."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    night.failed(soak(night), Category.DEADLINE, number=LAST, phase=phase, lasted_s=5, stopped=stopped)
    cell = soak(night)
    night.measured(cell, number=LAST, forward_ms=100.0, blocks=3, iterations=10, verification=sound(cell))
    first, _ = finished(night)
    assert first.verdict is HealthVerdict.WARN, texts(first)


def test_what_others_took_as_long_for_is_slow(tmp_path: Path) -> None:
    """On a busy host, where the same check has come to its end after half of that."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    other = soak(night, "cpu:1")
    night.measured(other, number=LAST, forward_ms=100.0, blocks=15, iterations=10, verification=sound(other))
    ended(night, 29.5)
    first, _ = finished(night)
    assert first.verdict is HealthVerdict.PASS, texts(first)


def test_a_slow_launch_that_was_cut_off_is_no_gap_that_nothing_explains(tmp_path: Path) -> None:
    """More than a minute of it does not count as served; but something was launched all the while."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    other = soak(night, "cpu:1")
    night.measured(other, number=LAST, forward_ms=100.0, blocks=40, iterations=10, verification=sound(other))
    ended(night, 75)
    first, _ = finished(night)
    assert "deadline exceeded" not in texts(first)
    assert "nothing tells why" not in texts(first)


def test_a_planned_cell_that_was_dropped_is_no_pass(tmp_path: Path) -> None:
    """Though others of its kind did their work; with why."""
    night = ten_minutes(tmp_path)
    left_out = [cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK][1]
    places = [at for at, slot in enumerate(night.stored.plan.order["cpu:0"]) if slot[0] == left_out.id]
    for first, last in zip([0, *(at + 1 for at in places)], [*places, None], strict=True):
        night.work(first=first, last=last)
    night.dropped(left_out, "dropped to keep the limit: no time was left")
    first, second = finished(night)
    name = f"verified products of gemm in {left_out.precision} never came to an end"
    assert f"UNKNOWN: {name}: dropped to keep the limit: no time was left" in texts(first)
    assert f"UNKNOWN: {name}: no launch of it has a result" in texts(second)


def test_work_beside_others_is_no_pass(tmp_path: Path) -> None:
    """--allow-busy lets a run begin; its load was not that of the burn-in alone."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    launch = night.measured(soak(night), number=LAST, blocks=3, iterations=10, verification=sound(soak(night)))
    night._journal.append(Beside(launch=launch, at_ns=night.now_ns, by="python (PID 7)"))
    first, second = finished(night)
    assert second.verdict is HealthVerdict.PASS
    assert first.verdict is HealthVerdict.UNKNOWN
    assert "1 launch worked beside others (python (PID 7))" in texts(first)


def test_a_worker_is_believed_within_the_journal() -> None:
    """What it says of its time cannot make a night longer than it was."""
    segment = Segment(boot_id="b", driver_version=None, tool_version="", pid=1, wall=0.0, monotonic_ns=0)
    start = Start(launch=1, cell="c", attempt=1, round=0, device="cpu:0", batch_size=1, at_ns=100)
    attempt = Attempt(segment, start, lasted_ms=50e-6)
    told = cast("LaunchEvidence", SimpleNamespace(worked_ns=(1, 10**18), stalls=()))
    assert busy_time.work((), (), {}, 3) == {}  # its process ended before any segment was begun
    assert busy_time.work([(attempt, told)], (), {segment: ()}, 3) == {segment: Load([(100, 150)], since_ns=0)}


@pytest.mark.parametrize(("lasted_s", "more_s"), [(2, 2), (15, 15), (27, 3 + 20), (0, 0)])
def test_what_was_cut_off_was_at_work_for_the_length_of_a_cell(tmp_path: Path, lasted_s: float, more_s: float) -> None:
    """Until then: no evidence, but no time that is missing either. What came before that is an ordinary gap or none."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    begin_ns = night.now_ns
    if lasted_s:
        ended(night, lasted_s)
    first, second = finished(night)
    assert first.served_seconds - second.served_seconds == pytest.approx(more_s, abs=1)
    assert night.now_ns - begin_ns == pytest.approx(lasted_s * SECOND_NS, abs=SECOND_NS)


@pytest.mark.parametrize(("not_tested", "verdict"), [({}, HealthVerdict.UNKNOWN), ({"vae": "why"}, HealthVerdict.PASS)])
def test_a_planned_cell_without_a_check_is_no_pass(
    tmp_path: Path, not_tested: dict[str, str], verdict: HealthVerdict
) -> None:
    """Though its launches have results; but for what they say cannot be verified, where others of their kind were."""
    night = ten_minutes(tmp_path)
    cell = soak(night)
    empty = msgspec.structs.replace(sound(cell), checks=0, digests=(), not_tested=not_tested)
    order = night.stored.plan.order["cpu:0"]
    for place, slot in enumerate(order):
        if slot[0] == cell.id:
            night.measured(cell, number=slot[1], forward_ms=100, blocks=3, iterations=10, verification=empty)
        else:
            night.work(first=place, last=place + 1)
    first, _ = finished(night)
    assert first.verdict is verdict, texts(first)


@pytest.mark.parametrize("phase", [Phase.IMPORT, Phase.BUILD])
def test_what_was_ended_while_it_began_has_served_nothing(tmp_path: Path, phase: Phase) -> None:
    """Taken up and ended again, before any launch had come to work: the time is given back."""
    night = ten_minutes(tmp_path)
    night.work(last=40)
    for _ in range(12):
        night.segment()
        night.failed(soak(night), Category.STOPPED, number=LAST, phase=phase, message="asked to stop", lasted_s=20)
    for gpu in finished(night):
        assert gpu.served_seconds == pytest.approx(40 * 5, abs=6)
        assert gpu.verdict is HealthVerdict.UNKNOWN


def test_the_retry_that_another_device_was_waited_for_explains_a_gap_too(tmp_path: Path) -> None:
    """Half a minute for the launch that crashed, more than one for what made up for it: one gap of the other device."""
    night = ten_minutes(tmp_path)
    night.work(last=20)
    cell = soak(night)
    night.failed(cell, Category.CRASHED, number=LAST - 1, lasted_s=30)
    night.measured(cell, number=LAST - 1, forward_ms=100.0, blocks=70, iterations=10, verification=sound(cell))
    night.work(first=20)
    first, second = finished(night)
    assert (first.verdict, second.verdict) == (HealthVerdict.WARN, HealthVerdict.PASS), texts(second)


class Busy(Night):
    """One that was begun though others use its devices."""

    def asked(self, configuration: Configuration) -> Configuration:
        """With --allow-busy."""
        return msgspec.structs.replace(super().asked(configuration), allow_busy=True)


@pytest.mark.parametrize(
    ("kind", "seen", "pause_s", "told"),
    [
        (Night, "", 200, True),
        (Night, "came", 200, False),
        (Night, "came and left", 200, False),
        (Night, "came", 630 + 70, True),  # it was given up before
        (Night, "came and left", 630 + 70, True),
        (Busy, "came and left", 200, True),  # and waited for by nobody
    ],
)
def test_a_gpu_that_others_use_is_waited_for(
    tmp_path: Path, kind: type[Night], seen: str, pause_s: int, told: bool
) -> None:
    """Until they leave, or it is given up: a gap of all that wait with it, which the journal explains."""
    night = kind(tmp_path, cpus(2), "10m")
    night.work(last=20)
    if seen:
        night._journal.append(Foreign(device="cpu:0", at_ns=night.now_ns, by="python (PID 7)"))
    night.now_ns += pause_s * SECOND_NS
    if "left" in seen:
        night._journal.append(Foreign(device="cpu:0", at_ns=night.now_ns, by=""))
    night.work(first=20)
    for gpu in finished(night):
        assert ("nothing tells why" in texts(gpu)) is told, texts(gpu)


@pytest.mark.parametrize(("teardown_s", "told"), [(29.0, True), (30.5, False)])
def test_a_gpu_whose_memory_stays_taken_is_waited_for(tmp_path: Path, teardown_s: float, told: bool) -> None:
    """From its last launch to its next, where its memory was not back within half a minute."""
    night = ten_minutes(tmp_path)
    night.work(last=20)
    records = list(journal.read(night.paths.journal))
    last = max(number for number, one in enumerate(records) if isinstance(one, Left))
    records[last] = msgspec.structs.replace(records[last], teardown_ms=teardown_s * 1000)
    begun_ns = night.now_ns
    night.now_ns += 200 * SECOND_NS
    night.work(first=20, last=40)
    records += journal.read(night.paths.journal)[len(records) :]
    archive = assemble(night.stored, night.paths, tuple(records))
    launches = [(begun_ns - SECOND_NS, begun_ns), (begun_ns + 205 * SECOND_NS, night.now_ns)]
    work = {archive.segments[0]: Load(launches)}
    assert bool([*busy_time.idle(work, gpu_waits.told(archive, ()))]) is told


def test_an_end_that_a_later_segment_wrote_has_no_time_of_its_own(tmp_path: Path) -> None:
    """The clock began anew with the machine: it is told when the launch began."""
    night = ten_minutes(tmp_path)
    night.work(last=20)
    begun = night.archive().segments[0].at(night.now_ns)
    cell = soak(night)
    launch = night.interrupted(cell, number=LAST)
    night.segment(now_ns=10**9)
    failure = Failure(category=Category.CRASHED, message="it is gone", phase=Phase.MEASURE)
    night._journal.append(End(launch=launch, at_ns=night.now_ns, failure=failure))
    first, _ = finished(night)
    assert f"round {LAST + 1}, {iso(begun)}: crashed: it is gone" in texts(first), texts(first)


def test_what_stood_still_is_not_load(tmp_path: Path) -> None:
    """A worker that was stopped in its launch and went on: neither under load nor served meanwhile, and told."""
    night = ten_minutes(tmp_path)
    work_but_one(night)
    cell = soak(night)
    more = {"forward_ms": 100.0, "blocks": 3, "iterations": 10, "stood_still_s": 64.0}
    night.measured(cell, number=LAST, verification=sound(cell), **more)
    first, second = finished(night)
    assert first.served_seconds - second.served_seconds == pytest.approx(3, abs=1)
    assert first.under_load_seconds - second.under_load_seconds == pytest.approx(3, abs=0.5)
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS)
    assert "without load for 64 s from 2024-01-15T10:" in texts(first)


def test_who_waited_for_one_that_stood_still_is_not_asked_why(tmp_path: Path) -> None:
    """The links of a round take all devices: the stall of one is a gap of the others, and explains it."""
    night = ten_minutes(tmp_path)
    cell = soak(night)
    place = night.stored.plan.order["cpu:0"].index((cell.id, LAST))
    night.work(last=place)
    night.measured(
        cell, number=LAST, verification=sound(cell), forward_ms=100.0, blocks=3, iterations=10, stood_still_s=64.0
    )
    night.work(first=place + 1)
    first, second = finished(night)
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS), texts(second)
    assert "without load" in texts(first)


def test_what_stood_still_is_not_slow(tmp_path: Path) -> None:
    """Its windows have the rate of the blocks that worked, or none."""
    night = ten_minutes(tmp_path)
    cell = soak(night)
    more = {"forward_ms": 100.0, "blocks": 30, "iterations": 10, "stood_still_s": 64.0}
    launch = night.measured(cell, number=LAST, verification=sound(cell), **more)
    night.finish()
    rates = [window.rate for window in evidence.gather(night.archive()).launches[launch].rates]
    assert len(rates) in {2, 3, 4}
    assert rates == [pytest.approx(10, rel=0.05)] * len(rates)


@pytest.mark.parametrize(("launches", "told"), [(18, False), (15, True)])
def test_the_longest_launch_may_be_missing_at_the_end(tmp_path: Path, launches: int, told: bool) -> None:
    """Where there was no time for it: of CPU devices a replay, which lasts for several cells of a short burn-in."""
    night = Night(tmp_path, cpus(2), "50s", start_s=1)
    night.work(last=launches)
    for gpu in finished(night):
        assert ("of the 50 s asked for" in texts(gpu)) is told
