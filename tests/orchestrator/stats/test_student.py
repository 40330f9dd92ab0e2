"""Student's t for any number of degrees, and the margins of verdicts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config import margins
from orchestrator.config.catalogue import configs_folder
from orchestrator.errors import ConfigError
from orchestrator.stats import student
from orchestrator.stats.stragglers import Bound


@pytest.mark.parametrize(
    ("share", "degrees", "table"),
    [(0.95, 1, 6.3138), (0.95, 4, 2.1318), (0.975, 2, 4.3027), (0.995, 16, 2.9208), (0.999, 5, 5.8934)],
)
def test_quantiles_agree_with_the_tables(share: float, degrees: int, table: float) -> None:
    """Also in the far tail and for few degrees, where expansions are wrong."""
    assert student.quantile(share, degrees) == pytest.approx(table, abs=1e-4)


@pytest.mark.parametrize(
    ("t", "degrees", "theirs"),
    [(2.0, 3.7, 0.06090860095), (-1.5, 11, 0.9191209915), (8, 2.5, 0.003828322066), (0.3, 250, 0.3822132245)],
)
def test_tails_agree_with_scipy(t: float, degrees: float, theirs: float) -> None:
    """scipy.stats.t.sf of scipy 1.17, for degrees that are no whole numbers too, as Satterthwaite's are."""
    assert student.tail(t, degrees) == pytest.approx(theirs, rel=1e-9)


@given(
    st.floats(min_value=-50, max_value=50),
    st.floats(min_value=0.5, max_value=0.9999),
    st.floats(min_value=1, max_value=500),
)
def test_tails_and_quantiles_are_inverse(t: float, share: float, degrees: float) -> None:
    """Both tails make a whole, and a quantile has its share below it."""
    assert student.tail(t, degrees) + student.tail(-t, degrees) == pytest.approx(1)
    assert student.tail(t, degrees / 2) + student.tail(-t, degrees / 2) == pytest.approx(1)
    assert 1 - student.tail(student.quantile(share, degrees), degrees) == pytest.approx(share, abs=1e-9)


def test_invalid_degrees_and_shares_are_refused() -> None:
    """No degrees of freedom, and shares below the middle."""
    with pytest.raises(ValueError, match="degrees"):
        student.tail(1.0, 0)
    with pytest.raises(ValueError, match="share"):
        student.quantile(0.2, 5)


def test_margins_have_a_source() -> None:
    """5 % at the power limit, 4 % at the highest clock and for bandwidth; each says where it comes from."""
    shipped = margins.load()
    assert shipped.shares == {Bound.POWER: 0.05, Bound.CLOCK: 0.04, Bound.BANDWIDTH: 0.04}
    assert 0 < shipped.drift.share < shipped.drift_alone.share < 0.05
    assert all(
        len(margin.source) > 20
        for margin in (*shipped.of_siblings.values(), shipped.drift, shipped.drift_alone, shipped.baseline)
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("percent: 5", "percent: 0", r"line \d+, siblings.power.percent: .*0"),
        ("percent: 5", "percent: much", r"line \d+, siblings.power.percent"),
        ("  clock:", "  clocks:", r"clocks"),
        ("drift:\n  percent: 2", "drift:\n  percent: 100", r"line \d+, drift.percent: .*100"),
    ],
)
def test_a_mistake_in_the_file_has_its_line_and_key(tmp_path: Path, before: str, after: str, message: str) -> None:
    """And a missing margin its key."""
    shipped = (configs_folder() / "margins.yaml").read_text(encoding="utf-8")
    assert before in shipped
    (tmp_path / "margins.yaml").write_text(shipped.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        margins.load(tmp_path)
    text = "siblings: {power: {percent: 5, source: x}}\ndrift: {percent: 2, source: x}\n"
    (tmp_path / "margins.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"siblings.*clock"):
        margins.load(tmp_path)
