"""The report as text, for a terminal of 80 columns."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from orchestrator.report import text
from orchestrator.report.as_text import to_text
from orchestrator.report.numbers import count, duration, number
from orchestrator.report.sections import Column, Section, Table, texts
from orchestrator.system.plain_text import plain
from protocol.cell import Precision, Workload
from protocol.failure import Category, Phase
from tests.fakes.runs import FakeRun, gpus, shipped
from tests.fakes.tables import rows


def lines_of(table: Table) -> list[str]:
    """The lines of a table."""
    return list(text.lines(Section("one", "", tables=(table,))))[:-1]


EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
HOSTILE = "\x1b]0;owned\x07\x1b[31m中文 " + "x" * 200 + "\r\n\u202e"


def widest(text: str) -> int:
    """Terminal columns of the longest line."""
    return max(cell_len(line) for line in text.splitlines())


def test_eight_gpus_with_trouble_fit_into_80_columns(tmp_path: Path) -> None:
    """One GPU has tables, all are in the spread, failures have their words; the verdict is last."""
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
    shown = to_text(run.report())
    assert widest(shown) <= 80
    for gpu_id in range(8):
        assert f"GPU {gpu_id}: UUID GPU-0000000{gpu_id}-1111-2222-3333-444455556666" in shown
    assert "resnet50 infer fp32 b1024" in shown
    assert "NOT COMPARABLE: GPU 7 (ran at" in shown
    assert "... and 6 more" in shown
    assert "killed by SIGSEGV" in shown
    assert shown.index("Verdict: INCOMPLETE") < shown.index("GPU Information")
    assert shown.rindex("Verdict: INCOMPLETE") > shown.index("Overall Summary")


def test_foreign_names_are_harmless(tmp_path: Path) -> None:
    """Escapes, direction marks and endless words neither move the cursor nor break a line."""
    model = msgspec.structs.replace(shipped("resnet50")[0], title=HOSTILE, type=HOSTILE)
    run = FakeRun(tmp_path, devices=gpus(2, name=HOSTILE, serial=HOSTILE), models=[model], hostname=HOSTILE)
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.EXCEPTION, message=HOSTILE)
    shown = to_text(run.report())
    assert widest(shown) <= 80
    assert all(character == "\n" or character.isprintable() for character in shown)
    assert "\u202e" not in shown
    assert "owned" not in shown


def test_an_empty_run_has_a_text_too(tmp_path: Path) -> None:
    """With its verdict."""
    shown = to_text(FakeRun(tmp_path, workloads=EVERYTHING).report())
    assert "Verdict: INCOMPLETE" in shown
    assert widest(shown) <= 80


@given(st.text(max_size=300), st.integers(0, 40))
def test_wrapped_text_never_leaves_the_line(words: str, indent: int) -> None:
    """No line is wider than 80 columns, and no word is lost."""
    lines = list(text.wrap(words, " " * indent, "  "))
    assert all(cell_len(line) <= 80 for line in lines)
    assert "".join("".join(lines).split()) == "".join(plain(words).split())


@given(st.text(max_size=300) | st.just("a number that Unicode has not given away: \u0380"))
def test_foreign_text_is_printable(text: str) -> None:
    """No control of a terminal, no direction marks, no unassigned characters."""
    assert plain(text).isprintable()
    assert plain(f"a \u200b b{text}").startswith("a b")  # what is taken out leaves no second blank


@given(st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), min_size=1, max_size=5))
def test_tables_never_leave_the_line(rows: list[list[str]]) -> None:
    """Frames are straight and at most 80 columns wide."""
    lines = lines_of(Table("", tuple(Column(title, least=11) for title in "ABCD"), tuple(map(tuple, rows))))
    assert len({cell_len(line) for line in lines}) == 1
    assert cell_len(lines[0]) <= 80


def test_long_entries_are_folded() -> None:
    """Similar names stay distinct; a long one keeps both ends."""
    names = [f"GPU {gpu} resnet50 inference fp32 b1 input {size}" for gpu in (0, 1) for size in (224, 512)]
    table = [(name, "< 100 ms", "12.3 ms, measured alone", "NOT COMPARABLE") for name in names]
    lines = lines_of(Table("", texts("Cell", "Target", "Actual", "Status"), tuple(table)))
    assert {cell_len(line) for line in lines} == {text.WIDTH}
    assert rows("\n".join(lines))[1:] == table
    long = lines_of(Table("", texts("Name", "Rate"), ((f"begins {'x' * 4000} ends", "1.0"),), framed=False))
    assert (long[1].split(), long[-1].split()[-1]) == (["begins", "1.0"], "ends")
    assert len(long) == 1 + text.MOST_LINES


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
