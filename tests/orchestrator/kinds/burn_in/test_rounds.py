"""kinds/burn_in/rounds.py: how many rounds of which length, so that they fit; faults in rounds that have no time."""

import pytest

from orchestrator.config.run_configuration import Configuration, Isolation, Plan
from orchestrator.errors import ConfigError
from orchestrator.kinds.burn_in import levels, planning, rounds, settings
from orchestrator.state.time_budget import closing_s
from protocol.cell import Device
from tests.fakes.configurations import configuration, shipped_catalogue
from tests.fakes.runs import cpus, gpus

TABLE = levels.load()


def planned(
    duration: str,
    devices: tuple[Device, ...],
    *faults: str,
    isolation: Isolation = Isolation.FORK,
    level: str | None = None,
) -> tuple[Plan, Configuration]:
    """A burn-in, and what it was made of."""
    base = configuration(probes=shipped_catalogue().probes, isolation=isolation)
    night = settings.configured(base, duration, level, shipped_catalogue(), TABLE)
    night = settings.with_injections(night, faults, devices)
    return planning.make(night, devices, TABLE), night


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("devices", [cpus(1), cpus(2), cpus(8), gpus(1), gpus(8)])
@pytest.mark.parametrize("duration", ["30s", "60s", "90s", "10m", "1h", "100m", "8h", "14d"])
def test_rounds_of_their_length_fit_into_the_duration(
    duration: str, devices: tuple[Device, ...], isolation: Isolation
) -> None:
    """As they are shown; and a round is as long as the launches that are shown of it, to a second."""
    made, night = planned(duration, devices, isolation=isolation)
    of = rounds.of(made, night, devices, devices[0])
    whole_s = settings.seconds(duration)
    assert float(rounds.how_many(of.possible)) * of.round_s <= whole_s - closing_s(whole_s)
    assert (of.possible + 1) * of.round_s > whole_s - closing_s(whole_s) - 20, "nor is one forgotten"
    shown_s = [float(rounds.in_words(launch_s).removesuffix(" s")) for launch_s in of.launches_s]
    assert of.round_s == pytest.approx(sum(shown_s), abs=0.05 if of.round_s < 100 else 0.51)


@pytest.mark.parametrize(
    ("seconds", "words"), [(12.34, "12.3 s"), (99.9, "99.9 s"), (120.0, "2 min"), (283.4, "4 min 43 s")]
)
def test_a_round_is_told_as_exactly_as_it_adds_up(seconds: float, words: str) -> None:
    """Tenths of a second in a short one, seconds in a long one."""
    assert rounds.round_in_words(seconds) == words


@pytest.mark.parametrize(
    ("possible", "words"), [(0.9, "0.9"), (4.0, "4.0"), (9.9, "9.9"), (10.0, "10"), (101.0, "101")]
)
def test_many_rounds_are_told_as_a_whole_number(possible: float, words: str) -> None:
    """A part of one says something only of few."""
    assert rounds.how_many(possible) == words


def test_a_fault_in_a_round_that_has_probably_no_time_has_a_note() -> None:
    """That is planned, because a night may be quicker than estimated; and none where its device comes to it."""
    devices = cpus(2)
    possible = rounds.of(*planned("60s", devices), devices, devices[0]).possible
    assert possible == 4.1
    told = {
        number: " ".join(rounds.notes(*planned("60s", devices, f"flip:1:{number}"), devices)) for number in (1, 4, 5, 6)
    }
    assert told[1] == told[4] == ""
    assert "there is time for about 4.1 rounds on cpu:1, so that round 5 is probably not gone through" in told[5]
    assert "round 6 is probably not reached, and may prove nothing. Choose one of the rounds 1 to 4, or" in told[6]
    with pytest.raises(ConfigError, match=r"6 are planned, .* about 4\.1\. Choose one of the rounds 1 to 4, or"):
        planned("60s", devices, "flip:1:7")


def test_no_round_is_named_where_there_is_time_for_none() -> None:
    """Then a longer burn-in alone helps."""
    devices = cpus(2)
    (told,) = rounds.notes(*planned("30s", devices, "flip:1:1", level="full"), devices)
    assert "round 1 is probably not gone through to its end" in told
    assert told.endswith("and may prove nothing. Choose a longer --burn-in")
    with pytest.raises(ConfigError, match=r"1 is planned, with time for about 0\.\d\. Choose a longer --burn-in"):
        planned("30s", devices, "flip:1:2", level="full")
