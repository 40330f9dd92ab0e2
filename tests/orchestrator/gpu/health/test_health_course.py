"""From single looks to courses: the history of values, the machine's own counters, and the rules in configs/."""

import re
from pathlib import Path

import pytest

from orchestrator.config.health_signals import SIGNALS
from orchestrator.errors import ConfigError
from orchestrator.gpu.health import clocks, limits, verdict
from orchestrator.gpu.health.course import Course, Look, follow
from orchestrator.gpu.health.judges import JUDGES, State
from orchestrator.gpu.health.records import NOT_COUNTED, NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict, Opinion, Work
from protocol.messages import Sample, XidSeen
from tests.fakes.burn_ins import NODE
from tests.fakes.health import SECOND_NS, WELL, case, course, state


def test_courses_are_judged_to_their_end() -> None:
    """Two looks at once are no ten seconds. A signal that becomes unreadable proves nothing; a failure stays."""
    hot = Course()
    for seconds in (0.0, 0.005):
        hot.take(WELL | {"gpu_margin_c": -1}, {}, seconds)
    assert verdict.of_gpu(case(hot), ()).verdict is HealthVerdict.WARN
    for at_first, expected in ((0, State.UNREADABLE), (1, State.FAIL)):
        seen = course({"rows_failed": at_first})
        seen.take({}, {"rows_failed": "no permission"}, 10.0)
        assert state(verdict.of_gpu(case(seen), ()), "rows_failed") is expected


@pytest.mark.parametrize("word", ["broken", "damaged"])
def test_a_gpu_that_comes_back_stays_broken(word: str) -> None:
    """NVML's first reason stays, whatever later looks find."""
    records = [Vitals(at_ns=at_ns, uuid="a", values={}, **{word: said}) for at_ns, said in enumerate(("15", "16", ""))]
    assert getattr(follow(records).gpus["a"], word) == "15"


