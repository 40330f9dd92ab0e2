"""What the tests share of how the sides of a comparison are read."""

from pathlib import Path

import pytest

from tests.fakes.sides import measured


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report.json."""
    return measured(tmp_path / "run").paths.report("json")
