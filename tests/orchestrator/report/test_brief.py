"""What a terminal shows after a run: the right answer, in few lines, for runs with planted causes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.config.catalogue import is_probe
from orchestrator.figures.exit_code import Cause, CauseKind, run_verdict
from orchestrator.figures.report import Report
from orchestrator.kinds import registry
from orchestrator.report.as_brief import sections, to_brief
from orchestrator.report.chapters import overview
from orchestrator.report.chapters.best import best
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.gpu_differences import EQUAL_PERCENT, differences
from orchestrator.report.sections import Finding, Section, Tone
from protocol.cell import Cell, ModelSpec, Precision, Workload
from protocol.failure import Category
from tests.fakes.configurations import shipped_catalogue
from tests.fakes.runs import FakeRun, gpus, shipped

DETAILS = ("Report: /data/benchmark_report.json", "Report: /data/benchmark_report.html", "Full: …")
FACTORS = {Precision.FP32: 1.0, Precision.BF16: 0.4}
PHASES = (Workload.INFERENCE, Workload.TRAINING)
LOST, SLOW = 1, 2
CRASHING = {("bert-large", Workload.TRAINING), ("gpt2", Workload.GENERATION)}
WORK: Final[dict[str, dict[str, Any]]] = {
    "hbm": {"bytes_per_iteration": {"copy": 10**9, "triad": 10**9}},
    "gemm": {"flops_per_iteration": 1e12},
}
"""Of an iteration of each probe."""
LITTLE = {"blocks": 2, "iterations": 12}


def measured(
    folder: Path,
    count: int,
    models: Sequence[ModelSpec],
    batches: tuple[int, ...],
    *,
    factor: Callable[[int, Cell], float] = lambda place, cell: 1.0,
    workloads: tuple[Workload, ...] = PHASES,
) -> FakeRun:
    """A run in which batch 1 waits for the host, and the largest batch in bf16 is the fastest.

    factor: of the time of a cell, by the number of its GPU; 0 where it does not fit.
    """
    run = FakeRun(
        folder,
        devices=gpus(count),
        models=models,
        batch_sizes=batches,
        workloads=workloads,
        precisions=tuple(FACTORS),
    )
    cells = {cell.id: cell for cell in run.stored.plan.cells}
    for place, queue in enumerate(run.stored.plan.order.values()):
        for cell_id, number in queue:
            cell = cells[cell_id]
            time_ms = 10 * FACTORS[cell.precision] * factor(place, cell)
            if not time_ms:
                run.failed(cell, Category.OUT_OF_MEMORY, number=number)
                continue
            bound = {"launch_bound": cell.batch_size == 1}
            run.measured(cell, number=number, forward_ms=time_ms, **LITTLE, **bound)
    return run


def shown(report: Report, columns: int = 80) -> list[str]:
    layout = registry.of_report(report).layout
    lines = to_brief(report, layout, DETAILS, columns=columns).splitlines()
    assert max(map(cell_len, lines)) <= columns
    return lines


def part(report: Report, name: str) -> Section:
    found = sections(report, registry.of_report(report).layout)
    return next(one for one in found if one.id == name)


def badges(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(str(one.badge), one.title) for one in findings]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Four GPUs that are alike, three models."""
    models = shipped("resnet50", "bert-base", "lstm")
    return measured(tmp_path_factory.mktemp("run") / "run", 4, models, (1, 8, 32)).ended()


@pytest.mark.parametrize("columns", [80, 120])
def test_four_gpus_and_three_models_fit_25_lines(healthy: Report, columns: int) -> None:
    """With where the rest is, at 80 columns and at more."""
    assert len(shown(healthy, columns)) <= 25


