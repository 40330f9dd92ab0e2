"""The text report of a whole zoo: all models at a glance, what the GPU reaches without one, what was left out."""

import re
from pathlib import Path

import pytest

from orchestrator.config import catalogue
from orchestrator.report import layout
from orchestrator.report.as_text import to_text
from protocol import floats
from protocol.cell import Precision, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


def line(text: str, begin: str) -> list[str]:
    """The words of the first line that begins so."""
    return next(found for found in text.splitlines() if found.startswith(begin)).split()


def test_the_whole_zoo_stays_readable(tmp_path: Path) -> None:
    """Every model that ships, on three GPUs: a line each before the tables, nothing wider than 80 columns."""
    every = catalogue.load().models
    probes = tuple(model for model in every if model.type == "probe")
    run = FakeRun(tmp_path, devices=gpus(3), models=every, probes=probes, workloads=EVERYTHING, batch_sizes=(32,))
    for cell in run.stored.plan.cells:
        slow = 10.5 if cell.devices[0] == run.stored.devices[2].uuid else 10.0
        run.measured(cell, forward_ms=slow, blocks=1, iterations=20)
    run.finish()
    text = to_text(run.report())
    assert max(layout.width(found) for found in text.splitlines()) == 80
    glance = text[text.index("\nModel  ") + 1 : text.index("Batch 1: forward time")]
    models = [model.name for model in every if model not in probes]
    assert len(models) == 18
    assert [found.split()[0] for found in glance.splitlines()[1:] if found] == models
    assert text.count("95.2") >= len(models)
    for name in models:
        assert any(found.strip().startswith(f"{name} infer fp32 b32 ") for found in text.splitlines())


def test_a_line_has_what_a_model_does_best(tmp_path: Path) -> None:
    """Forward time at batch 1, the highest rates with their batch, and tokens a second beside them."""
    run = FakeRun(tmp_path, models=shipped("gpt2", "lstm"), workloads=EVERYTHING, batch_sizes=(1, 8))
    run.everything(forward_ms=10.0)
    text = to_text(run.report())
    assert re.fullmatch(r"gpt2 +fp32 +10\.0 ms +[78]\d\d\.\d @8 +24\d\.\d @8 +320\.\d", " ".join(line(text, "gpt2 ")))
    assert len(line(text, "lstm ")) == len(line(text, "gpt2 ")) - 1


def test_columns_without_an_entry_are_left_out(tmp_path: Path) -> None:
    """Nobody was trained and nobody writes: the heading does not say so of every model."""
    run = FakeRun(tmp_path, models=shipped("vae", "lstm"), batch_sizes=(8,))
    run.everything()
    assert line(to_text(run.report()), "Model ") == ["Model", "Prec.", "Inference/s", "@B"]


def test_one_model_needs_no_overview(tmp_path: Path) -> None:
    """Its tables say it all."""
    run = FakeRun(tmp_path)
    run.everything()
    assert "Batch 1: forward time" not in to_text(run.report())


def test_doubts_and_gaps_show_at_a_glance(tmp_path: Path) -> None:
    """A figure in doubt has its mark, a missing one its word, and the line below explains both."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "lstm"), batch_sizes=(8,))
    run.measured(run.cell("resnet50", batch_size=8), steady_state=SteadyState.NONE)
    run.failed(run.cell("lstm", batch_size=8), Category.CRASHED)
    text = to_text(run.report())
    assert line(text, "resnet50 ")[-1] == "@8*"
    assert line(text, "lstm ")[-1] == "fail"
    assert "fail: failed; *: in doubt" in " ".join(text.split())


def test_input_sizes_have_lines_of_their_own(tmp_path: Path) -> None:
    """The size is named where a model has several, and only there."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "lstm"), batch_sizes=(8,), input_sizes=(224, 512))
    run.everything()
    text = to_text(run.report())
    assert line(text, "resnet50@224 ")[1] == line(text, "resnet50@512 ")[1] == "fp32"
    assert line(text, "lstm ")[1] == "fp32"


