"""From a run's folder to its report: what the making of it leaves behind in the process that makes it."""

import gc
from pathlib import Path

import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.evidence import Evidence, gather
from orchestrator.engine import adaptive_launches
from orchestrator.errors import RunFolderError
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.run_reports import reporting
from orchestrator.state.archive import Archive
from tests.fakes.runs import FakeRun


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_while_a_report_is_made_and_then_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    """The collector stays off if it was off before, and a run that cannot be read leaves it as it was."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    seen: list[bool] = []
    was_on = gc.isenabled()

    def gathered(loaded: Archive, *, goes_on: bool) -> Evidence:
        seen.append(gc.isenabled())
        return gather(loaded, goes_on=goes_on)

    monkeypatch.setattr(evidence, "gather", gathered)
    try:
        (gc.enable if on else gc.disable)()
        assert reporting.make(run.paths).results
        assert (seen, gc.isenabled()) == ([False], on)
        assert adaptive_launches.look(run.paths, run.stored, BENCHMARK).doubts == ()
        assert (seen, gc.isenabled()) == ([False, False], on)
        run.paths.plan.unlink()
        with pytest.raises(RunFolderError):
            reporting.make(run.paths)
        assert gc.isenabled() == on
    finally:
        (gc.enable if was_on else gc.disable)()
