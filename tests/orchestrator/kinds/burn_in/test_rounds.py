"""kinds/burn_in/rounds.py: how many rounds of which length, so that they fit; faults in rounds that have no time."""

from collections.abc import Callable

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
    burn_in_run = settings.configured(base, duration, level, shipped_catalogue(), TABLE)
    burn_in_run = settings.with_injections(burn_in_run, faults, devices)
    return planning.make(burn_in_run, devices, TABLE), burn_in_run


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("devices", [cpus(1), cpus(8), gpus(1), gpus(8)])
@pytest.mark.parametrize("duration", ["30s", "90s", "10m", "1h", "14d"])
def test_rounds_of_their_length_fit_into_the_duration(
    duration: str, devices: tuple[Device, ...], isolation: Isolation
) -> None:
    """As they are shown; and a round is as long as the launches that are shown of it, to a second."""
    made, burn_in_run = planned(duration, devices, isolation=isolation)
    of = rounds.of(made, burn_in_run, devices, devices[0])
    whole_s = settings.seconds(duration)
    assert float(rounds.format_count(of.possible)) * of.round_s <= whole_s - closing_s(whole_s)
    assert (of.possible + 1) * of.round_s > whole_s - closing_s(whole_s) - 20, "nor is one forgotten"
    shown_s = [float(rounds.format_launch(launch_s).removesuffix(" s")) for launch_s in of.launches_s]
    assert of.round_s == pytest.approx(sum(shown_s), abs=0.05 if of.round_s < 100 else 0.51)


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        (rounds.format_round, 12.34, "12.3 s"),
        (rounds.format_round, 99.9, "99.9 s"),
        (rounds.format_round, 120.0, "2 min"),
        (rounds.format_round, 283.4, "4 min 43 s"),
        (rounds.format_count, 9.9, "9.9"),
        (rounds.format_count, 10.0, "10"),
    ],
)
def test_numbers_have_the_digits_that_say_something(words: Callable[[float], str], value: float, expected: str) -> None:
    """Tenths of a second in a short round, seconds in a long one; a part of a round only of few."""
    assert words(value) == expected


def test_a_fault_in_a_round_that_has_probably_no_time_has_a_note() -> None:
    """It is planned, because a burn-in may be quicker than estimated; and no note where its device comes to it."""
    devices = cpus(2)
    possible = rounds.of(*planned("60s", devices), devices, devices[0]).possible
    said = {
        number: " ".join(rounds.notes(*planned("60s", devices, f"flip:1:{number}"), devices)) for number in (1, 4, 5, 6)
    }
    assert (possible, said[1], said[4]) == (4.1, "", "")
    assert [part for part in ("4.1 rounds", "cpu:1", "round 5") if part not in said[5]] == []
    assert [part for part in ("round 6", "1 to 4") if part not in said[6]] == []
    with pytest.raises(ConfigError, match=r"cpu:1 .* round 7\. .* 6 .* 4\.1.* 1 to 4"):
        planned("60s", devices, "flip:1:7")


def test_no_round_is_advised_where_there_is_time_for_none() -> None:
    """Then only a longer burn-in helps."""
    devices = cpus(2)
    (note,) = rounds.notes(*planned("30s", devices, "flip:1:1", level="full"), devices)
    assert ("round 1" in note, "--burn-in" in note) == (True, True)
    with pytest.raises(ConfigError, match=r"0\.\d\. .*--burn-in"):
        planned("30s", devices, "flip:1:2", level="full")