def test_generation_has_its_table(tmp_path: Path) -> None:
    """First token, later tokens and their percentiles, tokens a second; what did not arrive is said below."""
    run = FakeRun(tmp_path, models=shipped("gpt2"), workloads=(Workload.GENERATION,), batch_sizes=(1,))
    (cell,) = run.stored.plan.cells
    run.measured(cell, forward_ms=10.0, noise=0.0, generated_tokens=400 * 32)
    text = to_text(run.report())
    for row in (
        "  Generation (batch_size=1, fp32, 64 tokens after 512):",
        "    | First Token      | 50.0 ms     |",
        "    | Each Later Token | 2.38 ms     |",
        "    | Inter-Token p99  | 2.38 ms     |",
        "    | Whole Text       | 200.0 ms    |",
        "    | Tokens           | 160.0 tok/s |",
    ):
        assert row in text.splitlines(), row
    assert "batch 1: 12800 tokens arrived, 25600 were expected" in text


def test_probes_come_before_the_models(tmp_path: Path) -> None:
    """Rates in a table, what failed with its word."""
    probes = shipped("gemm", "hbm", "d2h")
    run = FakeRun(tmp_path, models=probes, probes=probes, precisions=(Precision.FP32, Precision.BF16))
    cells = {(cell.model, cell.precision): cell for cell in run.stored.plan.cells}
    gemm = cells["gemm", Precision.BF16]
    best = {**result(gemm, noise=0.0).series, "best": floats.pack([25.0])}
    run.measured(gemm, noise=0.0, flops_per_iteration=2e13, series=best)
    run.measured(
        cells["hbm", Precision.FP32], noise=0.0, bytes_per_iteration={"copy": 8 * 10**10, "triad": 12 * 10**10}
    )
    run.failed(cells["d2h", Precision.FP32], Category.CRASHED, message="killed by SIGSEGV")
    text = " ".join(to_text(run.report()).split())
    assert "| Matrix product, bf16 | 400.0 TFLOP/s | 800.0 TFLOP/s |" in text
    assert "| Device memory, copy | 4000.0 GB/s | |" in text
    assert "| Device memory, triad | 4000.0 GB/s | |" in text
    assert "| Device to host | failed | N/A |" in text
    assert "Device to host: crashed: killed by SIGSEGV" in text


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    """What no cell was planned for, once for each reason, with the devices where it does not hold for all of them."""
    run = FakeRun(
        tmp_path,
        devices=(gpus(1)[0], cpus(2)[1]),
        models=shipped("resnet50", "h2d"),
        probes=shipped("h2d"),
        input_sizes=(8, 224),
    )
    said = to_text(run.report()).partition("Not Measured")[2].partition("Overall Summary")[0]
    resnet, h2d = (" ".join(words.split()) for words in said.split("  - ")[1:])
    assert resnet.startswith("resnet50: takes ")
    assert "not 8" in resnet
    assert "(" not in resnet
    assert h2d.startswith("h2d: not applicable")
    assert "(cpu:1)" in h2d


@pytest.mark.parametrize("devices", [1, 2])
def test_what_was_dropped_is_listed_by_model(tmp_path: Path, devices: int) -> None:
    """One line for each model, whatever seconds each cell would have taken; the verdict is still passed."""
    run = FakeRun(tmp_path, devices=gpus(devices), models=shipped("resnet50", "lstm"), batch_sizes=(1, 8))
    for cell in run.stored.plan.cells:
        if cell.batch_size == 1:
            run.measured(cell)
        else:
            run.dropped(cell, f"dropped to keep 60 s: it would have taken {len(cell.model)} s, 2 s were left")
    run.finish()
    report = run.report()
    text = to_text(report)
    assert "Dropped to keep 60 s:\n  - resnet50: inference fp32 b8\n  - lstm: inference fp32 b8\n" in text
    assert (report.summary.cells.dropped, report.summary.cells.short_of_launches) == (2 * devices, 0)
    assert report.verdict.exit_code == 0
    told = f"{2 * devices} cells dropped: there was no time within the limit, which is no failure"
    assert told in " ".join(text.split())
