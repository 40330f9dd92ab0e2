"""From single looks to what a run says: how values went, the machine's own counters, and the rules in configs/."""

import re
from pathlib import Path

import pytest

from orchestrator.config.health_signals import SIGNALS
from orchestrator.errors import ConfigError
from orchestrator.gpu.health import clocks, limits, verdict
from orchestrator.gpu.health.course import Course, Look, follow
from orchestrator.gpu.health.judges import JUDGES, State
from orchestrator.gpu.health.records import NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict, Work
from protocol.messages import Sample, XidSeen
from tests.fakes.health import SECOND_NS, WELL, case, course, state


def test_two_looks_in_a_moment_are_no_ten_seconds() -> None:
    """The last look may follow another at once: both above the limit are still only a moment."""
    hot = Course()
    for seconds in (0.0, 0.005):
        hot.take(WELL | {"gpu_margin_c": -1}, {}, seconds)
    assert verdict.of_gpu(case(hot), ()).verdict is HealthVerdict.WARN


def test_what_can_no_longer_be_read_is_unread() -> None:
    """A signal that was well at first says nothing about the end; one that failed stays failed."""
    for at_first, expected in ((0, State.UNREADABLE), (1, State.FAIL)):
        seen = course({"rows_failed": at_first})
        seen.take({}, {"rows_failed": "no permission"}, 10.0)
        assert state(verdict.of_gpu(case(seen), ()), "rows_failed") is expected


@pytest.mark.parametrize("word", ["broken", "damaged"])
def test_a_gpu_that_comes_back_was_broken_all_the_same(word: str) -> None:
    """NVML's first word for it stays, whatever later looks find."""
    records = [Vitals(at_ns=at_ns, uuid="a", values={}, **{word: said}) for at_ns, said in enumerate(("15", "16", ""))]
    assert getattr(follow(records).gpus["a"], word) == "15"


def test_every_signal_has_a_judge() -> None:
    """The table of signals and that of judges name the same."""
    assert [signal.name for signal in SIGNALS] == list(JUDGES)


def test_ten_minutes_are_looked_for_in_the_whole_run() -> None:
    """The worst window counts, and a run shorter than that has none."""

    def samples(minutes: int, slow: range) -> list[Sample]:
        return [
            Sample(at_ns=second * SECOND_NS, reasons=0x40 if second // 60 in slow else 0x4)
            for second in range(minutes * 60)
        ]

    long = clocks.over([samples(60, range(20, 27))])
    assert long.slowed == pytest.approx(7 / 60)
    assert long.slowed_worst == pytest.approx(0.7, abs=0.01)
    assert clocks.over([samples(9, range(9))]).slowed_worst is None
    assert clocks.over([[]]).readings == 0


def test_clocks_that_nothing_held_down_were_not_in_the_worst_ten_minutes_either() -> None:
    """Nought, where ten minutes were watched; of less nothing is said."""

    def samples(seconds: int) -> list[Sample]:
        return [Sample(at_ns=second * SECOND_NS, reasons=0x4) for second in range(seconds)]

    assert (clocks.over([samples(601)]).slowed_worst, clocks.over([samples(600)]).slowed_worst) == (0.0, None)
    both = clocks.over([samples(601), [Sample(at_ns=0, reasons=0x40)]])
    assert (both.readings, both.slowed, both.capped) == (602, 1 / 602, 601 / 602)


def test_counters_that_begin_anew_are_all_new() -> None:
    """A reset or a reboot sets counters back: what they show afterwards came since."""
    looks = [
        Vitals(at_ns=number * 10 * SECOND_NS, uuid="a", values={"pcie_replays": value})
        for number, value in enumerate((5, 7, 2, 2))
    ]
    seen = follow([Watch(at_ns=0, boot_id="b", deaf={}), *looks]).gpus["a"]
    assert (seen.first["pcie_replays"], seen.last["pcie_replays"], seen.rise["pcie_replays"]) == (5, 2, 4)
    assert seen.watched_s == 30.0


def test_pauses_between_telemetry_processes_are_not_watched() -> None:
    """Time in which nobody looked does not thin out what was seen; Xids keep their boot."""
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
        (looks(10, 40, 70), work(10, 101), "broke off for 31 s"),
        (looks(10, 41, 70), work(10, 100), "broke off for 31 s"),
        (looks(41, 70), work(10, 100), "broke off for 31 s"),
        (looks(10, 300, 310), work(10, 310), "broke off for 290 s"),
        (looks(0, 70), work(90, 101), "broke off for 31 s"),
        (looks(0, 900), work(800, 950), "broke off for 100 s"),
        (looks(0, 80, 900), work(90, 95), ""),
        (looks(12), work(10, 11), ""),
        (looks(12, 22), work(10, 30, 25), "broke off for 5 s: telemetry ended too early"),
        (looks(12, 22), work(10, 30, 31), ""),
        (looks(900), work(10, 30), "nothing was read"),
        ([], work(10, 30), "nothing was read"),
        ([Look("another boot", 20 * SECOND_NS)], work(10, 30), "nothing was read"),
    ],
)
def test_looks_must_cover_the_work(seen: list[Look], part: Work, expected: str) -> None:
    """Nowhere may thirty seconds pass without a look: not before the first, in the middle or at the end."""
    said = verdict.broke_off(seen, [part])
    assert expected in said
    assert bool(said) == bool(expected)


