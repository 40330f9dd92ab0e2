"""All GPUs of a node against the baseline of their board: made-up runs."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import standings
from orchestrator.compare import references, run_figures, shipped_baselines
from orchestrator.compare.references import Against
from orchestrator.compare.run_figures import Side
from orchestrator.figures.report import Report
from orchestrator.report.chapters.stragglers import stragglers as chapter
from orchestrator.stats import beside_baseline
from orchestrator.stats.stragglers import SiblingVerdict
from protocol.cell import Mode
from protocol.exit_codes import ExitCode
from tests.fakes.runs import FakeRun, gpus, shipped

MODELS = ("resnet50", "bert-base", "lstm", "gpt2")


def report_of(folder: Path, rate: Callable[[int], float] = lambda _: 1.0, count: int = 8, **changes: object) -> Report:
    """Inference of four models on some GPUs, each at a share of the usual rate, launches that differ by 0.3 %."""
    run = FakeRun(
        folder, devices=gpus(count), models=shipped(*MODELS), batch_sizes=(8,), launches=3, modes=(Mode.SOLO,)
    )

    def factor(place: int, cell: object, number: int) -> float:
        return (1 + random.Random(f"{place} {cell} {number}").gauss(0, 0.003)) / rate(place)

    run.everything(factor=factor, blocks=2, **changes)
    return run.ended()


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Side:
    """A healthy GPU, measured earlier."""
    side = run_figures.of_report(report_of(tmp_path_factory.mktemp("baseline"), count=1), "board")
    return msgspec.structs.replace(side, run_id="20260101-000000-000000", baseline_version=1)


def verdicts(report: Report) -> list[SiblingVerdict]:
    """In the order of the GPUs."""
    return [one.verdict for one in report.stragglers]


def test_eight_gpus_that_are_slow_alike_are_found(tmp_path: Path, baseline: Side) -> None:
    """10 % slower than the baseline and like each other: each is named, and the run has it among its reasons."""
    run = report_of(tmp_path, lambda _: 0.9)
    assert verdicts(run) == [SiblingVerdict.OK] * 8
    for held in (references.hold(run, Against(baseline=baseline)), references.hold(run, Against(), [baseline])):
        assert verdicts(held) == [SiblingVerdict.BELOW_BASELINE] * 8
        assert all(one.baseline_percent == pytest.approx(90, abs=1) for one in held.stragglers)
        assert all(one.next_step for one in held.stragglers)
        assert sum(SiblingVerdict.BELOW_BASELINE in reason for reason in held.verdict.reasons) == 8
        assert held.verdict.exit_code == ExitCode.PASSED


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_gpus_without_siblings_are_judged(tmp_path: Path, baseline: Side, slow: int) -> None:
    """Two GPUs have no verdict beside each other, and each has one beside the baseline."""
    run = report_of(tmp_path, lambda place: 0.9 if place < slow else 1.0, count=2)
    assert verdicts(run) == [SiblingVerdict.NONE] * 2
    held = references.hold(run, Against(), [baseline])
    assert verdicts(held) == [SiblingVerdict.BELOW_BASELINE] * slow + [SiblingVerdict.OK] * (2 - slow)


def test_host_bound_cells_do_not_judge_a_gpu(tmp_path: Path, baseline: Side) -> None:
    """A slow host makes them slow, while the GPU waits."""
    run = report_of(tmp_path, lambda _: 0.9, count=2, launch_bound=True)
    assert verdicts(references.hold(run, Against(), [baseline])) == [SiblingVerdict.NONE] * 2


def test_a_single_gpu_that_is_slow_is_shown(tmp_path: Path, baseline: Side) -> None:
    """Other runs of one GPU have no chapter about siblings."""
    run = report_of(tmp_path, lambda _: 0.9, count=1)
    assert chapter(run) is None
    (found, _) = chapter(references.hold(run, Against(), [baseline])).findings
    assert found.badge.text == SiblingVerdict.BELOW_BASELINE


@pytest.mark.parametrize(
    ("rates", "slow"), [((0.9, 1.0), SiblingVerdict.BELOW_BASELINE), ((1.0, 1.11), SiblingVerdict.OK)]
)
def test_a_baseline_settles_a_split_node(
    tmp_path: Path, baseline: Side, rates: tuple[float, float], slow: SiblingVerdict
) -> None:
    """Five are slow, or three are exceptional; no reason of the run says SPLIT any more."""
    run = report_of(tmp_path, lambda place: rates[place >= 5])
    assert verdicts(run) == [SiblingVerdict.SPLIT] * 8
    assert {one.next_step for one in run.stragglers} == {standings.OF_A_SPLIT}
    assert sum(SiblingVerdict.SPLIT in reason for reason in run.verdict.reasons) == 1
    held = references.hold(run, Against(), [baseline])
    assert verdicts(held) == [slow] * 5 + [SiblingVerdict.OK] * 3
    assert not any(SiblingVerdict.SPLIT in reason for reason in held.verdict.reasons)


@pytest.mark.parametrize(
    "changed",
    [
        lambda one: msgspec.structs.replace(one, stack={**one.stack, "torch": "1.0"}),
        lambda one: msgspec.structs.replace(
            one, devices=tuple(msgspec.structs.replace(device, power_limit_w=500.0) for device in one.devices)
        ),
        lambda one: msgspec.structs.replace(one, cells=one.cells[:3]),
        lambda one: msgspec.structs.replace(one, run_id="20240115-103000-abcd"),
    ],
    ids=["another torch", "another power limit", "three cells", "the same run"],
)
def test_what_is_no_baseline_of_the_board_says_nothing(
    tmp_path: Path, baseline: Side, changed: Callable[[Side], Side]
) -> None:
    """The verdicts stay as they are."""
    run = report_of(tmp_path, lambda _: 0.9, count=4)
    assert references.hold(run, Against(), [changed(baseline)]) == run


def test_the_shipped_baseline_is_that_of_its_board() -> None:
    """By the name that the driver gives."""
    assert [one.name for one in shipped_baselines.of_boards({"NVIDIA H200"})] == ["h200-141gb-all", "h200-141gb"]
    assert shipped_baselines.of_boards({"NVIDIA T4"}) == shipped_baselines.of_boards(set()) == ()


@pytest.mark.parametrize("cells", [4, 6, 30])
def test_the_effect_finds_ten_percent_and_no_healthy_gpu(cells: int) -> None:
    """Cells that differ by 1 %, one of them by 16 % for another reason: of 200 GPUs each."""
    found = {0.9: 0, 1.0: 0}
    for lost in found:
        for seed in range(200):
            chance = random.Random(seed)
            ratios = [lost * math.exp(chance.gauss(0, 0.01)) for _ in range(cells)]
            ratios[0] *= 0.84
            found[lost] += beside_baseline.effect(ratios, 0.05).p <= 0.05 / 8
    assert found[1.0] == 0
    assert found[0.9] >= (190 if cells > 4 else 100)
    assert beside_baseline.effect([0.5, 0.5], 0.05) is None
