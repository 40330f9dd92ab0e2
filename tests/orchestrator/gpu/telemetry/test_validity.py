"""Which results are invalid, and how long a GPU rests after one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine import unavailable_gpus
from orchestrator.engine.launches import process_failures
from orchestrator.gpu.telemetry import clock_events, validity
from orchestrator.gpu.telemetry.readings import Readings
from protocol.failure import Category, Failure, Phase
from protocol.messages import Sample

HOT = Sample(at_ns=0, temperature_c=88, reasons=0x40)


@pytest.mark.parametrize(
    "readings",
    [
        Readings(thermal_violation=0.0101),
        Readings(slowdown_samples=0.05, thermal_violation=0.0),
        Readings(slowdown_samples=0.0, thermal_violation=1.0, power_violation=0.0),
    ],
)
def test_more_than_one_percent_of_slowdown_is_too_much(readings: Readings) -> None:
    """By NVML's counter or by the samples, whichever is more."""
    failure = validity.judge(readings)
    assert (failure.category, failure.phase) == (Category.THROTTLED, Phase.MEASURE)
    assert validity.throttled(readings) is True


@pytest.mark.parametrize(
    "readings",
    [
        Readings(thermal_violation=0.01, slowdown_samples=0.0),
        Readings(thermal_violation=0.0, power_violation=1.0, reasons=0x4),
        Readings(note="no telemetry was recorded"),
        Readings(reasons=0x40, temperature_max_c=90),
    ],
)
def test_a_power_cap_and_the_unknown_invalidate_nothing(readings: Readings) -> None:
    """Heavy work reaches the power limit on a healthy GPU; a single reading beside a block is no share of it."""
    assert validity.judge(readings) is None


def test_throttling_is_unknown_without_readings() -> None:
    """And not False."""
    assert validity.throttled(Readings()) is None
    assert validity.throttled(Readings(thermal_violation=0.0)) is False


def test_the_message_has_share_reasons_and_temperature() -> None:
    """A power cap is not among the reasons."""
    failure = validity.judge(Readings(slowdown_samples=0.25, reasons=0x44, temperature_max_c=89))
    assert re.search(r"25%.*\(hardware thermal slowdown, 89 .*\).*1%", failure.message)
    assert failure.evidence == {"slowdown_samples": "0.25", "temperature_max_c": "89"}


def test_clock_event_reasons_have_nvmls_words() -> None:
    """Every bit that was seen has its word once; one that nobody knows has its number."""
    assert clock_events.reason_names([0x4, None, 0x44]) == ("software power cap", "hardware thermal slowdown")
    assert clock_events.reason_names([0x4000]) == ("unknown (0x4000)",)
    assert clock_events.reason_names([None, 0]) == ()


@pytest.mark.parametrize(
    ("category", "who", "expected"),
    [
        (Category.OUT_OF_MEMORY, "python (PID 4711)", Category.CONTAMINATED),
        (Category.DEADLINE, "python (PID 4711)", Category.CONTAMINATED),
        (Category.DEADLINE, "", Category.DEADLINE),
        (Category.CRASHED, "python (PID 4711)", Category.CRASHED),
    ],
)
def test_want_of_memory_or_time_beside_somebody_else_is_theirs(
    category: Category, who: str, expected: Category
) -> None:
    """Nobody is to blame for a hang while another process computed; a crash is a crash beside anybody."""
    found = process_failures.beside(Failure(category=category, message="m", phase=Phase.MEASURE), who)
    assert found.category is expected
    assert ("python (PID 4711)" in found.message) is (expected is Category.CONTAMINATED)


def test_a_gpu_rests_until_it_is_cooler() -> None:
    """Ten degrees below its maximum, without a slowdown, by a sample of its rest."""
    resting = unavailable_gpus.begin_rest(88, now=100.0, now_ns=5)
    assert not unavailable_gpus.is_rested(resting, HOT, 101.0)
    assert not unavailable_gpus.is_rested(resting, Sample(at_ns=4, temperature_c=78, reasons=0x4), 101.0)
    assert not unavailable_gpus.is_rested(resting, Sample(at_ns=9, temperature_c=79, reasons=0), 101.0)
    assert not unavailable_gpus.is_rested(resting, Sample(at_ns=9, temperature_c=60, reasons=0x20), 101.0)
    assert not unavailable_gpus.is_rested(resting, None, 101.0)
    assert unavailable_gpus.is_rested(resting, Sample(at_ns=9, temperature_c=78, reasons=0x4), 101.0)


@given(
    hottest=st.none() | st.integers(0, 120),
    newest=st.none() | st.builds(Sample, at_ns=st.just(0), temperature_c=st.none() | st.integers(0, 120)),
)
def test_no_rest_is_longer_than_its_limit(hottest: int | None, newest: Sample | None) -> None:
    """Whatever the sensor reads, or without one, the run continues after two minutes."""
    assert unavailable_gpus.is_rested(
        unavailable_gpus.begin_rest(hottest, now=100.0, now_ns=0), newest, 100.0 + unavailable_gpus.AT_MOST_S
    )