def test_looks_after_a_resume_do_not_fill_the_gap_before_it() -> None:
    """Where the first process died early, the second one's looks say nothing about the time between."""
    assert "for 730 s" in verdict.broke_off(looks(30, 50, 70, 900, 925, 950), [work(30, 800), work(900, 950)])


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
def test_the_machines_own_counters(counter: str, expected: HealthVerdict) -> None:
    """What was there before the run is history; what rises during it is a finding."""
    still, rising = Course(), Course()
    for number in range(2):
        still.take({counter: 7}, {}, 10.0)
        rising.take({counter: 7 + number}, {}, 10.0)
    assert verdict.of_node(still, reboots=0, differences=(), gpus=True).verdict is HealthVerdict.PASS
    assert verdict.of_node(rising, reboots=0, differences=(), gpus=True).verdict is expected


def counted(**values: int) -> Course:
    """The course of a machine that shows these error counters, and no others."""
    seen = Course()
    seen.take(values, dict.fromkeys({"aer_fatal", "memory_corrected"} - values.keys(), "not counted"), 0.0)
    return seen


@pytest.mark.parametrize(
    ("seen", "gap", "expected"),
    [
        (counted(aer_fatal=0), "", HealthVerdict.PASS),
        (counted(memory_corrected=7), "", HealthVerdict.PASS),
        (counted(aer_fatal=0), "the readings broke off", HealthVerdict.UNKNOWN),
        (counted(), "", HealthVerdict.UNKNOWN),
        (Course(), "", HealthVerdict.UNKNOWN),
    ],
)
@pytest.mark.parametrize("reboots", [0, 1])
def test_a_machine_passes_by_its_error_counters_alone(
    seen: Course, gap: str, expected: HealthVerdict, reboots: int
) -> None:
    """That it was not restarted is no evidence of sound hardware, and a warning is none for what is unread."""
    expected = HealthVerdict.WARN if reboots and expected is HealthVerdict.PASS else expected
    assert verdict.of_node(seen, reboots=reboots, differences=(), gpus=True, gap=gap).verdict is expected


def test_a_counter_of_the_machine_that_is_no_longer_read_is_unread() -> None:
    """What it said at first is no answer for the end; what had risen by then stays."""
    still, risen = counted(aer_fatal=0), counted(aer_fatal=0)
    risen.take({"aer_fatal": 1}, {}, 10.0)
    for seen, expected in ((still, HealthVerdict.UNKNOWN), (risen, HealthVerdict.FAIL)):
        seen.take({}, {"aer_fatal": "gone"}, 10.0)
        assert verdict.of_node(seen, reboots=0, differences=(), gpus=True).verdict is expected


def test_a_reboot_and_unlike_siblings_are_findings_about_the_machine() -> None:
    """Both warn, with what differs; of a machine without GPUs nobody reads the counters, so nothing is claimed."""
    well = counted(aer_fatal=0)
    assert verdict.of_node(Course(), reboots=0, differences=(), gpus=False).verdict is HealthVerdict.NOT_APPLICABLE
    assert verdict.of_node(Course(), reboots=1, differences=(), gpus=False).verdict is HealthVerdict.WARN
    unlike = verdict.of_node(well, reboots=0, differences=("GPU 1: ECC False, others True",), gpus=True)
    assert unlike.verdict is HealthVerdict.WARN
    assert "GPU 1: ECC False" in next(one.judgement.message for one in unlike.findings if one.name == "siblings")


def test_the_gravest_verdict_is_that_of_all() -> None:
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
    with pytest.raises(ConfigError, match=r"line \d+, levels.burn-in.*'ecc_uncorected'. Did you mean ecc_uncorrected"):
        limits.load(tmp_path)


def test_every_signal_is_explained() -> None:
    """docs/health.md has a row for each signal, in the order of the report."""
    page = (Path(__file__).parents[3] / "docs" / "health.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [signal.name for signal in SIGNALS]
