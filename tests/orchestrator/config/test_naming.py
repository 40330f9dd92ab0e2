"""How models are called where people look: apart where two of them are alike but for their size or their file."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.config.naming import shortened, sized
from orchestrator.report.as_text import to_text
from orchestrator.state.stopping import OUT_OF_TIME
from protocol.cell import Cell
from protocol.failure import Category, Phase
from tests.fakes.runs import FakeRun, shipped


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("resnet50", "resnet50"),
        ("folder/mine.py:OwnStep", "…/mine.py:OwnStep"),
        ("12345678901234567", "12345678901234567"),
    ],
)
def test_the_front_of_a_long_name_is_cut(name: str, shown: str) -> None:
    """The end of an own model's name is what tells it from another of the same file."""
    assert shortened(name, 17) == shown
    assert len(shortened(name, 17)) <= 17


def test_two_models_of_one_file_look_different(tmp_path: Path) -> None:
    """In the overview of the report too."""
    (model,) = shipped("resnet50")
    names = ("/somewhere/else/models.py:First", "/somewhere/else/models.py:Second")
    run = FakeRun(tmp_path, models=[msgspec.structs.replace(model, name=name) for name in names], batch_sizes=(8,))
    run.everything()
    text = to_text(run.report())
    assert "\n...e/models.py:First " in text
    assert "\n.../models.py:Second " in text


def test_a_size_is_named_where_there_are_several() -> None:
    """And nowhere else."""
    assert sized("vae", 64, {64, 128}) == "vae@64"
    assert sized("vae", 64, {64}) == "vae"
    assert sized("lstm", None, {None}) == "lstm"


def test_the_report_names_sizes_of_what_failed_and_what_was_dropped(tmp_path: Path) -> None:
    """With two sizes of the same model; what the time limit ended is not said to be stopped on request."""
    run = FakeRun(tmp_path, models=shipped("vae"), batch_sizes=(1,), input_sizes=(64, 128))
    small, large = sorted(run.stored.plan.cells, key=by_size)
    run.failed(small, Category.STOPPED, message=OUT_OF_TIME, phase=Phase.WARM_UP)
    run.dropped(small, "dropped to keep the limit of 60 s: no time was left")
    run.dropped(large, "dropped to keep the limit of 60 s: no time was left")
    run.finish()
    text = " ".join(to_text(run.report()).split())
    assert re.search("vae@64 inference fp32 .* 1, attempt 1: .*time limit .*warm-up", text)
    assert re.search("- vae@64: [^-]*b1 - vae@128: [^-]*b1", text)
    assert "stopped on request" not in text


def by_size(cell: Cell) -> int:
    """Its input size."""
    assert cell.input_size is not None
    return cell.input_size
