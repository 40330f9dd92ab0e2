"""engine/launches/lifecycle.py: whatever happens in whatever order, a launch ends and is concluded exactly once."""

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.launches import lifecycle
from orchestrator.engine.launches.lifecycle import (
    Action,
    Assign,
    Born,
    Conclude,
    Died,
    Entered,
    Event,
    Forget,
    Greeted,
    Kill,
    Launch,
    NotBorn,
    Progressed,
    Reported,
    Status,
    Stop,
    Terminate,
    TimePassed,
)
from orchestrator.state.failure_policy import Trait, has_trait
from orchestrator.system.process_end import Exit
from protocol.failure import Category, Failure, Phase
from protocol.messages import Deadlines, Measurement

DEADLINES = Deadlines(start=5, import_=6, build=7, warm_up=8, measure=9, finish=4)
MEASUREMENT = Measurement(relative_half_width=0.02, block_s=0.05, warm_up_cap_s=1, min_s=0.3, max_s=1.5)
FAILURE = Failure(category=Category.EXCEPTION, message="m", phase=Phase.BUILD)
STICKY = Failure(category=Category.CUDA_STICKY, message="CUDA error 999", phase=Phase.MEASURE)
STOPPED = Failure(category=Category.INTERRUPTED, message="s", phase=Phase.MEASURE)
CLEAN = Exit(code=0, signal=None)
KILLED = Exit(code=None, signal=9)


@dataclasses.dataclass
class Life:
    """A launch and what was done about it."""

    launch: Launch = dataclasses.field(default_factory=lambda: lifecycle.requested(DEADLINES, MEASUREMENT, 0.0))
    actions: list[Action] = dataclasses.field(default_factory=list)

    def __call__(self, event: Event, now: float = 0.0) -> tuple[Action, ...]:
        """One event; the actions it led to."""
        self.launch, actions = lifecycle.advance(self.launch, event, now)
        self.actions += actions
        return actions

    def working(self) -> "Life":
        """Up to the point where it works."""
        for event in (Born(), Greeted(), Entered(Phase.MEASURE)):
            self(event)
        return self


def test_a_good_launch() -> None:
    """Born, greeted, assigned, reported, gone."""
    life = Life()
    assert life(Born()) == ()
    assert life(Greeted()) == (Assign(),)
    assert life(Reported(FAILURE)) == (Conclude(FAILURE),)
    assert life(Died(CLEAN)) == (Forget(),)
    assert life.launch.status is Status.OVER


def test_an_outcome_is_waited_for_after_the_death() -> None:
    """The last message may be read up to a second after the process ended; then the exit is all there is."""
    life = Life().working()
    assert life(Died(CLEAN), 10.0) == ()
    assert life(TimePassed(), 10.9) == ()
    assert life(Reported(FAILURE), 10.9) == (Conclude(FAILURE), Forget())
    silent = Life().working()
    silent(Died(KILLED), 10.0)
    assert silent(TimePassed(), 11.0) == (Conclude(None), Forget())
    assert silent.launch.exit == KILLED


def test_a_late_launch_is_ended_and_given_up_as_unkillable() -> None:
    """SIGTERM, then SIGKILL; nothing ends it."""
    life = Life().working()
    allowed = DEADLINES.measure + MEASUREMENT.max_s
    assert life(TimePassed(), allowed - 0.1) == ()
    assert life(TimePassed(), allowed) == (Terminate(),)
    assert life(TimePassed(), allowed + 9.9) == ()
    assert life(TimePassed(), allowed + 10) == (Kill(),)
    conclusion, forget = life(TimePassed(), allowed + 70)
    assert forget == Forget(unkillable=True)
    assert conclusion.outcome.category is Category.UNKILLABLE


def test_a_launch_that_was_ended_fails_with_the_reason() -> None:
    """Not with the signal that ended it."""
    life = Life().working()
    life(TimePassed(), 100.0)
    conclusion, _ = life(Died(KILLED), 101.0)
    assert conclusion.outcome.category is Category.DEADLINE
    assert "10.5 s" in conclusion.outcome.message


def test_progress_moves_the_deadline_only_with_fixed_iterations() -> None:
    """The time of N iterations is unknown; an adaptive phase has a cap of its own."""
    adaptive = Life().working()
    adaptive(Progressed(0.5), 9.0)
    assert adaptive(TimePassed(), 10.5) == (Terminate(),)
    fixed = msgspec.structs.replace(MEASUREMENT, iterations=100)
    counted = Life(lifecycle.requested(DEADLINES, fixed, 0.0)).working()
    counted(Progressed(0.5), 9.0)
    assert counted(TimePassed(), 10.5) == ()
    assert counted(TimePassed(), 19.5) == (Terminate(),)


