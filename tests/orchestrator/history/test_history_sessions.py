"""history/sessions.py: which earlier runs say how far sessions lie apart."""

from datetime import date, timedelta

import pytest

from orchestrator.compare.run_figures import Side
from orchestrator.config import margins
from orchestrator.history import sessions
from orchestrator.history.records import RunRecord
from tests.fakes import sides
from tests.fakes.histories import UUID, record, run_id

MARGINS = margins.load()


def like(**changes: object) -> Side:
    """A run of the same cell, on the same GPU and stack as those of the history."""
    return sides.side(sides.cell(gpu_uuid=UUID, **changes), devices=(sides.device(gpu_uuid=UUID),))


def earlier(*values: float, **changes: object) -> list[RunRecord]:
    return [record(number, value, **changes) for number, value in enumerate(values, 1)]


def test_earlier_runs_of_the_same_cells_and_stack_are_learned_from() -> None:
    """Runs that lie 3 % apart widen the prior, those that agree narrow it."""
    wide = sessions.spread(earlier(100.0, 103.0, 97.0, 100.0), like(), frozenset(), MARGINS)
    assert wide.runs == 4
    assert wide.device > 0.01
    assert wide.host == MARGINS.runs.session.host.share
    narrow = sessions.spread(earlier(*[100.0] * 9), like(), frozenset(), MARGINS)
    assert narrow.device < MARGINS.runs.session.device.share
    of_host = sessions.spread(earlier(100.0, 130.0, 70.0, 100.0), like(host_bound=True), frozenset(), MARGINS)
    assert (of_host.device, of_host.host > 0.05) == (MARGINS.runs.session.device.share, True)


@pytest.mark.parametrize(
    "changes",
    [{"stack": {**sides.STACK, "driver": "580"}}, {"tainted": True}, {"doubt": "throttled"}, {"gpu_uuid": "GPU-1"}],
)
def test_other_runs_say_nothing(changes: dict[str, object]) -> None:
    """Another stack, injected faults, a throttled cell, another GPU."""
    assert sessions.spread(earlier(100.0, 103.0, 97.0, 100.0, **changes), like(), frozenset(), MARGINS) is None


def test_one_throttled_run_does_not_stop_the_learning() -> None:
    """It is no session of the others."""
    throttled = record(9, 50.0, doubt="throttled")
    good = earlier(100.0, 103.0, 97.0, 100.0)
    assert sessions.spread([throttled, *good], like(), frozenset(), MARGINS) == sessions.spread(
        good, like(), frozenset(), MARGINS
    )


def test_the_newest_runs_count_of_those_that_are_alike() -> None:
    """Many later runs of other cells do not displace them, nor do they count among those that are learned from."""
    others = [record(9, 1.0, gpu_uuid="GPU-1")] * (2 * sessions.MOST_SESSIONS)
    days = (date(2026, 3, 1) - timedelta(days=number) for number in range(sessions.MOST_SESSIONS + 6))
    alike = [record(1, test_date=f"{day}T21:30:00Z") for day in days]
    found = sessions.spread([*others, *alike], like(), frozenset(), MARGINS)
    assert found.runs == sessions.MOST_SESSIONS


def test_runs_of_one_day_are_one_session() -> None:
    """They agree because nothing was booted between them; the newest counts."""
    of_one_day = [record(5, 100.0, test_date=f"2026-04-05T{hour:02}:00:00Z") for hour in range(20)]
    assert sessions.spread(of_one_day, like(), frozenset(), MARGINS) is None
    days = earlier(103.0, 97.0, 100.0)
    found = sessions.spread([*of_one_day, *days], like(), frozenset(), MARGINS)
    assert found == sessions.spread([of_one_day[0], *days], like(), frozenset(), MARGINS)
    assert found.runs == 4


def test_the_runs_that_are_compared_are_no_earlier_ones() -> None:
    """Their difference is the question."""
    ids = frozenset({run_id(1), run_id(2)})
    assert sessions.spread(earlier(100.0, 50.0, 100.0, 100.0), like(), ids, MARGINS) is None


def test_only_the_seed_may_differ() -> None:
    """Each run has its own."""
    assert sessions.same_stack({"torch": "2", "seed": "1"}, {"torch": "2", "seed": "2"})
    assert not sessions.same_stack({"torch": "2"}, {"torch": "3"})
