"""A new kind of run is one value: it plans, runs, resumes and reports without a change elsewhere."""

import json
import sys
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from orchestrator.analysis.kind_analysis import KindAnalysis, ReportTerms
from orchestrator.config.run_configuration import Slot
from orchestrator.engine import run
from orchestrator.engine.kind import Kind, LaunchTerms
from orchestrator.kinds import registry
from orchestrator.plan import planner
from orchestrator.run_reports import reporting
from orchestrator.state.slots import RunState
from orchestrator.store import run_files
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.displays import RecordingDisplay


def second_round(state: RunState, *_: object) -> tuple[Slot, ...]:
    """Each cell once more."""
    return tuple((cell, 1) for cell in state.cells) if state.settled == len(state.cells) == len(state.slots) else ()


TOY = Kind(
    name="toy",
    plan=lambda configuration, devices: planner.make(replace(configuration, launches=1), devices),
    launch_terms=lambda asked, *_: LaunchTerms(asked.measurement, asked.deadlines),
    next_rounds=second_round,
    report=ReportTerms(
        analyse=lambda archive, *_: KindAnalysis(
            warnings=(f"toy: {sum(bool(one.promised) for one in archive.attempts)} results",)
        )
    ),
)


def test_a_toy_kind_runs_resumes_and_reports(tmp_path: Path) -> None:
    """A round is added to the plan; `resume` measures a result again whose file was lost."""
    done = python("-m", "tests.orchestrator.kinds.test_toy_kind", str(tmp_path / "run"), cwd=tmp_path)
    assert json.loads(done.stdout) == [[1, 4], *[[0, "toy: 4 results"]] * 2]


if __name__ == "__main__":
    paths = RunPaths(Path(sys.argv[1]))
    made = faults.prepare(paths.folder, faults.model("one"), faults.model("two"), launches=3, time_limit_s=120)
    stored = replace(made, plan=TOY.plan(made.configuration, made.devices))
    run_files.store(stored, paths)
    registry.KINDS["benchmark"] = TOY
    execute = partial(run.execute, stored, paths, RecordingDisplay(), kind=TOY, write_report=reporting.write)
    first = execute().verdict
    (paths.launches / next(paths.results()) / "result.msgpack").unlink()
    remaining = run.left_to_do(stored, paths, TOY)
    json.dump([remaining, *([one.exit_code, one.reasons[-1]] for one in (first, execute().verdict))], sys.stdout)
