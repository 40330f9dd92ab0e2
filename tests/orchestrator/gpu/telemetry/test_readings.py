"""From samples to readings of a measurement: means, maxima, counters between samples, and gaps."""

import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.gpu.telemetry.readings import Readings, Track, Window, readings_over
from protocol.messages import Sample

SECOND = 1_000_000_000


def at(second: float, **values: int | None) -> Sample:
    """A sample at a moment given in seconds."""
    return Sample(at_ns=round(second * SECOND), **values)


def window(begin: float, end: float) -> Window:
    """A window given in seconds."""
    return round(begin * SECOND), round(end * SECOND)


def steady(seconds: int, **changes: int) -> list[Sample]:
    """A GPU at 700 W, sampled at 10 Hz from second 0."""
    values = {
        "gpu_percent": 90,
        "memory_percent": 40,
        "memory_used_bytes": 1000,
        "power_mw": 700_000,
        "temperature_c": 60,
        "sm_clock_mhz": 1500,
        "memory_clock_mhz": 3201,
        "reasons": 0,
        "thermal_violation_ns": 0,
        "power_violation_ns": 0,
    } | changes
    return [at(tick / 10, energy_mj=70_000 * tick, **values) for tick in range(seconds * 10 + 1)]


def test_a_long_measurement_has_every_reading() -> None:
    """Above 5 s, without a note."""
    assert readings_over(steady(20), [window(5, 15)]) == Readings(
        gpu_utilization_percent=90,
        memory_utilization_percent=40,
        power_draw_w=700,
        energy_j=7000,
        temperature_c=60,
        temperature_max_c=60,
        sm_clock_mhz=1500,
        sm_clock_drift_percent=0,
        memory_clock_mhz=3201,
        memory_used_bytes=1000,
        reasons=0,
        thermal_violation=0,
        power_violation=0,
        slowdown_samples=0,
    )


def test_short_measurements_have_no_averages() -> None:
    """Boards average over a second: utilisation, power and energy would be those of other work."""
    readings = readings_over(steady(20), [window(5, 7.4), window(7.5, 10)])
    assert (readings.gpu_utilization_percent, readings.memory_utilization_percent) == (None, None)
    assert (readings.power_draw_w, readings.energy_j) == (None, None)
    assert (readings.temperature_c, readings.sm_clock_mhz, readings.memory_used_bytes) == (60, 1500, 1000)
    assert "4.9 s" in readings.note


def test_a_gap_in_a_counter_leaves_it_unknown() -> None:
    """No energy is invented across a second without samples, nor a counter that did not move beside a gap."""
    watched = steady(20)
    samples = [sample for sample in watched if not 8 * SECOND < sample.at_ns < 9.5 * SECOND]
    readings = readings_over(samples, [window(5, 9), window(10, 15)])
    assert (readings.energy_j, readings.power_draw_w) == (None, 700)
    assert readings.note.endswith(" energy_j, thermal_violation, power_violation")
    assert readings_over(watched, [window(1, 12)]).thermal_violation == 0.0
    gap = [sample for sample in watched if not 11.5 * SECOND < sample.at_ns < 13 * SECOND]
    assert readings_over(gap, [window(1, 12)]).thermal_violation is None


def test_a_counter_that_fell_is_not_used() -> None:
    """A driver that was loaded again starts its counters at zero."""
    samples = [*steady(10), *(at(10 + tick / 10, energy_mj=tick) for tick in range(1, 51))]
    assert readings_over(samples, [window(5, 14)]).energy_j is None


def test_energy_counts_the_windows_alone() -> None:
    """Windows need not begin at samples, and every third sample may lack the counter."""
    readings = readings_over(steady(20), [window(1.05, 4.08), window(10.01, 15.98)])
    assert readings.energy_j == pytest.approx(700 * (3.03 + 5.97))
    samples = [
        at(tick / 10, energy_mj=None if tick % 3 == 0 else 70_000 * tick, temperature_c=60) for tick in range(201)
    ]
    assert readings_over(samples, [window(6, 14.95)]).energy_j == pytest.approx(70 * 89.5)
    assert readings_over(steady(20), [window(6, 14.95)]).energy_j == pytest.approx(70 * 89.5)


