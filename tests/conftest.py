"""What holds for every test."""

import os
import sys
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # how fast a busy machine is, is not what properties are about
settings.load_profile("patient")

_DATA = tempfile.TemporaryDirectory(prefix="gpubench-data-")
"""In the place of the user's own data folder, whose history no test may write to."""
_NUMBERS = count()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Give each test, and every process that it starts, a data folder of its own: GPUs of fakes are called alike."""
    os.environ["XDG_DATA_HOME"] = str(Path(_DATA.name) / str(next(_NUMBERS)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """End the runs that the test has left, as one that failed does: else the next one fails too."""
    if (node := sys.modules.get("tests.fakes.node")) is not None:  # importing it here would slow every test down
        node.end_all()


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    _DATA.cleanup()
