"""analysis/discarded_results.py: launches of which nobody can see whether they found wrong bits."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from protocol.cell import Workload
from protocol.failure import Category, Phase
from tests.fakes.nights import Night
from tests.fakes.runs import cpus

pytestmark = pytest.mark.usefixtures("unsynced")


def barred(folder: Path) -> None:
    """There is no such folder, but a file in its place."""
    folder.rmdir()
    folder.write_bytes(b"")


def entered_by_its_owner_alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """What the kernel says to others: the tests may be root, who enters every folder."""

    def refuse(call: Callable[..., object]) -> Callable[..., object]:
        def refused(path: object, *more: object, **options: object) -> object:
            if isinstance(path, str | Path) and Path(path).parent == folder:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return call(path, *more, **options)

        return refused

    for name in ("open", "stat", "lstat"):
        monkeypatch.setattr(os, name, refuse(getattr(os, name)))


@pytest.mark.parametrize("closed", [False, True])
def test_a_folder_that_cannot_be_entered_is_no_wrong_bits_and_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, closed: bool
) -> None:
    """Nobody can see there whether a file of mismatches was made: UNKNOWN, with the launch and why."""
    night = Night(tmp_path, cpus(2), "10m")
    cell = night.first(Workload.SOAK, "cpu:1")
    night.failed(cell, Category.KILLED, phase=Phase.MEASURE)
    folder = night.paths.launch(cell.id, 1).folder
    folder.mkdir(parents=True, exist_ok=True)
    night.work()
    night.finish()
    if closed:
        entered_by_its_owner_alone(monkeypatch, folder)
    else:
        barred(folder)
    told = night.chapter()
    assert [gpu.verdict for gpu in told.gpus] == [HealthVerdict.PASS, HealthVerdict.UNKNOWN]
    (reason,) = told.gpus[1].reasons
    carried = ("1 launch", "verified products", os.strerror(errno.EACCES if closed else errno.ENOTDIR))
    assert [part for part in carried if part not in reason.text] == []
    assert reason.action is Action.AGAIN
