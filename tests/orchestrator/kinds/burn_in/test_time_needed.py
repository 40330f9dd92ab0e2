"""kinds/burn_in/time_needed.py: what has no time in a short burn-in, and how long one must be."""

import msgspec
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.kinds.burn_in import levels, planning, settings, time_needed
from orchestrator.kinds.burn_in.time_needed import SLOWER
from orchestrator.plan import estimate
from protocol.cell import Device, DeviceKind
from tests.fakes.configurations import configuration, shipped_catalogue
from tests.fakes.runs import cpus, gpus

TABLE = levels.load()


def notes(
    duration: str, devices: tuple[Device, ...], level: str | None = None, isolation: Isolation = Isolation.FORK
) -> tuple[tuple[str, ...], float]:
    """The notes on a burn-in, and how long it must be, in seconds."""
    base = configuration(probes=shipped_catalogue().probes, isolation=isolation)
    made = settings.configured(base, duration, level, shipped_catalogue(), TABLE)
    planned = planning.make(made, devices, TABLE)
    return tuple(time_needed.notes(planned, made, devices, TABLE)), time_needed.least_s(planned, made, devices, TABLE)


def on_two_cores(number: int) -> tuple[Device, ...]:
    """So many CPU devices, as a machine of two cores divides them."""
    return tuple(
        msgspec.structs.replace(device, cpus=(0, 1) if number == 1 else (place % 2,))
        for place, device in enumerate(cpus(number))
    )


@pytest.mark.parametrize(
    ("duration", "devices", "level"),
    [
        ("60s", cpus(3), None),
        ("60s", on_two_cores(3), None),
        ("60s", cpus(1), None),
        ("75s", gpus(8), None),
        ("10m", gpus(8), None),
        ("8h", gpus(8), None),
        ("2m", cpus(8), "full"),
    ],
)
def test_nothing_is_told_where_a_round_has_room(duration: str, devices: tuple[Device, ...], level: str | None) -> None:
    """As in every burn-in of a length that it is made for."""
    assert notes(duration, devices, level)[0] == ()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_half_a_minute_of_cpu_devices_is_hardly_enough(number: int) -> None:
    """Each of these dropped cells on a busy machine of two cores; a minute had room."""
    (note,), least_s = notes("30s", on_two_cores(number))
    assert "level quick" in note
    assert 30 < least_s < 60
    assert notes("60s", on_two_cores(number))[0] == ()


def test_a_whole_round_of_the_longest_level_is_no_matter_of_seconds() -> None:
    """75 s were needed on a busy machine, most of them for three replays; of 26 cells 60 s had room for 14 to 16."""
    found, least_s = notes("60s", on_two_cores(2), "full")
    assert any("resnet50" in note for note in found)
    assert 75 < least_s <= 120


def test_devices_that_share_a_core_need_longer() -> None:
    """Each gets a part of it: eight devices on two cores take four times as long for a replay."""
    least = [notes("10m", on_two_cores(number), "full")[1] for number in (2, 3, 8)]
    assert least == sorted(set(least))
    assert notes("10m", gpus(8), "full")[1] == notes("10m", gpus(1), "full")[1]


def test_a_level_without_room_is_named_with_a_duration_that_has() -> None:
    """As one would request it."""
    (note,), least_s = notes("30s", cpus(3), "standard")
    carried = ("30s", "level standard", "UNKNOWN", f"--burn-in {settings.written(least_s)} --level standard")
    assert [part for part in carried if part not in note] == []


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.parametrize("devices", [cpus(2), gpus(2)])
def test_the_shortest_that_has_room_has_it_and_the_next_shorter_has_not(
    devices: tuple[Device, ...], level: str, isolation: Isolation
) -> None:
    """Though its cells are longer than those of a shorter one; from whichever duration it is asked."""
    least_s = notes("30s", devices, level, isolation)[1]
    assert notes("10m", devices, level, isolation)[1] == least_s
    assert notes(f"{least_s:g}s", devices, level, isolation)[0] == ()
    if least_s > settings.SHORTEST_S:
        assert notes(f"{least_s - 10:g}s", devices, level, isolation)[0]


def test_starts_of_cpu_devices_may_take_longer_than_estimated() -> None:
    """They share their cores: a round that has room by the bare estimates alone is told."""
    base = configuration(probes=shipped_catalogue().probes)
    made = settings.configured(base, "30s", None, shipped_catalogue(), TABLE)
    planned, (device,) = planning.make(made, cpus(1), TABLE), cpus(1)
    round_s = sum(estimate.launch_s(cell, made, device) for cell in planned.cells)
    assert SLOWER[DeviceKind.CPU] > 1
    assert estimate.shared_start_s(made, [device]) + round_s + 6 < 30
    assert notes("30s", cpus(1))[0]
