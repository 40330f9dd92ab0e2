"""What the tests share of how the sides of a comparison are read."""

from pathlib import Path

import pytest

from tests.fakes.sides import measured


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report.json, which no test changes."""
    return measured(tmp_path_factory.mktemp("compare") / "run").paths.report("json")
