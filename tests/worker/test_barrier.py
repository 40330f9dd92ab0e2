"""worker/barrier.py and worker/step_counter.py: processes of a made-up cell wait for each other, and count it."""

import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from protocol.messages import STEP, Gang
from worker.barrier import Gathering
from worker.errors import CommunicationError

SIZE = 3


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, with room for the steps of three."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        (Path(made) / "steps").write_bytes(bytes(STEP.size * SIZE))
        yield Path(made)


def begun(folder: Path) -> tuple[int, ...]:
    """What each has begun, as it is told from outside."""
    return struct.unpack(f"={SIZE}q", (folder / "steps").read_bytes())


def together(folder: Path, do: Callable[[int, Gathering], object]) -> list[Future[object]]:
    """Each of three, in a thread of its own: gathered, then `do`, then its connections end as those of a process."""

    def one(rank: int) -> object:
        gang = Gang(rank=rank, meeting=str(folder / "meeting"), steps=str(folder / "steps"))
        gathering = Gathering(gang, SIZE)
        with ExitStack() as ends:
            for other in gathering._others:
                ends.enter_context(other)
            return do(rank, gathering)

    with ThreadPoolExecutor(SIZE) as pool:
        return [pool.submit(one, rank) for rank in range(SIZE)]


def test_nobody_goes_on_before_all_have_come(folder: Path) -> None:
    """Whoever is late, the others wait for; each has counted its coming before, and the meeting itself."""
    last, early = threading.Event(), list[tuple[int, ...]]()

    def wait(rank: int, gathering: Gathering) -> bool:
        if rank == 1:
            while begun(folder) != (2, 1, 2):
                pass
            early.append(begun(folder))
            last.set()
        gathering.align()
        return last.is_set()

    assert [one.result() for one in together(folder, wait)] == [True] * SIZE
    assert early == [(2, 1, 2)]
    assert begun(folder) == (2, 2, 2)


@pytest.mark.parametrize("culprit", range(SIZE))
def test_a_connection_that_ends_is_told_as_such(folder: Path, culprit: int) -> None:
    """Whoever leaves, the others hear of it, at the latest when one of them has left because of it."""

    def leave(rank: int, gathering: Gathering) -> None:
        if rank != culprit:
            gathering.align()

    errors = [one.exception() for one in together(folder, leave)]
    assert [type(error) for rank, error in enumerate(errors) if rank != culprit] == [CommunicationError] * (SIZE - 1)
    assert errors[culprit] is None
    assert all("transfer 2" in str(error) for error in errors if error is not None)
