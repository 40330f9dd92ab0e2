"""orchestrator/engine/announcer.py: what a display is told while a run goes on."""

from pathlib import Path

import pytest

from orchestrator.engine.announcer import Announcer
from orchestrator.engine.display_events import Notice
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.state.slots import Ended, Started
from orchestrator.state.transitions import begin, next_launches, step
from protocol.verification import Verification
from tests.fakes.displays import RecordingDisplay
from tests.fakes.results import result
from tests.fakes.runs import FakeRun
from tests.orchestrator.kinds.gate.test_noise import live


@pytest.mark.parametrize("wrong", [0, 2])
def test_wrong_results_are_named_when_their_launch_ends(tmp_path: Path, wrong: int) -> None:
    """Nobody waits for the end of a burn-in to hear of them."""
    run, display = FakeRun(tmp_path), RecordingDisplay()
    state, (following, *_) = next_launches(begin(run.stored.plan))
    state = step(state, Started(following.launch, following.slot, following.device, following.cell.batch_size))
    verification = Verification(key=(), method="all outputs", checks=9, mismatches=wrong)
    outcome = result(following.cell, verification=verification)
    announcer = Announcer(run.stored, display, BENCHMARK)
    announcer.ended(step(state, Ended(following.launch, None)), live(run, following), outcome, 1.0)
    notices = [event for event in display.given if isinstance(event, Notice)]
    found = [(one.level, one.event, one.fields["wrong"]) for one in notices]
    assert found == [("error", "wrong_results", wrong)] * bool(wrong)
