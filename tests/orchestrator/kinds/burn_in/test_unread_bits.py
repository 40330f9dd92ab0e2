"""analysis/discarded_results.py: launches of which nobody can see whether they found wrong bits."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
    cell = next(one for one in night.stored.plan.cells if one.workload is Workload.SOAK and one.devices == ("cpu:1",))
    night.failed(cell, Category.KILLED, phase=Phase.MEASURE)
    folder = night.paths.launch(cell.id, 1).folder
    folder.mkdir(parents=True, exist_ok=True)
    night.work()
    night.finish()
    if closed:
        entered_by_its_owner_alone(monkeypatch, folder)
    else:
        barred(folder)
    told = night.report().burn_in
    assert told is not None
    assert [gpu.verdict for gpu in told.gpus] == [HealthVerdict.PASS, HealthVerdict.UNKNOWN]
    (text,) = (one.text for one in told.gpus[1].reasons)
    assert text.startswith(
        "whether 1 launch without a result that counts found wrong bits cannot be read here: verified products"
    )
    why = "Permission denied" if closed else "Not a directory"
    assert text.endswith(f": {why}; make the report as somebody who may read it, else burn it in again")
