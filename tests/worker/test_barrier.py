"""Processes of a cell with several devices wait for each other, and count their steps."""

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


def steps_begun(folder: Path) -> tuple[int, ...]:
    """The steps that each rank has begun, as the orchestrator reads them."""
    return struct.unpack(f"={SIZE}q", (folder / "steps").read_bytes())


def run_ranks(folder: Path, do: Callable[[int, Gathering], object]) -> list[Future[object]]:
    """Run `do` in a thread for each rank, gathered; then its connections end like those of a process."""

    def one(rank: int) -> object:
        gang = Gang(rank=rank, meeting=str(folder / "meeting"), steps=str(folder / "steps"))
        gathering = Gathering(gang, SIZE)
        with ExitStack() as ends:
            for other in gathering._others:
                ends.enter_context(other)
            return do(rank, gathering)

    with ThreadPoolExecutor(SIZE) as pool:
        return [pool.submit(one, rank) for rank in range(SIZE)]


def test_alignment_waits_for_the_last_rank(folder: Path) -> None:
    """The others wait for whoever is late. Each has counted its arrival before, and the meeting itself."""
    last, early = threading.Event(), list[tuple[int, ...]]()

    def wait(rank: int, gathering: Gathering) -> bool:
        if rank == 1:
            while steps_begun(folder) != (2, 1, 2):
                pass
            early.append(steps_begun(folder))
            last.set()
        gathering.align()
        return last.is_set()

    assert [one.result() for one in run_ranks(folder, wait)] == [True] * SIZE
    assert early == [(2, 1, 2)]
    assert steps_begun(folder) == (2, 2, 2)


@pytest.mark.parametrize("culprit", range(SIZE))
def test_rank_that_leaves_is_a_communication_error(folder: Path, culprit: int) -> None:
    """When one rank leaves, the others fail, at the latest when one of them has left because of it."""

    def leave(rank: int, gathering: Gathering) -> None:
        if rank != culprit:
            gathering.align()

    errors = [one.exception() for one in run_ranks(folder, leave)]
    assert [type(error) for rank, error in enumerate(errors) if rank != culprit] == [CommunicationError] * (SIZE - 1)
    assert errors[culprit] is None
    assert all("transfer 2" in str(error) for error in errors if error is not None)
