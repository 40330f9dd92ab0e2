"""Reports to render, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.config import catalogue
from orchestrator.figures.report import Report
from protocol.cell import ModelSpec, Workload
from protocol.failure import Category
from tests.fakes.browser import Browser
from tests.fakes.pages import many
from tests.fakes.runs import FakeRun, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.driver.quit()


def measured(folder: Path, models: tuple[ModelSpec, ...]) -> Report:
    """One GPU, these models and all probes, every phase, one failed cell."""
    probes = tuple(model for model in catalogue.load().models if model.type == "probe")
    run = FakeRun(folder, models=models, probes=probes, workloads=EVERYTHING, batch_sizes=(1, 8))
    for place, cell in enumerate(run.stored.plan.cells):
        if cell.model == "vae" and cell.workload is Workload.TRAINING and cell.batch_size > 1:
            stderr = 'Traceback (most recent call last):\n  File "report.py", line 12\nRuntimeError: <b>CUDA</b>'
            run.failed(cell, Category.CUDA_STICKY, message="illegal address", evidence={"stderr": stderr})
        else:
            run.measured(cell, forward_ms=3.0 + place % 17 * cell.batch_size**0.7, blocks=1, iterations=20)
    run.finish()
    return run.report()


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One GPU and all models."""
    return measured(tmp_path_factory.mktemp("zoo"), catalogue.load().models)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Four GPUs and nine models: of every kind, with a long name, and two that are sorted by their numbers."""
    names = (
        "bert-base",
        "gpt2",
        "qwen2.5-0.5b",
        "resnet50",
        "resnet101",
        "efficientnet-b0",
        "stylegan2-critic",
        "vae",
        "lstm",
    )
    return many(measured(tmp_path_factory.mktemp("node"), shipped(*names)), 4)