def test_the_answer_comes_before_what_casts_doubt_on_it(healthy: Report, faulty: Report) -> None:
    """Faults and the best configurations are first. The first batch and precision are among the first 40 words."""
    order = [one.id for one in sections(healthy, DEFAULT)]
    assert order == ["result", "gpus", "best", "warnings", "next"]
    assert [one.id for one in sections(faulty, DEFAULT)] == [*order[:-1], "probes", "next"]
    words = " ".join(shown(healthy)).split()
    row = words.index("resnet50")
    assert words[row + 2 : row + 4] == ["32", "bf16"]
    assert row + 4 <= 40


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Eight GPUs and all models: GPU 1 is lost, GPU 2 slow."""
    return node_of_eight(tmp_path_factory.mktemp("run") / "run", lost=LOST, slow=SLOW)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Eight healthy GPUs and all models."""
    return node_of_eight(tmp_path_factory.mktemp("run") / "run")


def node_of_eight(folder: Path, *, lost: int | None = None, slow: int | None = None) -> Report:
    """All models on GPUs, one of which may be lost or slow. Models crash or wait for the host. Energy is known."""
    models = [model for model in shipped_catalogue().models if not (is_probe(model) or model.on_request)]
    assert len(models) == 17
    run = FakeRun(
        folder,
        devices=gpus(8),
        models=models,
        probes=shipped("hbm", "gemm"),
        batch_sizes=(8,),
        workloads=(*PHASES, Workload.GENERATION),
        precisions=tuple(FACTORS),
        launches=2,
    )
    cells = {cell.id: cell for cell in run.stored.plan.cells}
    places = {(device.uuid,): place for place, device in enumerate(run.stored.devices)}
    for cell_id, number in (one for queue in run.stored.plan.order.values() for one in queue):
        cell = cells[cell_id]
        if places[cell.devices] == lost:
            continue
        if (cell.model, cell.workload) in CRASHING:
            run.failed(cell, Category.CRASHED, number=number, message="killed by SIGSEGV")
            continue
        time_ms = 10 * FACTORS.get(cell.precision, 1.0) * (1.1 if places[cell.devices] == slow else 1.0)
        work = WORK.get(cell.model, {"flops_per_iteration": 1e11})
        once = {"load_s": 5.5 if number == 0 and cell.workload is not Workload.PROBE else 0.0}
        run.measured(
            cell, number=number, forward_ms=time_ms, launch_bound=cell.model == "lstm", **LITTLE, **work, **once
        )
    if lost is not None:
        first = next(cell for cell in cells.values() if places[cell.devices] == lost)
        run.failed(first, Category.DEVICE_LOST, message="Xid 79")
        run.quarantined("Xid 79", lost)
    for place in range(8):
        run.samples(place, reasons=0, sm_clock_mhz=1_350 if place == slow else 1_500)
    return run.ended()


@pytest.mark.parametrize("columns", [80, 120])
def test_eight_gpus_and_all_models_fit_40_lines(large: Report, columns: int) -> None:
    """Each model has its line, although cells fail or wait for the host."""
    lines = shown(large, columns)
    assert len(lines) <= 40
    models = {cell.model_name for cell in large.cells} - {*WORK}
    assert all(any(line.startswith(f"  {model} ") for line in lines) for model in models)


@pytest.mark.parametrize("columns", [80, 120])
def test_what_to_do_with_a_gpu_comes_before_the_figures(faulty: Report, columns: int) -> None:
    """In 40 lines too: each slow or broken GPU has its evidence and its next step."""
    lines = shown(faulty, columns)
    assert len(lines) <= 40
    assert sum("to do: " in line for line in lines) == 2
    assert not any("..." in line for line in lines)
    for badge, number in (("FAIL", LOST), ("STRAGGLER", SLOW)):
        assert any(re.search(rf"{badge}  GPU {number}: ", line) for line in lines)
    cells = faulty.summary.cells
    assert any(f"{cells.failed} failed, {cells.missing} missing" in line for line in lines)
    assert min(cells.failed, cells.missing) > 8


@pytest.mark.parametrize("columns", [80, 120])
def test_the_best_configurations_show_every_known_figure(large: Report, columns: int) -> None:
    """Speed-up, share of the matrix rate and energy of each phase, at each width."""
    header = " ".join(line.strip() for line in shown(large, columns) if line.startswith("  Model "))
    phases = ("infer/s bs prec x % smp/J", "train/s bs prec x % smp/J", "tokens/s bs prec x % tok/J")
    assert [" ".join(part.split()) for part in re.findall(r"\S+/s .*?/J", header)] == [*phases]


