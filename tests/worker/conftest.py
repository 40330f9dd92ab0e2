"""What holds for every test of the worker."""

import gc
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def frozen() -> Iterator[None]:
    """Keep the garbage collector from what was imported, as in every worker: a full collection took 0.2 s with it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None] | None:
    """Let torch compute with one thread in this process; those that a test starts choose for themselves.

    Several test processes share the cores, and threads that wait for each other in a busy loop took ten times as long.
    A launch asks for all cores as it opens its device, which would undo this: that is not heard here. Gives what sets
    the number of threads, or None where torch was not imported.
    """
    if (torch := sys.modules.get("torch")) is None:  # importing it here would slow every test down
        return None
    honest: Callable[[int], None] = torch.set_num_threads
    honest(1)
    monkeypatch.setattr(torch, "set_num_threads", lambda _count: None)
    return honest


@pytest.fixture
def every_core(one_thread: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch in this process has as many threads as it asks for, for tests of what they are or depend on."""
    monkeypatch.setattr("torch.set_num_threads", one_thread)
