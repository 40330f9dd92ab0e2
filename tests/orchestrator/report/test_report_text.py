"""The report as text, for a terminal of 80 columns."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report import layout
from orchestrator.report.as_text import to_text
from orchestrator.report.numbers import count, duration, number
from orchestrator.report.text_models import without_readings
from orchestrator.system.plain_text import plain
from protocol.cell import Precision, Workload
from protocol.failure import Category, Phase
from tests.fakes.runs import FakeRun, cpus, gpus, shipped
from tests.fakes.tables import rows

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
HOSTILE = "\x1b]0;owned\x07\x1b[31m中文 " + "x" * 200 + "\r\n\u202e"


def widest(text: str) -> int:
    """Columns of the longest line, as a terminal counts them."""
    return max(layout.width(line) for line in text.splitlines())


def test_the_layout_is_that_of_the_requirements(tmp_path: Path) -> None:
    """Section 6.3: head, GPU, a table for each phase with its rows in order, summary."""
    run = FakeRun(tmp_path, workloads=EVERYTHING, batch_sizes=(32,))
    run.measured(run.cell(batch_size=32), blocks=20)
    run.measured(run.cell(workload=Workload.TRAINING, batch_size=32), blocks=20)
    run.measured(run.cell(workload=Workload.LOAD))
    run.samples()
    run.finish()
    text = to_text(run.report())
    assert text.startswith("=" * 80 + "\n" + " " * 26 + "PyTorch GPU Benchmark Report\n" + "=" * 80 + "\n\n")
    for line in (
        "Test Date: 2024-01-15 10:30:00 UTC",
        "  Device: NVIDIA H200",
        "  Memory: 143771 MB",
        "  Driver: 580.95.05",
        "ResNet-50 (CNN, 25.6M params)",
        "  Training (batch_size=32, fp32, input 224, channels_last):",
        "    +------------------+-------------+",
        "    | Metric           | Value       |",
        "    | Forward Time     | 10.0 ms     |",
        "    | Backward Time    | 20.0 ms     |",
        "    | Optimize Step    | 2.50 ms     |",
        "    | Total Iteration  | 32.5 ms     |",
        "    | Throughput       | 984.6 smp/s |",
        "    | Peak Memory      | 900.0 MB    |",
        "    | GPU Utilization  | 98.0%       |",
        "    | Power Draw       | 690.0 W     |",
        "Peak Memory Usage: 900.0 MB",
        "Verdict: COMPLETE",
    ):
        assert line in text.splitlines(), line
    assert text.endswith("\n" + "=" * 80 + "\n")
    assert widest(text) == 80


def test_a_stack_that_nobody_told_has_its_reason(tmp_path: Path) -> None:
    """Versions are those that workers reported with their results."""
    run = FakeRun(tmp_path)
    run.finish(interrupted=True, reason="SIGINT")
    assert "Stack: unknown, because no cell was measured" in to_text(run.report()).splitlines()


def test_eight_gpus_with_trouble_fit_into_80_columns(tmp_path: Path) -> None:
    """One GPU has its tables, all stand in the spread, failures have their words; the verdict stands last."""
    run = FakeRun(
        tmp_path,
        devices=gpus(8),
        models=shipped("bert-base", "resnet50", "lstm"),
        precisions=(Precision.FP32, Precision.BF16),
        workloads=EVERYTHING,
        batch_sizes=(1, 8, 32, 128, 1024),
    )
    for device in range(7):
        run.measured(run.cell(batch_size=1024, device=device), forward_ms=0.123)
    run.failed(run.cell(batch_size=1024, device=7), Category.OUT_OF_MEMORY, message="CUDA out of memory. " * 20)
    run.measured(run.cell(batch_size=1024, device=7), batch_size=512)
    for _ in range(25):
        run.failed(run.cell("lstm", device=3), Category.CRASHED, phase=Phase.MEASURE, message="killed by SIGSEGV")
    run.finish(interrupted=True, reason="SIGINT")
    text = to_text(run.report())
    assert widest(text) <= 80
    for gpu_id in range(8):
        assert f"GPU {gpu_id}: UUID GPU-0000000{gpu_id}-1111-2222-3333-444455556666" in text
    assert "resnet50 infer fp32 b1024" in text
    assert "NOT COMPARABLE: GPU 7 (ran at" in text
    assert "... and 6 more in the JSON report" in text
    assert "killed by SIGSEGV" in text
    assert text.index("Verdict: INCOMPLETE") > text.index("Overall Summary")


def test_names_of_others_are_harmless(tmp_path: Path) -> None:
    """Escapes, control characters, marks of direction and endless words neither move the cursor nor break a line."""
    model = msgspec.structs.replace(shipped("resnet50")[0], title=HOSTILE, type=HOSTILE)
    run = FakeRun(tmp_path, devices=gpus(2, name=HOSTILE, serial=HOSTILE), models=[model], hostname=HOSTILE)
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.EXCEPTION, message=HOSTILE)
    text = to_text(run.report())
    assert widest(text) <= 80
    assert all(character == "\n" or character.isprintable() for character in text)
    assert "\u202e" not in text
    assert "owned" not in text


def test_a_cpu_run_says_why_readings_are_missing(tmp_path: Path) -> None:
    """The reason once instead of rows without a value, and no performance verdict."""
    run = FakeRun(tmp_path, devices=cpus(2), batch_sizes=(1,), telemetry_note="there is no NVIDIA driver here")
    for device in (0, 1):
        run.measured(run.cell(device=device), blocks=1, iterations=19)
    run.finish()
    text = to_text(run.report())
    assert text.count("a CPU device has no NVML") == 1
    assert "N/A" not in text
    assert "fewer than 20 values: no interval" in text
    assert "no performance verdict" in " ".join(text.split())
    assert "Telemetry: there is no NVIDIA driver here" in text
    assert widest(text) <= 80


def test_what_stands_for_a_size_is_said_below_its_table(tmp_path: Path) -> None:
    """A referred and a degraded column say so, in a status row and in words."""
    run = FakeRun(tmp_path, batch_sizes=(4, 8, 32))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.failed(run.cell(batch_size=32), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=32), batch_size=16)
    text = " ".join(to_text(run.report()).split())
    assert "| Status | ok | referred | degraded |" in text
    assert "batch 32: measured at batch size 16: 32 ran out of memory" in text


def test_an_empty_run_has_a_text_too(tmp_path: Path) -> None:
    """Nothing was measured: the text says so, and nothing breaks."""
    text = to_text(FakeRun(tmp_path, workloads=EVERYTHING).report())
    assert "Verdict: INCOMPLETE" in text
    assert widest(text) <= 80


def test_what_no_cell_has_is_said_once(tmp_path: Path) -> None:
    """Short cells have no power and no utilisation: no rows of N/A, one line with the reason, no empty summary."""
    run = FakeRun(tmp_path, workloads=EVERYTHING, models=shipped("resnet50", "lstm"), batch_sizes=(1, 8), watched=False)
    for index, cell in enumerate(run.stored.plan.cells):
        run.measured(cell, blocks=1, iterations=20 + index)
    run.finish()
    text = to_text(run.report())
    assert "N/A" not in text
    assert "| GPU Utilization" not in text
    assert "Average GPU Utilization" not in text
    assert "Overall Performance Score" not in text
    sentence = "Where GPU Utilization or Power Draw is not given: no telemetry was recorded."
    assert " ".join(text.split()).count(sentence) == 1


def test_the_seconds_of_each_cell_make_no_reason_of_their_own(tmp_path: Path) -> None:
    """Cells that were measured for 0.2 s and for 0.4 s lack readings for the same reason; a long one has its row."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8, 32))
    run.measured(run.cell(batch_size=1), blocks=1, iterations=20)
    run.measured(run.cell(batch_size=8), blocks=1, iterations=40)
    run.measured(run.cell(batch_size=32), blocks=20, iterations=40)
    run.samples()
    text = " ".join(to_text(run.report()).split())
    assert "| Power Draw | N/A | N/A | 690.0 W |" in text
    assert "Power Draw is not given: utilisation, power and energy need 5 s of measuring. " in text