def samples(seconds: int, slow: range = range(0)) -> list[Sample]:
    """A sample each second, with thermal slowdown in some minutes, else at the power limit."""
    return [Sample(at_ns=at * SECOND_NS, reasons=0x40 if at // 60 in slow else 0x4) for at in range(seconds)]


def test_worst_ten_minutes_are_of_the_whole_run() -> None:
    """A run that is shorter has no worst ten minutes."""
    long = clocks.clock_use([samples(3600, range(20, 27))])
    assert long.slowed == pytest.approx(7 / 60)
    assert long.slowed_worst == pytest.approx(0.7, abs=0.01)
    assert clocks.clock_use([samples(540, range(9))]).slowed_worst is None
    assert clocks.clock_use([[]]).readings == 0
    assert (clocks.clock_use([samples(601)]).slowed_worst, clocks.clock_use([samples(600)]).slowed_worst) == (0.0, None)
    both = clocks.clock_use([samples(601), [Sample(at_ns=0, reasons=0x40)]])
    assert (both.readings, both.slowed, both.capped) == (602, 1 / 602, 601 / 602)


def test_restarts_of_counters_and_telemetry() -> None:
    """After a reset all of a counter is new. Pauses between telemetry processes are unwatched; Xids keep their boot."""
    looks = [
        Vitals(at_ns=number * 10 * SECOND_NS, uuid="a", values={"pcie_replays": value})
        for number, value in enumerate((5, 7, 2, 2))
    ]
    seen = follow([Watch(at_ns=0, boot_id="b", deaf={}), *looks]).gpus["a"]
    assert (seen.first["pcie_replays"], seen.last["pcie_replays"], seen.rise["pcie_replays"]) == (5, 2, 4)
    assert seen.watched_s == 30.0
    records = [
        Watch(at_ns=0, boot_id="one", deaf={"a": "no permission"}),
        Vitals(at_ns=SECOND_NS, uuid="a", values={}),
        Vitals(at_ns=11 * SECOND_NS, uuid="a", values={}),
        Watch(at_ns=SECOND_NS, boot_id="two", deaf={}),
        XidSeen(uuid="a", xid=79, at_ns=2 * SECOND_NS),
        Vitals(at_ns=3 * SECOND_NS, uuid="a", values={}),
        NodeVitals(at_ns=3 * SECOND_NS, values={"aer_fatal": 0}),
    ]
    seen = follow(records)
    assert (seen.gpus["a"].watched_s, seen.gpus["a"].deaf) == (10.0, "no permission")
    assert seen.looks["a"] == (("one", SECOND_NS), ("one", 11 * SECOND_NS), ("two", 3 * SECOND_NS))
    assert [(heard.xid, heard.boot_id) for heard in seen.xids["a"]] == [(79, "two")]


def looks(*seconds: int) -> list[Look]:
    """Looks at a GPU on boot "b"."""
    return [Look("b", second * SECOND_NS) for second in seconds]


def work(begin_s: int, end_s: int, unwatched_s: int | None = None) -> Work:
    """Work on that boot; unwatched_s: when the journal says that telemetry ended."""
    return Work("b", begin_s * SECOND_NS, end_s * SECOND_NS, None if unwatched_s is None else unwatched_s * SECOND_NS)


@pytest.mark.parametrize(
    ("seen", "part", "expected"),
    [
        (looks(10, 40, 70), work(10, 100), ""),
        (looks(10, 40, 70), work(10, 101), " 31 s"),
        (looks(10, 41, 70), work(10, 100), " 31 s"),
        (looks(41, 70), work(10, 100), " 31 s"),
        (looks(10, 300, 310), work(10, 310), " 290 s"),
        (looks(0, 70), work(90, 101), " 31 s"),
        (looks(0, 900), work(800, 950), " 100 s"),
        (looks(0, 80, 900), work(90, 95), ""),
        (looks(12), work(10, 11), ""),
        (looks(12, 22), work(10, 30, 25), " 5 s: telemetry ended"),
        (looks(12, 22), work(10, 30, 31), ""),
        (looks(900), work(10, 30), "no readings"),
        ([], work(10, 30), "no readings"),
        ([Look("another boot", 20 * SECOND_NS)], work(10, 30), "no readings"),
    ],
)
def test_looks_must_cover_the_work(seen: list[Look], part: Work, expected: str) -> None:
    """Nowhere may thirty seconds pass without a look: not before the first, in the middle or at the end."""
    said = verdict.broke_off(seen, [part])
    assert expected in said
    assert bool(said) == bool(expected)


def test_looks_after_a_resume_do_not_fill_the_gap_before_it() -> None:
    """The first process died early; the looks of the second prove nothing about the time between."""
    assert " 730 s" in verdict.broke_off(looks(30, 50, 70, 900, 925, 950), [work(30, 800), work(900, 950)])


def of_node(
    seen: Course, *, gap: str = "", reboots: int = 0, gpus: bool = True, differences: tuple[str, ...] = ()
) -> Opinion:
    """The opinion on a machine."""
    return verdict.of_node(seen, reboots=reboots, differences=differences, gpus=gpus, gap=gap)


def counted(**values: int) -> Course:
    """The course of a machine with these error counters and no others."""
    seen = Course()
    seen.take(values, dict.fromkeys({"aer_fatal", "memory_corrected"} - values.keys(), "not counted"), 0.0)
    return seen


def without_counters(*unread: str) -> Course:
    """The course of a machine that counts no errors, but for these counters, which are there and cannot be read."""
    seen = Course()
    seen.take({}, {name: "no permission" if name in unread else NOT_COUNTED for name in NODE}, 0.0)
    return seen


@pytest.mark.parametrize(
    ("counter", "expected"),
    [
        ("aer_fatal", HealthVerdict.FAIL),
        ("aer_nonfatal", HealthVerdict.WARN),
        ("aer_correctable", HealthVerdict.WARN),
        ("memory_uncorrected", HealthVerdict.FAIL),
        ("memory_corrected", HealthVerdict.WARN),
    ],
)
def test_rising_counters_of_the_machine_are_findings(counter: str, expected: HealthVerdict) -> None:
    """Their values from before the run are history."""
    still, rising = Course(), Course()
    for number in range(2):
        still.take({counter: 7}, {}, 10.0)
        rising.take({counter: 7 + number}, {}, 10.0)
    assert of_node(still).verdict is HealthVerdict.PASS
    assert of_node(rising).verdict is expected


@pytest.mark.parametrize(
    ("seen", "gap", "expected"),
    [
        (counted(aer_fatal=0), "", HealthVerdict.PASS),
        (counted(memory_corrected=7), "", HealthVerdict.PASS),
        (counted(aer_fatal=0), "the readings broke off", HealthVerdict.UNKNOWN),
        (counted(), "", HealthVerdict.UNKNOWN),
        (Course(), "", HealthVerdict.UNKNOWN),
        (without_counters(), "", HealthVerdict.NOT_APPLICABLE),
        (without_counters("memory_corrected"), "", HealthVerdict.UNKNOWN),
    ],
)
@pytest.mark.parametrize("reboots", [0, 1])
def test_a_machine_passes_by_its_error_counters_alone(
    seen: Course, gap: str, expected: HealthVerdict, reboots: int
) -> None:
    """Running without a restart is no evidence of healthy hardware, and a warning is none for unread counters."""
    milder = {HealthVerdict.PASS, HealthVerdict.NOT_APPLICABLE}
    expected = HealthVerdict.WARN if reboots and expected in milder else expected
    assert of_node(seen, reboots=reboots, gap=gap).verdict is expected


def test_counter_of_the_machine_that_becomes_unreadable_is_unread() -> None:
    """Its first value proves nothing about the end; what had risen by then stays."""
    still, risen = counted(aer_fatal=0), counted(aer_fatal=0)
    risen.take({"aer_fatal": 1}, {}, 10.0)
    for seen, expected in ((still, HealthVerdict.UNKNOWN), (risen, HealthVerdict.FAIL)):
        seen.take({}, {"aer_fatal": "gone"}, 10.0)
        assert of_node(seen).verdict is expected


def test_reboots_and_different_siblings_are_warnings() -> None:
    """With what differs. A machine without GPUs has no counters to read, and no verdict."""
    assert of_node(Course(), gpus=False).verdict is HealthVerdict.NOT_APPLICABLE
    assert of_node(Course(), reboots=1, gpus=False).verdict is HealthVerdict.WARN
    unlike = of_node(counted(aer_fatal=0), differences=("GPU 1: ECC False, others True",))
    assert unlike.verdict is HealthVerdict.WARN
    assert "GPU 1: ECC False" in next(one.judgement.message for one in unlike.findings if one.name == "siblings")


def test_worst_verdict_is_that_of_all() -> None:
    """UNKNOWN outranks a warning: a check that could not run may hide anything."""
    assert (
        verdict.worst([HealthVerdict.PASS, HealthVerdict.WARN, HealthVerdict.UNKNOWN, HealthVerdict.NOT_APPLICABLE])
        is HealthVerdict.UNKNOWN
    )
    assert verdict.worst([]) is HealthVerdict.NOT_APPLICABLE


def test_a_misspelt_signal_in_the_file_is_named(tmp_path: Path) -> None:
    """configs/health.yaml may only require what exists; the message has the line and the nearest name."""
    shipped = (limits.configs_folder() / "health.yaml").read_text()
    (tmp_path / "health.yaml").write_text(shipped.replace("- ecc_uncorrected", "- ecc_uncorected"))
    with pytest.raises(ConfigError, match=r"line \d+, levels.burn-in.*'ecc_uncorected'.*ecc_uncorrected"):
        limits.load(tmp_path)


def test_every_signal_has_a_judge_and_a_row_in_the_docs() -> None:
    """In the order of the report."""
    assert [signal.name for signal in SIGNALS] == list(JUDGES)
    page = (Path(__file__).parents[4] / "docs" / "health.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [signal.name for signal in SIGNALS]
