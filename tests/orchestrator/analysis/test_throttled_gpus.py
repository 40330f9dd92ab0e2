"""A GPU that its driver or a lower limit held down: named with the reason, also where siblings show nothing."""

import re
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import sibling_cells, standings, throttled_gpus
from orchestrator.analysis.cross_gpu import THROTTLED
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.gpu.telemetry.clock_events import CLOCK_EVENT_REASONS
from orchestrator.report.as_text import to_text
from orchestrator.report.charts.types import Heat
from orchestrator.report.html.page import page
from orchestrator.stats.slowdown_reasons import Reason
from orchestrator.stats.stragglers import SiblingVerdict
from protocol.cell import Mode
from protocol.result import SteadyState
from tests.fakes.runs import gpus
from tests.orchestrator.analysis.test_standings import BOTH, SLOW, measured, slower, verdicts

THERMAL = 0x40
BRAKE = 0x80
HARDWARE = 0x08


def reported(
    folder: Path,
    hot: Collection[int] = (SLOW,),
    *,
    percent: float = 30,
    count: int = 8,
    reasons: int = THERMAL,
    only: Mode | None = None,
    **changes: object,
) -> Report:
    """A run in which these GPUs are held down at 91 degrees, and GPU 3 is slower by so much."""
    run = measured(folder, slower(percent, only=only), devices=gpus(count), **changes)
    for place in range(count):
        down = place in hot
        run.samples(place, reasons=reasons if down else 0, temperature_c=91 if down else 61)
    return run.ended()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """GPU 3 of eight is too hot, and 30 % slower."""
    return reported(tmp_path_factory.mktemp("hot"))


def test_a_throttled_gpu_is_compared_with_its_siblings(report: Report) -> None:
    """It is slow, for heat, with the next step. Its siblings are judged as ever."""
    slow = report.stragglers[SLOW]
    assert verdicts(report.stragglers) == [
        SiblingVerdict.STRAGGLER if at == SLOW else SiblingVerdict.OK for at in range(8)
    ]
    assert slow.percent == pytest.approx(70, abs=0.3)
    assert (slow.reason, slow.next_step) == (Reason.HEAT, standings.NEXT_STEP[Reason.HEAT])
    carried = ("100%", "inference fp32 b8", CLOCK_EVENT_REASONS[THERMAL], "91 °C")
    assert [part for part in carried if part not in slow.reason_text] == []
    assert slow.not_comparable == {}
    assert any(re.match(f"GPU 3 .*STRAGGLER: .*{Reason.HEAT}", one) for one in report.verdict.reasons)
    values = [value for spread in report.cross_gpu for value in spread.values]
    assert {value.not_comparable for value in values} == {None, THROTTLED}
    percents = [value.percent_of_median for value in values if value.gpu_id == SLOW]
    assert percents == [pytest.approx(70, abs=0.5)] * 2
    assert all((spread.spread_percent or 99) < 2 for spread in report.cross_gpu)


def test_the_heat_map_and_the_text_show_how_slow_heat_makes_it(report: Report) -> None:
    """Its fields have figures and a frame, though they are in no median and no spread."""
    section = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "spread")
    (plot,) = section.charts[0].plots
    assert isinstance(plot, Heat)
    boxes = [box for box in plot.boxes if box.column == SLOW]
    assert {(box.marked, round(float(box.text.strip("%")), -1)) for box in boxes} == {(True, 70)}
    assert all(THROTTLED in box.says for box in boxes)
    lines = to_text(report).splitlines()
    assert all("GPU 3" not in line for line in lines if line.startswith("| resnet50 infer"))
    (row,) = (line.split() for line in lines if line.startswith("resnet50 infer"))
    assert row[-5] in {"69.9", "70.0", "70.1"}


@pytest.mark.parametrize(("reasons", "reason"), [(BRAKE, Reason.POWER), (HARDWARE, Reason.CLOCK)])
def test_the_driver_reports_what_holds_a_gpu_down(tmp_path: Path, reasons: int, reason: Reason) -> None:
    """A brake is the power supply's, and a slowdown that it does not explain is the clock's."""
    assert reported(tmp_path, reasons=reasons).stragglers[SLOW].reason is reason