def test_a_reason_for_lacking_readings_is_told_once(tmp_path: Path) -> None:
    """Cells lack readings for several reasons at once, and not all for the same: each reason is told, once."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8, 32))
    run.everything()
    (result,) = run.report().results
    notes = ("short, this took 0.2 s; no driver", "short, this took 0.4 s", "no driver; no counter")
    metrics = {
        name: msgspec.structs.replace(metric, power_draw_w=None, telemetry_note=note)
        for (name, metric), note in zip(result.inference_metrics.items(), notes, strict=True)
    }
    lacking = msgspec.structs.replace(result, inference_metrics=metrics)
    assert "is not given: short; no driver; no counter." in " ".join(" ".join(without_readings([lacking])).split())


def test_the_spread_between_launches_has_its_row(tmp_path: Path) -> None:
    """Of several launches, also of so few iterations that a launch has no interval."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=3, iterations=5, warm_up_iterations=2)
    for launch, forward_ms in enumerate((10.0, 10.0, 12.5)):
        run.measured(run.cell(batch_size=8), number=launch, forward_ms=forward_ms, blocks=1, iterations=5, noise=0.0)
    text = to_text(run.report())
    assert "    | Launch Spread    | 20.0%       |" in text
    assert "| 95% Interval" not in text
    assert "fewer than 20 values: no interval" in text
    alone = FakeRun(tmp_path / "alone")
    alone.everything()
    assert "| Launch Spread" not in to_text(alone.report())