def test_which_configuration_is_the_best_of_each_model(healthy: Report) -> None:
    """The batch, the precision and the speed-up over fp32 at that batch, for each phase."""
    section = best(healthy)
    assert section is not None
    (table,) = section.tables
    titles = [column.title for column in table.columns]
    assert titles == ["Model", "inference/s", "batch", "prec.", "x fp32", "training/s", "batch", "prec.", "x fp32"]
    assert {row[0] for row in table.rows} == {"resnet50", "bert-base", "lstm"}
    assert {row[2:5] for row in table.rows} == {row[6:9] for row in table.rows} == {("32", "bf16", "2.5")}
    assert all(float(str(row[1])) == pytest.approx(32 / 0.004, rel=0.01) for row in table.rows)


@pytest.mark.parametrize(("share", "decimals"), [(1.0, True), (0.1, False)])
def test_high_rates_have_no_decimals(tmp_path: Path, share: float, *, decimals: bool) -> None:
    """So that the table keeps its width."""
    report = measured(tmp_path / "run", 1, shipped("lstm"), (8,), factor=lambda *_: share).ended()
    (table,) = part(report, "best").tables
    assert ("." in str(table.rows[0][1])) is decimals


def test_gpus_are_compared_over_the_cells_that_can_show_a_difference(healthy: Report) -> None:
    """Those that wait for the host on any of them cannot."""
    (one,) = differences(healthy)
    assert (one.cells, one.judging) == (36, 24)
    assert one.range_percent < 0.5


def test_which_gpu_is_slow(tmp_path: Path) -> None:
    """A GPU that takes 10 % longer leads the list, with how much it is."""
    report = measured(
        tmp_path / "run", 4, shipped("resnet50"), (8,), factor=lambda place, _: 1.1 if place == SLOW else 1.0
    ).ended()
    (one,) = differences(report)
    uuid = report.gpu_info[SLOW].gpu_uuid
    assert one.percent[uuid] == pytest.approx(-9.1, abs=0.5)
    assert re.search(r": GPU 2 up to 9\.1%", part(report, "gpus").notes[0])


@pytest.mark.parametrize("longer", [1.03, 1.2])
def test_of_two_gpus_the_slower_is_compared_with_the_faster(tmp_path: Path, longer: float) -> None:
    """Their median would halve the difference. Two cannot show which of them is slow."""
    slow = 1
    report = measured(
        tmp_path / "run", 2, shipped("resnet50"), (8,), factor=lambda place, _: longer if place == slow else 1.0
    ).ended()
    (one,) = differences(report)
    assert one.percent[report.gpu_info[slow].gpu_uuid] == pytest.approx(100 / longer - 100, abs=0.5)
    assert re.search(rf"GPU 1 .*\b{int(100 - 100 / longer)}\.", part(report, "gpus").notes[0])
    assert any("--compare-baseline" in step for step in part(report, "next").summary) is (longer == 1.2)


def test_a_gpu_that_is_slow_in_few_cells_is_not_called_equal(tmp_path: Path) -> None:
    """Its median over the cells is that of the others, so only single cells show it."""

    def factor(place: int, cell: Cell) -> float:
        return 1.4 if place == SLOW and cell.batch_size == 32 and cell.workload is Workload.TRAINING else 1.0

    report = measured(tmp_path / "run", 4, shipped("resnet50", "bert-base"), (8, 32), factor=factor).ended()
    (one,) = differences(report)
    ((uuid, lag),) = one.lagging.items()
    assert (uuid, lag.cells) == (report.gpu_info[SLOW].gpu_uuid, 4)
    assert lag.percent == pytest.approx(100 - 100 / 1.4, abs=0.5)
    assert one.range_percent <= EQUAL_PERCENT
    assert not one.are_equal
    assert any("triage" in step for step in part(report, "next").summary)


def test_a_batch_that_fits_on_one_gpu_of_four_is_not_the_best(tmp_path: Path) -> None:
    """The figures of a configuration are medians of most GPUs."""
    models = shipped("resnet50")
    run = measured(tmp_path / "run", 4, models, (8, 32), factor=lambda place, cell: place == 0 or cell.batch_size == 8)
    (table,) = part(run.ended(), "best").tables
    ((_, _, batch, *_),) = table.rows
    assert batch == "8"