def test_a_track_gives_the_readings_of_each_measurement_alone() -> None:
    """Samples far from a measurement change nothing, however many there are."""
    samples = [*steady(100), *(at(300 + tick / 10, temperature_c=80) for tick in range(100))]
    track = Track(samples)
    for begin in (3, 50, 94, 305, 500):
        windows = [window(begin, begin + 2), window(begin + 2.1, begin + 5.7)]
        near = [sample for sample in samples if (begin - 2) * SECOND < sample.at_ns < (begin + 8) * SECOND]
        assert track.readings(windows) == readings_over(near or samples, windows)


def test_thermal_violation_is_a_fraction_of_the_measured_time() -> None:
    """Half a second in ten is 5 %, for heat as for power; only heat is a slowdown."""
    held = [min(tick, 50) * SECOND // 100 for tick in range(201)]
    hot = [at(tick / 10, thermal_violation_ns=ns, power_violation_ns=0) for tick, ns in enumerate(held)]
    capped = [at(tick / 10, thermal_violation_ns=0, power_violation_ns=ns) for tick, ns in enumerate(held)]
    for_heat, for_power = readings_over(hot, [window(0, 10)]), readings_over(capped, [window(0, 10)])
    assert (for_heat.thermal_violation, for_heat.slowdown) == (pytest.approx(0.05), pytest.approx(0.05))
    assert (for_power.power_violation, for_power.slowdown) == (pytest.approx(0.05), 0.0)


def test_means_maxima_masks_and_clock_drift() -> None:
    """Clock event reasons are collected bit by bit. Drift compares the halves; three samples are too few."""
    samples = [at(tick / 10, sm_clock_mhz=1500 if tick < 10 else 1470) for tick in range(20)]
    assert readings_over(samples, [window(0, 1.9)]).sm_clock_drift_percent == pytest.approx(-2.0)
    assert readings_over(samples, [window(0, 0.2)]).sm_clock_drift_percent is None
    samples = [at(0, temperature_c=50, reasons=0x4), at(1, temperature_c=70, reasons=0x20), at(2, reasons=0x8)]
    readings = readings_over(samples, [window(0, 1)])
    assert (readings.temperature_c, readings.temperature_max_c, readings.reasons) == (60, 70, 0x24)
    assert readings.slowdown_samples == 0.5


def test_a_block_between_two_samples_has_the_nearest() -> None:
    """Within a second; farther samples are of another measurement. It has no share of slowdown."""
    assert readings_over([at(0, temperature_c=50), at(0.1, temperature_c=60)], [window(0.06, 0.08)]).temperature_c == 60
    far = readings_over([at(0, temperature_c=50), at(9, temperature_c=60)], [window(2, 3)])
    assert far == Readings(note=far.note)
    assert "1 s" in far.note
    readings = readings_over([at(0, reasons=0x8), at(0.1, reasons=0x8)], [window(0.04, 0.06)])
    assert readings.reasons == 0x8
    assert (readings.slowdown_samples, readings.slowdown) == (None, None)


@pytest.mark.parametrize(
    ("samples", "windows", "note"),
    [([], [window(0, 1)], "no telemetry"), (steady(1), [], "nothing was measured")],
)
def test_without_readings_there_is_a_note(samples: list[Sample], windows: list[Window], note: str) -> None:
    """Every field is None, and the note has the reason."""
    found = readings_over(samples, windows)
    assert found == Readings(note=found.note)
    assert found.note.startswith(note)


def test_a_missing_sensor_is_noted() -> None:
    """By its name."""
    readings = readings_over([at(tick / 10, gpu_percent=50) for tick in range(101)], [window(0, 10)])
    assert readings.gpu_utilization_percent == 50
    assert "memory_utilization_percent, power_draw_w, energy_j, temperature_c" in readings.note


@given(cuts=st.lists(st.integers(0, 20 * SECOND), min_size=2, max_size=20, unique=True).map(sorted))
def test_energy_of_adjoining_windows_adds_up(cuts: list[int]) -> None:
    """Cut a measurement into blocks wherever you like: the energy is that of the whole."""
    blocks = list(pairwise(cuts))
    cut, whole = readings_over(steady(20), blocks), readings_over(steady(20), [(cuts[0], cuts[-1])])
    assert cut.energy_j == pytest.approx(whole.energy_j)


def under_load(begin: float, end: float) -> Readings:
    """Readings of two blocks and a load window around them; the GPU takes 300 W from second 4 to 12, else 100 W."""
    samples = []
    energy_mj = 0
    for tick in range(200):
        power_mw = 300_000 if 40 <= tick < 120 else 100_000
        samples.append(at(tick / 10, energy_mj=energy_mj, power_mw=power_mw // 2, gpu_percent=90))
        energy_mj += power_mw // 10
    return readings_over(samples, [window(begin, begin + 0.4), window(begin + 0.4, end)], window(begin, end))


def test_power_under_load_is_that_of_the_energy_counter() -> None:
    """Not of the board's mean, which still has what came before; without edges at which the load has ended."""
    readings = under_load(5.03, 6.07)
    assert readings.power_draw_w == pytest.approx(300)
    assert readings.energy_j == pytest.approx(300 * 1.04)
    assert readings.gpu_utilization_percent == 90
    assert "load window" not in readings.note


def test_a_load_window_begins_before_the_blocks_or_after_them() -> None:
    """Energy is that of all the work, at the power of the window."""
    samples = steady(20)
    readings = readings_over(samples, [window(5, 5.3), window(5.4, 6)], window(4, 6))
    assert (readings.power_draw_w, readings.energy_j) == (pytest.approx(700), pytest.approx(700))
    readings = readings_over(samples, [window(5, 5.3), window(5.4, 7)], window(5.5, 7))
    assert (readings.power_draw_w, readings.energy_j) == (pytest.approx(700), pytest.approx(1400))


def test_without_an_energy_counter_power_is_the_mean_of_the_readings() -> None:
    """And no energy is given; nor where the counter stands still, or was read for a moment only."""
    load = window(5, 6)
    for samples in (
        [msgspec.structs.replace(one, energy_mj=None) for one in steady(20)],
        [msgspec.structs.replace(one, energy_mj=7) for one in steady(20)],
        [one for one in steady(20) if not 5.3 * SECOND < one.at_ns < 5.9 * SECOND][:54],
    ):
        readings = readings_over(samples, [load], load)
        assert (readings.power_draw_w, readings.energy_j) == (700, None)


@given(
    counter=st.floats(0, 0.1), sampler=st.floats(0, 0.1), late=st.lists(st.floats(0, 0.02), min_size=60, max_size=60)
)
@pytest.mark.parametrize(("length", "error"), [(1, 0.155), (5, 0.031)])
def test_a_counter_that_moves_every_tenth_of_a_second_is_precise_enough(
    length: int, error: float, counter: float, sampler: float, late: list[float]
) -> None:
    """Wherever it and the samples lie in the window, and with samples that come late.

    A reading is up to one step of the counter behind. The slope of a line through them is wrong by 1.5 steps over the
    window's length at most: where the readings of one half are all a step behind, and those of the other are not.
    """
    samples = []
    for tick in range(60):
        now = sampler + tick / 10 + late[tick]
        samples.append(at(now, energy_mj=30_000 * math.floor((now - counter) * 10 + 100)))
    readings = readings_over(samples, [window(0.5, 0.5 + length)], window(0.5, 0.5 + length))
    assert readings.power_draw_w == pytest.approx(300, rel=error)