@given(st.text(max_size=300), st.integers(0, 40))
def test_wrapped_text_never_leaves_the_line(text: str, indent: int) -> None:
    """Whatever is wrapped, no line is wider than 80 columns, and no word is lost."""
    lines = list(layout.wrap(text, " " * indent, "  "))
    assert all(layout.width(line) <= 80 for line in lines)
    assert "".join("".join(lines).split()) == "".join(plain(text).split())


@given(st.text(max_size=300) | st.just("a number that Unicode has not given away: \u0380"))
def test_text_of_others_is_printable(text: str) -> None:
    """Nothing that steers a terminal, turns the direction of writing, or that no font can know."""
    assert plain(text).isprintable()
    assert plain(f"a \u200b b{text}").startswith("a b")  # what is taken out leaves no second blank


@given(st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), min_size=1, max_size=5))
def test_tables_never_leave_the_line(rows: list[list[str]]) -> None:
    """Whatever stands in a table, its frame is straight and at most 80 columns wide."""
    lines = layout.table(("A", "B", "C", "D"), rows, "    ", (16, 11))
    assert len({layout.width(line) for line in lines}) == 1
    assert layout.width(lines[0]) <= 80


def test_what_does_not_fit_into_a_field_goes_on_below() -> None:
    """Names that differ in their last word, or in one in the middle, are told apart; a long one keeps both its ends."""
    names = [f"GPU {gpu} resnet50 inference fp32 b1 input {size}" for gpu in (0, 1) for size in (224, 512)]
    table = [(name, "< 100 ms", "12.3 ms, measured alone", "NOT COMPARABLE") for name in names]
    lines = layout.table(("Cell", "Target", "Actual", "Status"), table, "  ")
    assert {layout.width(line) for line in lines} == {layout.WIDTH}
    assert rows("\n".join(lines))[1:] == table
    first, *_, last = layout.beside(f"begins {'x' * 4000} ends", 20, " 1.0", "  ")
    assert (first, last[-5:]) == ("  begins               1.0", " ends")
    assert len([*layout.beside("x" * 4000, 20, "")]) == layout.MOST_LINES


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.123"), (9.999, "10.0"), (8.25, "8.25"), (4500.84, "4500.8"), (None, "N/A")]
)
def test_numbers_have_as_many_digits_as_mean_something(value: float | None, text: str) -> None:
    """Three decimals below one, two below ten, one above."""
    assert number(value) == text


def test_counts_and_durations_are_short() -> None:
    """As people say them."""
    assert [count(value) for value in (109_514_298, 25_557_032, 5_216_208, 999)] == ["110M", "25.6M", "5.2M", "999"]
    assert [duration(seconds) for seconds in (42, 150, 180, 750, 28_680)] == [
        "42 seconds",
        "2 min 30 s",
        "3 minutes",
        "12 minutes",
        "7 h 58 min",
    ]
