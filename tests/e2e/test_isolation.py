"""The user's own code, by fork and by exec: as fresh one way as the other, and in processes of launches alone."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state.archive import Archive
from tests.e2e.test_own_models import run
from tests.fakes.commands import ROOT

WITNESS = """
import pathlib, torch
process = pathlib.Path("/proc/self/comm").read_text().strip()
with open("witnesses", "a") as file:
    print(process, file=file)

class Good(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 2)
    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 4)

class Bad(Good):
    def forward(self, x):
        return self.no_such_layer(x)
"""
SHADOW = """
models:
  - {name: shadow, class: transformers.Good, input_shape: [2, 4]}
"""


class OwnCode:
    """A run of three models whose code is the user's, by fork and PYTHONPATH or by exec and --pythonpath."""

    def __init__(self, folder: Path, isolation: Isolation) -> None:
        self.folder = folder
        library = folder / "library"
        (library / "transformers").mkdir(parents=True)
        (library / "transformers" / "__init__.py").write_text(WITNESS, encoding="utf-8")
        (folder / "net.py").write_text(WITNESS, encoding="utf-8")
        (folder / "mine.yaml").write_text(SHADOW, encoding="utf-8")
        self.good = ("shadow",) if isolation is Isolation.EXEC else ("shadow", "net.py:Good")
        models = ",".join((*self.good, "net.py:Bad"))
        words = f"--models-file mine.yaml -m {models} -b 2 --phases training --allow-code --isolation {isolation}"
        by_option = isolation is Isolation.EXEC
        environment = {} if by_option else {"PYTHONPATH": f"{ROOT}:{library}"}
        words += f" --pythonpath {library}" if by_option else ""
        self.report: dict[str, Any]
        self.archive: Archive
        self.report, self.archive = run(folder, words, expected=4, **environment)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Isolation, OwnCode]:
    return {isolation: OwnCode(tmp_path_factory.mktemp(isolation), isolation) for isolation in Isolation}


@pytest.mark.parametrize("isolation", Isolation)
def test_own_code_runs_in_processes_of_launches_alone(runs: dict[Isolation, OwnCode], isolation: Isolation) -> None:
    """A model that fails fails alone, the user's traceback first; workers alone import, theirs before the installed."""
    ran = runs[isolation]
    statuses = {one["model_name"]: one["training_metrics"]["batch_size_2"]["status"] for one in ran.report["results"]}
    assert statuses == {"net.py:Bad": "failed", **dict.fromkeys(ran.good, "ok")}
    (failure,) = (attempt.failure for attempt in ran.archive.attempts if attempt.failure)
    assert re.search("AttributeError: 'Bad' .*'no_such_layer'", failure.message)
    assert failure.message.endswith(f"({ran.folder}/net.py, line 15)")
    assert str(failure.traceback).splitlines()[1] == f'  File "{ran.folder}/net.py", line 15, in forward'
    assert (ran.folder / "witnesses").read_text().split() == ["gpubench-worker"] * len(statuses)


def test_forked_and_execd_launches_are_alike(runs: dict[Isolation, OwnCode]) -> None:
    """Nothing that changes a measurement tells them apart: same threads, switches and state of the collector."""
    forked, executed = (
        {one.start.cell: ran.archive.result(one).environment for one in ran.archive.attempts if one.promised}
        for ran in runs.values()
    )
    assert len(executed) == 1
    for cell, environment in executed.items():
        assert msgspec.structs.replace(environment, isolation="fork") == forked[cell]
        assert (environment.isolation, environment.collector_enabled) == ("exec", True)
        assert environment.threads >= 1
        assert environment.flags["gc.frozen"] == "True"
        assert environment.flags["cuda.matmul.allow_tf32"] == "False"
