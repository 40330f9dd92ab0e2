"""What frames the tables of the text report: its head, the time beside measuring, its summary."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.config.run_configuration import Configuration
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.html import overview
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, gpus

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)


@pytest.mark.parametrize(
    ("iterations", "warm_up", "words"),
    [
        (5, 2, "1 launch a cell, 5 iterations after 2 of warm-up, "),
        (1, None, "1 launch a cell, 1 iteration after an adaptive warm-up, "),
        (None, 2, "1 launch a cell, 2 iterations of warm-up, "),
        (None, None, "1 launch a cell, solo, "),
    ],
)
def test_the_head_says_which_iterations_were_fixed(
    tmp_path: Path, iterations: int | None, warm_up: int | None, words: str
) -> None:
    """Numbers given with -i and -w stand in the head; where times decided, nothing does."""
    run = FakeRun(tmp_path, iterations=iterations, warm_up_iterations=warm_up)
    text = " ".join(to_text(run.report()).split())
    assert f"Measured: profile quick, {words}" in text


def test_launches_on_several_stacks_are_not_compared_in_silence(tmp_path: Path) -> None:
    """In text, page and Markdown, before any figure, and the verdict is what it was; nothing where all ran on one."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    ran_on = result(run.cell(batch_size=1)).environment
    run.measured(run.cell(batch_size=1))
    run.segment(driver_version="999.1")
    run.measured(run.cell(batch_size=8), environment=msgspec.structs.replace(ran_on, torch="2.9.1", cuda="12.8"))
    run.finish()
    report = run.report()
    words = "launches of this run differ in PyTorch, CUDA, driver: their figures are not comparable with each other"
    text = " ".join(to_text(report).split())
    assert text.index(f"Note: {words}.") < text.index("Model Performance Summary")
    assert f"Note: {words}." in list(overview.notices(report))
    assert f"- {words}" in to_markdown(report).splitlines()
    assert report.verdict.exit_code == 0
    alike = FakeRun(tmp_path / "alike")
    alike.everything()
    assert "differ in" not in to_text(alike.report())


class Quick(FakeRun):
    """A run of `quick --light`."""

    def asked(self, configuration: Configuration) -> Configuration:
        """With that preset."""
        return msgspec.structs.replace(configuration, preset="light", time_limit_s=60.0)


def test_a_preset_is_named_before_its_profile(tmp_path: Path) -> None:
    """`quick` is a command and a profile; what was asked for is the preset. In text and page."""
    report = Quick(tmp_path).report()
    assert "Measured: preset light, profile quick, 1 launch a cell" in " ".join(to_text(report).split())
    assert ("Preset", "light") in list(overview.facts(report))
    assert "Preset" not in dict(overview.facts(FakeRun(tmp_path / "other").report()))


def test_the_text_says_what_a_megabyte_is(tmp_path: Path) -> None:
    """Once, in the head."""
    assert to_text(FakeRun(tmp_path).report()).count("1 MB = 1024 x 1024 bytes") == 1


def test_overhead_is_told_by_workload(tmp_path: Path) -> None:
    """No median over a mixture of loading and training; and what belongs to overhead is said."""
    run = FakeRun(tmp_path, workloads=EVERYTHING, batch_sizes=(8,))
    spent = result(run.cell(workload=Workload.LOAD)).ledger
    for workload, build_ms in ((Workload.LOAD, 0.0), (Workload.INFERENCE, 100.0), (Workload.TRAINING, 200.0)):
        cell = run.cell(workload=workload, batch_size=1 if workload is Workload.LOAD else 8)
        run.measured(cell, ledger=msgspec.structs.replace(spent, build_ms=build_ms))
    text = " ".join(to_text(run.report()).split())
    assert "a launch cost from 400.0 ms (load) to 600.0 ms (training) (isolation fork)" in text
    assert "Start, import, context, build, count, record and teardown belong to that overhead." in text


def test_one_workload_has_one_cost(tmp_path: Path) -> None:
    """No range of one."""
    run = FakeRun(tmp_path)
    run.everything()
    assert "a launch cost 520.0 ms (inference) (isolation fork)" in " ".join(to_text(run.report()).split())


def test_made_up_cells_have_no_tables(tmp_path: Path) -> None:
    """A run of the fault workload alone has no figures: no chapter of performance, no table without columns."""
    run = FakeRun(tmp_path, workloads=(Workload.FAULT,), batch_sizes=(1,))
    run.measured(run.cell(workload=Workload.FAULT))
    run.finish()
    text = to_text(run.report())
    assert "Time Beside Measuring" not in text
    assert "Model Performance Summary" not in text
    assert "+-" not in text
    assert "Verdict: COMPLETE" in text


def test_only_resumes_that_did_something_are_counted(tmp_path: Path) -> None:
    """A finished run that is resumed twice more was gone on with once."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    assert "Resumed" not in to_text(run.report())
    run.segment()
    run.measured(run.cell(batch_size=8))
    run.segment()
    run.segment()
    run.finish()
    assert "Resumed: 1 time\n" in to_text(run.report())


def test_the_summary_names_the_device_and_what_happened_alone(tmp_path: Path) -> None:
    """The best throughput has its device; of the cells, what did not happen is not listed, the rest is in words."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(4, 8, 32))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.failed(run.cell(batch_size=32), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=32), batch_size=16)
    run.measured(run.cell(batch_size=4, device=1), forward_ms=1.0)
    text = " ".join(to_text(run.report()).split())
    assert "Best Throughput: resnet50 @ batch_size=4 (4000." in text
    assert "smp/s, inference, fp32, GPU 1)" in text
    assert (
        "Cells: 6 planned, 2 ok, 1 degraded (measured at a smaller batch size), "
        "1 referred (measured as another planned batch size), 2 missing "
    ) in text
    assert "failed" not in text.partition("Cells:")[2].partition("Verdict")[0]
