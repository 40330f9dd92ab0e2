"""A run that is gone on with from another environment: said as it is resumed, and in its report."""

import platform
import re
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from orchestrator.config import libraries
from orchestrator.config.libraries import Torch
from orchestrator.report.as_text import to_text
from orchestrator.state import stack_changes
from protocol.cell import Workload
from protocol.result import Environment
from tests.fakes import faults
from tests.fakes.node import Node
from tests.fakes.runs import FakeRun

INSTALLED = Environment(
    python=platform.python_version(),
    torch="2.15.0+cu132",
    torchvision=metadata.version("torchvision"),
    transformers=metadata.version("transformers"),
    threads=1,
    collector_enabled=False,
    isolation="fork",
)
"""What is here now, as a launch would tell it."""


@pytest.fixture(autouse=True)
def torch_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever torch is installed really."""
    monkeypatch.setattr(libraries, "torch_cuda", lambda: Torch(version="2.15.0+cu132", cuda="13.2"))


@pytest.mark.parametrize(
    ("changes", "driver", "words"),
    [
        ({"torch": "2.9.1+cu128"}, None, r"PyTorch 2\.9\.1\+cu128 .*PyTorch 2\.15\.0\+cu132, "),
        ({"python": "3.9.1"}, "1.2", r"Python 3\.9\.1 and driver 580\.95\.05 .*Python "),
        ({"torch": None, "torchvision": None}, None, ""),
        ({}, "580.95.05", ""),
    ],
)
def test_what_is_another_version_now_is_named(
    tmp_path: Path, changes: dict[str, str | None], driver: str | None, words: str
) -> None:
    """Against the first result; what nobody knows, then or now, has not changed."""
    run = FakeRun(tmp_path)
    run.measured(run.cell(), environment=msgspec.structs.replace(INSTALLED, **changes))
    told = " ".join(stack_changes.warnings(run.archive(), driver))
    assert re.search(words, told)
    assert bool(words) == bool(told)


def test_a_run_without_results_was_begun_with_nothing(tmp_path: Path) -> None:
    """Nothing measured, or what was measured is damaged: the next result that can be read tells."""
    run = FakeRun(tmp_path)
    assert list(stack_changes.warnings(run.archive(), None)) == []
    run.measured(run.cell(batch_size=1), environment=msgspec.structs.replace(INSTALLED, torch="1.0"))
    run.measured(run.cell(batch_size=8), environment=INSTALLED)
    before = run.archive()
    before.folder(before.attempts[0]).result.write_bytes(b"damaged")
    assert list(stack_changes.warnings(before, None)) == []


def test_a_resume_from_another_environment_is_said(tmp_path: Path) -> None:
    """Before anything is measured there, on standard error, and before any figure in the report; the verdict stays."""
    models = (faults.model("good"), faults.model("more"))
    run = FakeRun(
        tmp_path / "run", devices=(faults.cpu(0),), models=models, workloads=(Workload.FAULT,), batch_sizes=(1,)
    )
    elsewhere = msgspec.structs.replace(INSTALLED, python="3.9.1", torch=None)
    run.measured(run.cell("good", Workload.FAULT), environment=elsewhere)
    run.finish(interrupted=True, reason="stopped on request")
    node = Node(run.paths.folder)
    assert node.wait() == 0, node.output
    versions = rf"Python 3\.9\.1.*Python {re.escape(INSTALLED.python)}, "
    assert re.search(versions, " ".join(node.output.split()))
    assert re.search("Note: launches .* Python: ", " ".join(to_text(run.report()).split()))
    again = Node(run.paths.folder)
    assert again.wait() == 0, again.output
    assert not re.search(versions, " ".join(again.output.split())), "nothing goes on: it is over"
