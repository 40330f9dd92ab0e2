"""What holds for every test of the worker."""

import gc
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def frozen() -> Iterator[None]:
    """Keep the garbage collector from what was imported, as in every worker: a full collection took 0.2 s with it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Let torch compute with one thread in this process; those that a test starts choose for themselves.

    Several test processes share the cores, and threads that wait for each other in a busy loop took ten times as long.
    """
    if (torch := sys.modules.get("torch")) is not None:  # importing it here would slow every test down
        torch.set_num_threads(1)
