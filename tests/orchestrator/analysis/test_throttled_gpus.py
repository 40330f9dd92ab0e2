"""A GPU that its driver or a lower limit held down: named with the reason, also where siblings show nothing."""

from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import sibling_cells, stragglers, throttled_gpus
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.html.page import page
from orchestrator.report.html.plots import Heat
from orchestrator.stats.siblings import SiblingVerdict
from orchestrator.stats.slowdown_reasons import Reason
from protocol.cell import Mode
from protocol.result import SteadyState
from tests.fakes.runs import gpus
from tests.orchestrator.analysis.test_stragglers import BOTH, SLOW, measured, slower, verdicts

THERMAL = 0x40
BRAKE = 0x80
HARDWARE = 0x08


def told(
    folder: Path, hot: Collection[int] = (SLOW,), *, percent: float = 30, count: int = 8, reasons: int = THERMAL
) -> Report:
    """A run in which these GPUs are held down at 91 degrees, and GPU 3 is slower by so much."""
    run = measured(folder, slower(percent), devices=gpus(count))
    for place in range(count):
        down = place in hot
        run.samples(place, reasons=reasons if down else 0, temperature_c=91 if down else 61)
    run.finish()
    return run.report()


def test_heat_is_the_answer_to_which_gpu_is_slow(tmp_path: Path) -> None:
    """A throttled GPU is judged beside its siblings: slow, for heat, and what to do. They are judged as ever."""
    report = told(tmp_path)
    slow = report.stragglers[SLOW]
    assert verdicts(report.stragglers) == [
        SiblingVerdict.STRAGGLER if at == SLOW else SiblingVerdict.OK for at in range(8)
    ]
    assert slow.percent == pytest.approx(70, abs=0.3)
    assert slow.reason is Reason.HEAT
    assert slow.reason_text.startswith("its driver held it down for 100% of the measured time in ")
    assert slow.reason_text.endswith(" inference fp32 b8 (loaded; hardware thermal slowdown, up to 91 degrees C)")
    assert slow.next_step == stragglers.NEXT_STEP[Reason.HEAT]
    assert slow.not_comparable == {}
    assert any(one.startswith("GPU 3 is a STRAGGLER: ") and "probably heat" in one for one in report.verdict.reasons)
    values = [value for spread in report.cross_gpu for value in spread.values]
    assert {value.not_comparable for value in values} == {None, "throttled"}
    percents = [value.percent_of_median for value in values if value.gpu_id == SLOW]
    assert percents == [pytest.approx(70, abs=0.5)] * 2
    assert all(spread.spread_percent is not None and spread.spread_percent < 2 for spread in report.cross_gpu)


def test_the_heat_map_and_the_text_show_how_slow_heat_makes_it(tmp_path: Path) -> None:
    """Its fields have figures and a frame, though they are in no median and no spread."""
    report = told(tmp_path)
    section = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "spread")
    (plot,) = section.charts[0].plots
    assert isinstance(plot, Heat)
    assert {box.marked for box in plot.boxes if box.column == SLOW} == {True}
    assert {box.text[:1] for box in plot.boxes if box.column == SLOW} <= {"6", "7"}
    assert all("throttled" in box.says for box in plot.boxes if box.column == SLOW)
    (of_markdown,) = (line for line in to_markdown(report).splitlines() if line.startswith("| GPU 3 | STRAGGLER |"))
    assert "hardware thermal slowdown, up to 91 degrees C) | look at its cooling" in of_markdown
    lines = to_text(report).splitlines()
    assert all("GPU 3" not in line for line in lines if line.startswith("| resnet50 infer"))
    (row,) = (line.split() for line in lines if line.startswith("  resnet50 infer"))
    assert row[-5] in {"69.9", "70.0", "70.1"}


@pytest.mark.parametrize(("reasons", "reason"), [(BRAKE, Reason.POWER), (HARDWARE, Reason.CLOCK)])
def test_the_driver_says_what_holds_a_gpu_down(tmp_path: Path, reasons: int, reason: Reason) -> None:
    """A brake is the power supply's, and a slowdown that it does not explain is the clock's."""
    assert told(tmp_path, reasons=reasons).stragglers[SLOW].reason is reason