@pytest.mark.parametrize(("count", "hot"), [(2, {1}), (8, set(range(8)))])
def test_a_gpu_without_siblings_to_judge_it_is_named_all_the_same(tmp_path: Path, count: int, hot: set[int]) -> None:
    """Beside one sibling, and where all eight are too hot: no verdict, but SLOWED DOWN, why, and the next step."""
    report = reported(tmp_path, hot, count=count)
    for at, one in enumerate(report.stragglers):
        expected = ("SLOWED DOWN", Reason.HEAT) if at in hot else ("no verdict", None)
        assert (one.verdict, one.word, one.reason) == (SiblingVerdict.NONE, *expected)
    section = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "stragglers")
    shown = [row[1].text for row in section.tables[0].rows]  # type: ignore[union-attr]  # the column of badges
    assert shown == [one.word for one in report.stragglers]


def test_times_that_do_not_settle_for_heat_are_judged(tmp_path: Path) -> None:
    """Unsteady times exclude the siblings, and not the GPU whose clock goes up and down for heat."""
    found = reported(tmp_path, count=4, steady_state=SteadyState.NONE).stragglers
    assert (found[SLOW].not_comparable, found[0].not_comparable) == ({}, {sibling_cells.UNSTEADY: 2})


def test_a_hot_gpu_as_fast_as_its_siblings_is_named_too(tmp_path: Path) -> None:
    """It is OK by its speed, and still held down."""
    slow = reported(tmp_path, percent=1, count=4).stragglers[SLOW]
    assert (slow.verdict, slow.word) == (SiblingVerdict.OK, "SLOWED DOWN")


def test_a_hot_gpu_does_not_blur_the_effects_of_the_others(tmp_path: Path) -> None:
    """Its launches differ by half; those of its siblings are as certain as without it."""
    wild = iter(factor for _ in range(99) for factor in (1.0, 2.0, 1.5))
    found = []
    for name, factor in (("wild", lambda place, cell: next(wild) if place == SLOW else 1.0), ("calm", slower(0))):
        run = measured(tmp_path / name, factor)
        for place in range(8):
            run.samples(place, reasons=THERMAL if place == SLOW else 0)
        found.append(run.ended().stragglers)
    hot, without = found
    assert hot[0].effects == without[0].effects
    assert hot[SLOW].effects != without[SLOW].effects


def test_a_gpu_too_hot_in_a_full_node_only_has_the_mode_in_its_reason(tmp_path: Path) -> None:
    """Solo it is as fast as any; loaded it is slow."""
    slow = reported(tmp_path, percent=20, only=Mode.LOADED, modes=BOTH).stragglers[SLOW]
    assert (slow.verdict, slow.reason) == (SiblingVerdict.STRAGGLER, Reason.HEAT)
    assert slow.why.startswith(f"{Mode.LOADED}: ")


def test_a_lower_power_limit_is_the_reason_though_there_is_no_verdict(tmp_path: Path) -> None:
    """It is slow by order: which limit, and how to see it. Its siblings are judged without it."""
    devices = list(gpus(8))
    devices[SLOW] = msgspec.structs.replace(devices[SLOW], power_limit_w=500.0)
    found = measured(tmp_path, slower(20), devices=devices).ended().stragglers
    slow = found[SLOW]
    assert verdicts(found) == [SiblingVerdict.NONE if at == SLOW else SiblingVerdict.OK for at in range(8)]
    assert (slow.word, slow.reason) == ("SLOWED DOWN", Reason.POWER)
    ((why, cells),) = slow.not_comparable.items()
    assert (re.findall(r"\d+ W", why), cells, why in slow.why) == (["500 W", "700 W"], 2, True)
    assert re.findall(r"\d+ W", slow.reason_text) == ["500 W", "700 W"]
    assert slow.next_step == standings._OF_A_LIMIT


def test_two_limits_as_frequent_as_each_other_are_no_ones_usual_limit(tmp_path: Path) -> None:
    """Four GPUs at 700 W and four at 500 W: neither half is told that it is below its siblings."""
    devices = [msgspec.structs.replace(gpu, power_limit_w=700.0 if gpu.gpu_id < 4 else 500.0) for gpu in gpus(8)]
    assert [throttled_gpus.explain_power_limit(device, devices) for device in devices] == [None] * 8
    assert throttled_gpus.explain_power_limit(devices[4], devices[:5]) is not None
