"""Reports to render, and a browser."""

from collections.abc import Iterator

import pytest

from orchestrator.config import catalogue
from orchestrator.figures.report import Report
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.browser import Browser
from tests.fakes.pages import many
from tests.fakes.runs import FakeRun

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.driver.quit()


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One GPU, all models, every phase, one failed cell."""
    every = catalogue.load().models
    probes = tuple(model for model in every if model.type == "probe")
    folder = tmp_path_factory.mktemp("node")
    run = FakeRun(folder, models=every, probes=probes, workloads=EVERYTHING, batch_sizes=(1, 8))
    for place, cell in enumerate(run.stored.plan.cells):
        if cell.model == "vae" and cell.workload is Workload.TRAINING and cell.batch_size > 1:
            stderr = 'Traceback (most recent call last):\n  File "report.py", line 12\nRuntimeError: <b>CUDA</b>'
            run.failed(cell, Category.CUDA_STICKY, message="illegal address", evidence={"stderr": stderr})
        else:
            run.measured(cell, forward_ms=3.0 + place % 17 * cell.batch_size**0.7, blocks=1, iterations=20)
    run.finish()
    return run.report()


@pytest.fixture(scope="session")
def node(zoo: Report) -> Report:
    """Four GPUs like it."""
    return many(zoo, 4)
