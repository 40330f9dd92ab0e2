"""Set-up of every test: hypothesis profiles, data folders, and the end of leftover runs."""

import os
import sys
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: properties are not about the speed of a busy machine. `make test-slow` asks for the full profile.
settings.register_profile("small", deadline=None, max_examples=20)
settings.register_profile("full", deadline=None, max_examples=200)
settings.load_profile("small")

pytest.register_assert_rewrite("tests.fakes")  # what they assert fails with its values, as in tests

# Inductor believes the flags of the processor. For each empty cache it would compile and load programs that try them.
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"

_DATA = tempfile.TemporaryDirectory(prefix="gpubench-data-")
"""Replaces the user's own data folder, whose history no test may write to."""
_NUMBERS = count()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Give each test and its processes a data folder of their own: the GPUs of fakes share their names."""
    os.environ["XDG_DATA_HOME"] = str(Path(_DATA.name) / str(next(_NUMBERS)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """End the runs that a failed test has left: otherwise the next test fails too."""
    if (node := sys.modules.get("tests.fakes.node")) is not None:  # an import here would slow every test down
        node.end_all()


def pytest_unconfigure() -> None:
    _DATA.cleanup()