def test_a_gpu_with_a_verdict_is_found_before_all_figures(tmp_path: Path) -> None:
    """Verdict first, then the evidence, then what to do."""
    models = shipped("resnet50", "bert-base")
    run = FakeRun(tmp_path / "run", devices=gpus(8), models=models, batch_sizes=(8,), launches=3)
    run.everything(factor=lambda place, *_: 1.1 if place == SLOW else 1.0, **LITTLE)
    for place in range(8):
        run.samples(place, reasons=0, sm_clock_mhz=1_350 if place == SLOW else 1_500)
    report = run.ended()
    found, others = part(report, "gpus").findings
    assert (str(found.badge), str(others.badge)) == ("STRAGGLER", "PASS")
    verdict = overview.verdict(report, DEFAULT)
    assert (verdict.text, verdict.tone) == ("GPU 2 slow, COMPLETE", Tone.WARN)
    assert found.title.startswith("GPU 2: ")
    assert len(found.lines) == 2
    lines = shown(report)
    assert next(at for at, line in enumerate(lines) if "STRAGGLER" in line) < 4
    missed = run_verdict([Cause(kind=CauseKind.MISSED, text="too slow. Why")], ())
    assert part(replace(report, verdict=missed), "limits").summary == ("too slow",)


def test_which_gpu_is_broken(tmp_path: Path) -> None:
    """The verdict of the run, then the GPU whose hardware failed."""
    run = FakeRun(tmp_path / "run", devices=gpus(4), batch_sizes=(8,))
    run.failed(run.cell(batch_size=8, device=1), Category.DEVICE_LOST, message="Xid 79")
    run.quarantined("Xid 79", 1)
    for place in (0, 2, 3):
        run.measured(run.cell(batch_size=8, device=place), **LITTLE)
    report = run.ended()
    (verdict,) = part(report, "result").findings
    assert str(verdict.badge) == "HARDWARE FAULT, GPU 1 faulty"
    assert badges(part(report, "gpus").findings)[0][0] == "FAIL"
    assert badges(part(report, "gpus").findings)[0][1].startswith("GPU 1")


def test_a_lost_gpu_hides_no_slow_one(tmp_path: Path) -> None:
    """The others are compared with each other, as far as they can be."""
    run = FakeRun(tmp_path / "run", devices=gpus(4), batch_sizes=(8,))
    run.failed(run.cell(batch_size=8, device=1), Category.DEVICE_LOST, message="Xid 79")
    run.quarantined("Xid 79", 1)
    for place in (0, 2, 3):
        run.measured(run.cell(batch_size=8, device=place), forward_ms=11.0 if place == 2 else 10.0, **LITTLE)
    (found,) = differences(run.ended())
    assert [device.gpu_id for device in found.group.devices] == [0, 2, 3]
    assert found.percent[run.stored.devices[2].uuid] == pytest.approx(-9, abs=1)


def test_warnings_of_a_kind_are_one_line_with_their_number(healthy: Report) -> None:
    """A third of the results wait for the host."""
    (words,) = part(healthy, "warnings").summary
    assert re.match(r"48 of 144 cells ", words)


def test_only_a_terminal_gets_colours(healthy: Report) -> None:
    """Without them the text is the same."""
    plain, coloured = (to_brief(healthy, DEFAULT, DETAILS, colour=wanted) for wanted in (False, True))
    assert "\x1b" not in plain
    assert "\x1b[32mCOMPLETE\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_foreign_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """Of models, devices and files."""
    hostile = "\x1b[2Jhostile\r"
    models = shipped("resnet50")
    run = FakeRun(tmp_path / "run", devices=gpus(2, name=hostile), models=models, hostname=hostile)
    run.everything(**LITTLE)
    made = to_brief(run.ended(), DEFAULT, (f"Report: {hostile}",))
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", made)
    assert "\x1b[2J" not in to_brief(run.report(), DEFAULT, (hostile,), colour=True)