def test_a_gpu_that_cannot_be_judged_is_named_all_the_same(tmp_path: Path) -> None:
    """Beside one sibling, and where all eight are too hot: no verdict, but SLOWED DOWN, why, and what next."""
    for name, count, hot in (("pair", 2, {1}), ("all", 8, set(range(8)))):
        report = told(tmp_path / name, hot, count=count)
        for at, one in enumerate(report.stragglers):
            assert one.verdict is SiblingVerdict.NONE
            assert (one.word, one.reason) == (("SLOWED DOWN", Reason.HEAT) if at in hot else ("no verdict", None))
        text = " ".join(to_text(report).split())
        assert text.count("next: look at its cooling") == len(hot)
        assert "SLOWED DOWN: GPU 1, at 00000000:19:00.0, serial" in text
        of_page = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "spread")
        shown = [row[1].text for row in of_page.tables[0].rows]  # type: ignore[union-attr]  # the column of badges
        assert shown == [one.word for one in report.stragglers]


def test_a_hot_gpu_as_fast_as_its_siblings_is_named_too(tmp_path: Path) -> None:
    """It is OK by its speed, and still held down."""
    report = told(tmp_path, percent=1)
    assert (report.stragglers[SLOW].verdict, report.stragglers[SLOW].word) == (SiblingVerdict.OK, "SLOWED DOWN")
    assert "SLOWED DOWN: GPU 3, " in to_text(report)


def test_times_that_do_not_settle_for_heat_are_judged(tmp_path: Path) -> None:
    """A clock that goes up and down never gets steady: elsewhere a reason for no verdict, here what was asked for."""
    run = measured(tmp_path, slower(30), steady_state=SteadyState.NONE)
    for place in range(8):
        run.samples(place, reasons=THERMAL if place == SLOW else 0)
    run.finish()
    assert run.report().stragglers[SLOW].not_comparable == {}
    assert run.report().stragglers[0].not_comparable == {sibling_cells.UNSTEADY: 2}


def test_a_hot_gpu_does_not_blur_what_is_said_of_the_others(tmp_path: Path) -> None:
    """Its launches differ by half; those of its siblings are as certain as without it."""
    wild = iter(factor for _ in range(99) for factor in (1.0, 2.0, 1.5))
    run = measured(tmp_path / "wild", lambda place, cell: next(wild) if place == SLOW else 1.0)
    calm = measured(tmp_path / "calm")
    for one in (run, calm):
        for place in range(8):
            one.samples(place, reasons=THERMAL if place == SLOW else 0)
        one.finish()
    hot, without = run.report().stragglers, calm.report().stragglers
    assert hot[0].effects == without[0].effects
    assert hot[SLOW].effects != without[SLOW].effects


def test_a_gpu_too_hot_in_a_full_node_alone_says_so(tmp_path: Path) -> None:
    """Solo it is as fast as any; loaded it is slow, and the reason is told of that mode."""
    run = measured(tmp_path, slower(20, only=Mode.LOADED), modes=BOTH)
    for place in range(8):
        run.samples(place, reasons=THERMAL if place == SLOW else 0)
    run.finish()
    slow = run.report().stragglers[SLOW]
    assert slow.verdict is SiblingVerdict.STRAGGLER
    assert slow.why.startswith("loaded: ")
    assert slow.reason is Reason.HEAT


def test_a_lower_power_limit_is_the_reason_though_there_is_no_verdict(tmp_path: Path) -> None:
    """It is slow by order: which limit, and how to see it."""
    devices = list(gpus(8))
    devices[SLOW] = msgspec.structs.replace(devices[SLOW], power_limit_w=500.0)
    run = measured(tmp_path, slower(20), devices=devices)
    run.finish()
    slow = run.report().stragglers[SLOW]
    assert (slow.verdict, slow.word, slow.reason) == (SiblingVerdict.NONE, "SLOWED DOWN", Reason.POWER)
    assert slow.reason_text == "its power limit is 500 W, that of its siblings 700 W"
    assert "limit of its siblings" in slow.next_step


def test_two_limits_as_frequent_as_each_other_are_no_ones_usual_limit(tmp_path: Path) -> None:
    """Four GPUs at 700 W and four at 500 W: neither half is told that it is below its siblings."""
    devices = [msgspec.structs.replace(gpu, power_limit_w=700.0 if gpu.gpu_id < 4 else 500.0) for gpu in gpus(8)]
    assert [throttled_gpus.by_its_limit(device, devices) for device in devices] == [None] * 8
    assert throttled_gpus.by_its_limit(devices[4], devices[:5]) is not None
