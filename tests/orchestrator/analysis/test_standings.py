"""Which GPU of a run is slower than its siblings, why, and what a full node loses: runs of made-up GPUs."""

import random
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import sibling_cells
from orchestrator.analysis.standings import NEXT_STEP
from orchestrator.figures.cells import Status
from orchestrator.figures.comparisons import FullNode, Standing
from orchestrator.figures.report import Report
from orchestrator.kinds.triage import TRIAGE
from orchestrator.report.as_text import to_text
from orchestrator.report.chapters.stragglers import full_node
from orchestrator.report.default_layout import DEFAULT
from orchestrator.stats.slowdown_reasons import Reason
from orchestrator.stats.stragglers import MOST_LAUNCHES, Bound, SiblingVerdict
from protocol.cell import Cell, Device, Mode, Workload
from protocol.exit_codes import ExitCode
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

BOTH = (Mode.LOADED, Mode.SOLO)
SLOW = 3
Factor = Callable[[int, Cell], float]


def slower(percent: float, *, only: Mode | None = None) -> Factor:
    """GPU 3 takes longer by so much, in both modes or in one."""
    return lambda place, cell: 1 / (1 - percent / 100) if place == SLOW and only in (None, cell.mode) else 1.0


def measured(
    folder: Path,
    factor: Factor = lambda place, cell: 1.0,
    *,
    devices: Sequence[Device] = (),
    modes: tuple[Mode, ...] = (Mode.LOADED,),
    launches: int = 3,
    noise: float = 0.002,
    **changes: object,
) -> FakeRun:
    """Inference of two models on eight GPUs, launches that differ by `noise`, and what `factor` makes of the times."""
    run = FakeRun(
        folder,
        devices=tuple(devices) or gpus(8),
        models=shipped("resnet50", "bert-base"),
        batch_sizes=(8,),
        launches=launches,
        modes=modes,
    )

    def share(place: int, cell: Cell, number: int) -> float:
        chance = random.Random(f"{place} {cell.model} {number}")  # the same in both modes
        return factor(place, cell) * (1 + chance.gauss(0, noise))

    run.everything(factor=share, blocks=2, **changes)
    return run


def standings(run: FakeRun) -> list[Standing]:
    """By the number of the GPU."""
    return list(run.ended().stragglers)


def verdicts(found: Sequence[Standing]) -> list[SiblingVerdict]:
    """In the order of the GPUs."""
    return [one.verdict for one in found]


def test_a_gpu_that_is_5_percent_slower_is_a_straggler_and_its_clock_is_why(tmp_path: Path) -> None:
    """Named with its share, the cells where it shows, the reason from its clock, and the next step; no exit code."""
    run = measured(tmp_path, slower(5))
    for place in range(8):
        run.samples(place, reasons=0, sm_clock_mhz=1_425 if place == SLOW else 1_500)
    report = run.ended()
    assert verdicts(report.stragglers) == [
        SiblingVerdict.STRAGGLER if at == SLOW else SiblingVerdict.OK for at in range(8)
    ]
    slow = report.stragglers[SLOW]
    assert slow.percent == pytest.approx(95, abs=0.3)
    assert (slow.low_percent or 0) < slow.percent < (slow.high_percent or 0) < 97
    assert (slow.low_percent, slow.reason, "5.0%" in slow.reason_text) == (pytest.approx(95, abs=2), Reason.CLOCK, True)
    assert slow.next_step == NEXT_STEP[Reason.CLOCK]
    assert {effect.cell for effect in slow.slowest_cells} == {
        f"{model} inference fp32 b8" for model in ("resnet50", "bert-base")
    }
    assert {(effect.bound, effect.margin_percent) for effect in slow.effects} == {(Bound.CLOCK, 4.0)}
    assert report.verdict.exit_code == ExitCode.PASSED
    assert any(re.match("GPU 3 .*STRAGGLER: 5", reason) for reason in report.verdict.reasons)


def test_the_slower_gpus_of_a_split_node_have_a_reason(tmp_path: Path) -> None:
    """Beside the faster ones: beside their own majority nothing of them differs."""
    run = measured(tmp_path, lambda place, _: 1.11 if place < 5 else 1.0)
    for place in range(8):
        run.samples(place, reasons=0, sm_clock_mhz=1_350 if place < 5 else 1_500)
    found = standings(run)
    assert verdicts(found) == [SiblingVerdict.SPLIT] * 8
    assert [one.reason for one in found] == [Reason.CLOCK] * 5 + [None] * 3
    assert all("10.0%" in one.reason_text for one in found[:5])