@pytest.mark.parametrize("now", [False, True])
def test_a_stop_decides_the_failure(*, now: bool) -> None:
    """A late outcome is ignored; the phase is that of the launch, which who stops all launches does not know."""
    life = Life()
    for event in (Born(), Greeted(), Entered(Phase.WARM_UP), Stop(STOPPED, now=now)):
        life(event, 1.0)
    assert life(Reported(FAILURE), 1.1) == ()
    assert life(Died(KILLED), 1.2) == (Conclude(msgspec.structs.replace(STOPPED, phase=Phase.WARM_UP)), Forget())


@pytest.mark.parametrize("ends", [True, False])
def test_a_result_survives_a_hang_in_teardown(*, ends: bool) -> None:
    """A worker that does not leave is ended, and nothing is concluded twice, even if it cannot be killed."""
    life = Life().working()
    assert life(Reported(FAILURE), 1.0) == (Conclude(FAILURE),)
    assert life(TimePassed(), 5.0) == (Terminate(),)
    if ends:
        assert life(Died(KILLED), 6.0) == (Forget(),)
    else:
        assert life(TimePassed(), 15.0) == (Kill(),)
        assert life(TimePassed(), 75.0) == (Forget(unkillable=True),)


@pytest.mark.parametrize("category", [one for one in Category if has_trait(one, Trait.HELD_BACK)])
def test_what_cuda_tells_is_held_back_for_a_second(category: Category) -> None:
    """The driver's word on the GPU may come after it; meanwhile the worker waits, and has its time to leave then."""
    failure = msgspec.structs.replace(STICKY, category=category)
    life = Life().working()
    assert life(Reported(failure), 1.0) == ()
    assert life(Reported(FAILURE), 1.1) == life(TimePassed(), 1.9) == ()
    assert life(TimePassed(), 2.0) == (Conclude(failure),)
    assert life(TimePassed(), 5.9) == ()
    assert life(Died(CLEAN), 5.9) == (Forget(),)


@pytest.mark.parametrize("first", [Reported(STICKY), Died(KILLED)])
def test_a_held_back_failure_is_concluded_after_the_death(first: Event) -> None:
    """In either order, a second after the process has ended."""
    life = Life().working()
    assert life(first, 1.0) == ()
    assert life(Died(KILLED) if first == Reported(STICKY) else Reported(STICKY), 1.5) == ()
    assert life(Reported(FAILURE), 1.6) == ()
    assert life(TimePassed(), 2.5) == (Conclude(STICKY), Forget())


@pytest.mark.parametrize(("now", "action"), [(False, Terminate()), (True, Kill())])
def test_a_held_back_failure_is_concluded_before_a_stop(now: bool, action: Action) -> None:
    """Without waiting for the second."""
    life = Life().working()
    life(Reported(STICKY), 1.0)
    assert life(Stop(STOPPED, now=now), 1.1) == (Conclude(STICKY), action)
    assert life(Died(KILLED), 1.2) == (Forget(),)


@pytest.mark.parametrize("event", [NotBorn(FAILURE), Stop(STOPPED), Stop(STOPPED, now=True)])
def test_a_launch_that_was_never_born_ends_at_once(event: Event) -> None:
    """There is no process to wait for."""
    life = Life()
    life(event)
    assert [type(action) for action in life.actions] == [Conclude, Forget]


EVENTS = st.sampled_from(
    [
        Born(),
        NotBorn(FAILURE),
        Greeted(),
        Entered(Phase.BUILD),
        Entered(Phase.MEASURE),
        Progressed(0.5),
        Reported(FAILURE),
        Reported(STICKY),
        Died(CLEAN),
        Died(KILLED),
        TimePassed(),
        Stop(STOPPED),
        Stop(STOPPED, now=True),
    ]
)


@given(st.lists(st.tuples(EVENTS, st.floats(min_value=0, max_value=30)), max_size=30))
def test_any_order_of_events_concludes_once(events: list[tuple[Event, float]]) -> None:
    """One conclusion and one farewell, which is last; time alone leads there."""
    life = Life()
    now = 0.0
    for event, pause in events:
        now += pause
        life(event, now)
    for _ in range(4):
        now += 100.0
        life(TimePassed(), now)
    assert life.launch.status is Status.OVER
    assert sum(isinstance(action, Conclude) for action in life.actions) == 1
    assert sum(isinstance(action, Forget) for action in life.actions) == 1
    assert isinstance(life.actions[-1], Forget)
