"""gpu/telemetry/climate.py: samples of a GPU by windows of ten seconds."""

from orchestrator.gpu.telemetry.climate import Climate, climates
from protocol.messages import Sample

SECOND_NS = 1_000_000_000


def sample(at_s: float, heat: int | None = 60, clock: int | None = 1500, reasons: int | None = 4) -> Sample:
    """One reading."""
    return Sample(at_ns=round(at_s * SECOND_NS), temperature_c=heat, sm_clock_mhz=clock, reasons=reasons)


def test_each_window_has_its_medians() -> None:
    """And the share of samples at the power limit, one bit of several. Windows without a sample are absent."""
    found = climates(
        [sample(40, 60), sample(41, 61, 1400), sample(49.9, 90, 1200, reasons=0x24), sample(60, 70, 900, 0)]
    )
    assert found == (Climate(4, 61, 1400, 1.0), Climate(6, 70, 900, 0.0))
    (found,) = climates([sample(0, reasons=0x1), sample(1, reasons=0x4), sample(2, reasons=0x44), sample(3, reasons=0)])
    assert found.capped == 0.5


def test_unread_values_are_none() -> None:
    """The rest of the window is known."""
    assert climates([sample(0, None, None, None)]) == (Climate(0),)
    (found,) = climates([sample(0, None), sample(1, 50, None)])
    assert (found.temperature_c, found.clock_mhz) == (50, 1500)