@pytest.mark.parametrize(
    "factor",
    [
        slower(4),
        lambda place, cell: 1 + 0.027 * place / 7,  # as eight H200s did at their power limit: somebody is always last
    ],
    ids=["4 %", "2.7 %"],
)
def test_at_the_power_limit_healthy_gpus_differ_by_more(tmp_path: Path, factor: Factor) -> None:
    """The driver reports what bounds a cell: none is a straggler for it."""
    run = measured(tmp_path, factor)
    for place in range(8):
        run.samples(place, reasons=4)
    report = run.ended()
    assert verdicts(report.stragglers) == [SiblingVerdict.OK] * 8
    assert {effect.bound for one in report.stragglers for effect in one.effects} == {Bound.POWER}
    assert not any(SiblingVerdict.STRAGGLER in reason for reason in report.verdict.reasons)


@pytest.mark.parametrize(
    ("changes", "carried"),
    [
        ({"devices": gpus(3)}, ("3", "4")),  # of so many, and so many are needed
        ({"devices": gpus(1)}, ("only",)),
        ({"devices": cpus(4)}, ("CPU",)),
        ({"devices": gpus(4, slice_of="GPU-a")}, ("slices",)),
        ({"launches": 1}, ("one launch",)),
        ({"steady_state": SteadyState.NONE}, (sibling_cells.UNSTEADY,)),
    ],
)
def test_no_verdict_has_its_reason(tmp_path: Path, changes: dict[str, object], carried: tuple[str, ...]) -> None:
    """Too few GPUs, CPU devices, slices, one launch, times that had not settled: never a guess, always the fact."""
    found = standings(measured(tmp_path, slower(20), **changes))  # type: ignore[arg-type]  # each of its own type
    assert set(verdicts(found)) == {SiblingVerdict.NONE}
    assert all(word in one.why for one in found for word in carried)
    assert all((one.percent, one.reason, one.slowest_cells) == (None, None, ()) for one in found)


def test_kinds_of_gpus_are_judged_apart(tmp_path: Path) -> None:
    """Four of one kind get a verdict beside three of another, which get none."""
    other = tuple(msgspec.structs.replace(one, name="NVIDIA H100") for one in gpus(7)[4:])
    found = standings(measured(tmp_path, slower(8), devices=(*gpus(4), *other)))
    assert verdicts(found) == [*[SiblingVerdict.OK] * 3, SiblingVerdict.STRAGGLER, *[SiblingVerdict.NONE] * 3]
    assert [one.identical for one in found] == [4] * 4 + [3] * 3


def test_a_gpu_that_is_slow_in_a_full_node_alone_is_found(tmp_path: Path) -> None:
    """Modes are judged apart: over both together it would be 3 % slower, which is within the margin."""
    found = standings(measured(tmp_path, slower(6, only=Mode.LOADED), modes=BOTH))
    slow = found[SLOW]
    assert slow.verdict is SiblingVerdict.STRAGGLER
    assert slow.why.startswith("loaded: 6.")
    assert {effect.mode for effect in slow.slowest_cells[:2]} == {"loaded"}
    assert {effect.mode: round(effect.percent) for effect in slow.effects} == {"loaded": 94, "solo": 100}
    assert verdicts(found[:SLOW] + found[SLOW + 1 :]) == [SiblingVerdict.OK] * 7


def test_two_modes_are_two_questions(tmp_path: Path) -> None:
    """Each p counts double where the same launches are judged in both, as it must for as many false alarms."""
    once = standings(measured(tmp_path / "one", slower(4.3)))[SLOW]
    twice = standings(measured(tmp_path / "both", slower(4.3), modes=BOTH))[SLOW]
    assert once.p is not None
    assert 1e-6 < once.p < 0.5
    assert twice.p == pytest.approx(2 * once.p)


def test_a_suspect_says_how_many_launches_would_tell(tmp_path: Path) -> None:
    """Launches that differ by 3 % settle nothing at the margin."""
    run = measured(tmp_path, slower(3), noise=0.03)
    found = standings(run)[SLOW]
    assert (found.verdict, found.launches_wanted) == (SiblingVerdict.SUSPECT, MOST_LAUNCHES)
    assert f"--launches {MOST_LAUNCHES}" in to_text(run.report())


def test_a_triage_tells_who_is_slow_first_and_little_else(tmp_path: Path) -> None:
    """Above the spread, without the tables of each model; of one GPU alone too, of which other runs say nothing."""
    made = [measured(tmp_path / "node", slower(8)).ended(), measured(tmp_path / "one", devices=gpus(1)).ended()]
    node, one, plain = (
        [section.id for chapter in layout.text if (section := chapter(of))]
        for of, layout in ((made[0], TRIAGE.layout), (made[1], TRIAGE.layout), (made[1], DEFAULT))
    )
    assert node.index("stragglers") < node.index("spread")
    assert "models" not in node
    assert ("stragglers" in one, "stragglers" in plain) == (True, False)


def test_cells_that_differ_in_size_have_names_of_their_own(tmp_path: Path) -> None:
    """The same model at two input sizes is two cells."""
    run = FakeRun(tmp_path, devices=gpus(4), batch_sizes=(8,), input_sizes=(224, 512), launches=2)
    run.everything(factor=lambda place, *_: 2.0 if place == SLOW else 1.0)
    assert {effect.cell for effect in standings(run)[SLOW].slowest_cells} == {
        f"resnet50 inference fp32 b8 input {size}" for size in (224, 512)
    }


