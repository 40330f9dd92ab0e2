"""Traces of charts: few points, and no extreme lost."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.gpu.telemetry.traces import MOST_POINTS, READINGS, Trace, points, trace
from protocol.messages import Sample


def samples(powers: list[int | None]) -> list[Sample]:
    """Ten a second."""
    return [Sample(at_ns=place * 100_000_000, power_mw=power) for place, power in enumerate(powers)]


@given(st.lists(st.none() | st.integers(0, 10**6), min_size=1, max_size=300), st.integers(1, 50))
def test_no_extreme_is_lost(powers: list[int | None], most: int) -> None:
    """However few points there may be: the lowest and the highest reading are in them, in order of time."""
    made = trace(samples(powers), most)
    curve = made.curves["power_w"]
    assert 1 <= len(made.at_ns) <= max(most, 1)
    assert list(made.at_ns) == sorted(set(made.at_ns))
    known = [power / 1000 for power in powers if power is not None]
    assert min((low for low in curve.low if low is not None), default=None) == min(known, default=None)
    assert max((high for high in curve.high if high is not None), default=None) == max(known, default=None)
    for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True):
        assert (low is None) == (mean is None) == (high is None)
        assert low is None or mean is None or high is None or low <= mean * (1 + 1e-12) <= high * (1 + 2e-12)


def test_few_samples_are_kept_and_pauses_are_skipped() -> None:
    """Up to the limit each sample is a point; unwatched stretches have none."""
    made = trace([*samples([1000, None]), Sample(at_ns=10**12, power_mw=3000)], 3)
    assert made.at_ns == (0, 100_000_000, 10**12)
    assert made.curves["power_w"].mean == (1.0, None, 3.0)
    assert {*made.curves} == {*READINGS}
    early, late = samples([1000] * 50), [Sample(at_ns=10**12 + place, power_mw=2000) for place in range(50)]
    made = trace([*early, *late], 10)
    assert len(made.at_ns) == 2
    assert made.curves["power_w"].mean == (1.0, 2.0)


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=200).map(sorted), st.integers(1, 20))
def test_every_sample_is_in_the_stretch_of_its_time(times_ns: list[int], most: int) -> None:
    """Stretches are of one length from the first sample on; each has all the samples of its time."""
    made = trace([Sample(at_ns=at_ns, power_mw=at_ns * 1000) for at_ns in times_ns], most)
    if len(times_ns) <= most:
        assert made.at_ns == tuple(times_ns)
        return
    length_ns = (times_ns[-1] - times_ns[0]) // most + 1
    stretches: dict[int, list[int]] = {}
    for at_ns in times_ns:
        stretches.setdefault((at_ns - times_ns[0]) // length_ns, []).append(at_ns)
    assert made.at_ns == tuple(inside[0] for inside in stretches.values())
    assert made.curves["power_w"].high == tuple(inside[-1] for inside in stretches.values())


def test_no_samples_make_an_empty_trace_and_many_devices_share_the_points() -> None:
    """The page is as small for a node of sixteen as for one of eight."""
    assert trace([], 100) == Trace()
    assert points(1) == points(8) == MOST_POINTS
    assert points(16) * 16 <= 8 * MOST_POINTS