@pytest.mark.parametrize(("waits", "verdict"), [(range(8), SiblingVerdict.NONE), ({SLOW}, SiblingVerdict.STRAGGLER)])
def test_what_waits_for_the_host_on_most_gpus_accuses_nobody(
    tmp_path: Path, waits: Collection[int], verdict: SiblingVerdict
) -> None:
    """It measures the host. A GPU that waits alone is slow, whatever makes it."""
    run = FakeRun(tmp_path, devices=gpus(8), models=shipped("resnet50", "bert-base"), batch_sizes=(8,), launches=3)
    cells = {cell.id: cell for cell in run.stored.plan.cells}
    for place, queue in enumerate(run.stored.plan.order.values()):
        for cell_id, number in queue:
            forward_ms = (12.0 if place == SLOW else 10.0) + 0.01 * (number % 2)
            run.measured(cells[cell_id], number=number, forward_ms=forward_ms, launch_bound=place in waits)
    assert standings(run)[SLOW].verdict is verdict


def test_loading_accuses_nobody(tmp_path: Path) -> None:
    """It measures the page cache: a GPU whose loads are slow is not judged by them."""
    run = FakeRun(tmp_path, devices=gpus(8), batch_sizes=(8,), workloads=(Workload.LOAD,), launches=3)
    run.everything(factor=lambda place, *_: 5.0 if place == SLOW else 1.0)
    assert {one.verdict for one in standings(run)} == {SiblingVerdict.NONE}


# ── what a full node loses ────────────────────────────────────────────────────────────────────────────────────────────


def lost(report: Report) -> dict[tuple[int, str], FullNode]:
    """By GPU and model."""
    return {(one.gpu_id, one.model_name): one for one in report.full_node}


def test_solo_over_loaded_is_a_result_for_each_cell_and_gpu(tmp_path: Path) -> None:
    """Loaded launches take a tenth longer on GPU 1, and a hundredth elsewhere; the interval holds the truth."""
    run = measured(
        tmp_path,
        lambda place, cell: (1.1 if place == 1 else 1.01) if cell.mode is Mode.LOADED else 1.0,
        devices=gpus(4),
        modes=BOTH,
    )
    report = run.ended()
    found = lost(report)
    assert len(found) == 8
    one = found[1, "resnet50"]
    assert one.ratio == pytest.approx(1.1, abs=0.01)
    assert one.lost_percent == pytest.approx(100 / 11, abs=0.8)
    assert 1 < (one.low or 0) < 1.1 < (one.high or 0) < 1.13
    assert found[0, "resnet50"].lost_percent == pytest.approx(1, abs=0.8)
    assert "GPU 1 (9." in " ".join(to_text(report).split())


def test_a_run_of_one_mode_loses_nothing(tmp_path: Path) -> None:
    """There is nothing to hold its cells against."""
    run = measured(tmp_path, devices=gpus(4))
    report = run.ended()
    assert (report.full_node, full_node(report)) == ((), None)


def test_what_shrank_in_one_mode_has_no_ratio(tmp_path: Path) -> None:
    """Another batch size, or no result: the fact stands in the place of the ratio."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), modes=BOTH)
    for cell in run.stored.plan.cells:
        if cell.devices != (run.stored.devices[1].uuid,):
            run.measured(cell, batch_size=4 if cell.mode is Mode.SOLO else 8)
        elif cell.mode is Mode.SOLO:
            run.measured(cell)
    first, second = run.ended().full_node
    assert [one.ratio for one in (first, second)] == [None, None]
    assert re.findall(r"\d+", first.not_comparable or "") == ["4", "8"]
    assert second.not_comparable == f"loaded: no result: {Status.MISSING}"


def test_models_are_shown_for_each_mode_and_compared_with_their_own_probes(tmp_path: Path) -> None:
    """Alone gemm is twice as fast: what a model reaches is a share of that alone, and of the other in a full node."""
    models = shipped("gemm", "resnet50")
    run = FakeRun(tmp_path, devices=gpus(2), models=models, probes=models[:1], batch_sizes=(8,), modes=BOTH)
    for cell in run.stored.plan.cells:
        alone = cell.mode is Mode.SOLO
        flops = 1e12 if cell.workload is Workload.PROBE else 1e11
        run.measured(
            cell, forward_ms=5.0 if alone and cell.workload is Workload.PROBE else 10.0, flops_per_iteration=flops
        )
    report = run.ended()
    shares = {
        one.mode: one.inference_metrics["batch_size_8"].plausibility.gemm_percent
        for one in report.results
        if one.gpu_id == 0
    }
    assert shares["loaded"] == pytest.approx(2 * (shares["solo"] or 0.0), rel=0.05)
    rows = [" ".join(line.split()[1:4]) for line in to_text(report).splitlines()]
    assert rows.index("gemm fp32 loaded") < rows.index("gemm fp32 solo")
