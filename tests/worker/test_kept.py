"""worker/verify/kept.py: mismatches are on disk before anything that may end the process."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.cell import Workload
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.paths import LaunchPaths
from protocol.verification import KEPT_MISMATCHES, LEAST_REPLAYS, REPLAY_STEPS, Injection, Seen
from tests.fakes.assignments import LSTM, PROBE, SHORT, Listener, assignment, run_here, verified
from tests.fakes.findings import mismatch
from tests.worker.test_links import iterate
from tests.worker.test_links_repeats import alone
from worker import session
from worker.verify import bits, evidence
from worker.verify.kept import Kept
from worker.workloads import memory, replay


class DiedError(Exception):
    """What ends the process."""


def dies(*_: object, **__: object) -> None:
    raise DiedError


def launch(folder: Path, workload: Workload) -> Assign:
    model = LSTM if workload is Workload.REPLAY else PROBE
    steps = LEAST_REPLAYS * REPLAY_STEPS if workload is Workload.REPLAY else 300
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=steps)
    cell = {} if model is LSTM else {"batch_size": 1, "input_size": 16, "seed": 8}
    injection = Injection(flip_bits=1, stuck=workload is Workload.MEMORY)
    return assignment(model, workload, folder, measurement=measurement, injection=injection, **cell)


CLOSER: dict[Workload, tuple[Any, str]] = {
    Workload.SOAK: (evidence, "examine"),
    Workload.TRUTH: (evidence, "examine"),
    Workload.MEMORY: (memory.MemoryTest, "_examined"),
    Workload.REPLAY: (replay.Replays, "_examined"),
}


@pytest.mark.parametrize("workload", list(CLOSER))
def test_mismatch_is_kept_before_its_examination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """With its check and its time, even if the examination ends the process."""
    monkeypatch.setattr(*CLOSER[workload], dies)
    listener = Listener()
    with pytest.raises(DiedError):
        run_here(launch(tmp_path, workload), listener)
    (seen,) = listener.seen
    assert (seen.at, seen.mismatch.repeated, seen.mismatch.elements) == (0, 0, 0)
    assert seen.mismatch.what
    assert seen.mismatch.at_ns > 0


@pytest.mark.parametrize("workload", list(CLOSER))
def test_last_lines_agree_with_the_result(tmp_path: Path, workload: Workload) -> None:
    """The same mismatches, with all that is known of them."""
    listener = Listener()
    kept = verified(run_here(launch(tmp_path, workload), listener)).kept
    assert kept
    assert tuple({one.at: one.mismatch for one in listener.seen}.values()) == kept
    assert all(one.repeated for one in kept)


def test_wrong_transfer_is_kept_before_its_examination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its kind; and again after its repetition."""
    test, _ = alone(tmp_path, 2)
    with monkeypatch.context() as patched:
        patched.setattr(bits, "differences", dies)
        with pytest.raises(DiedError):
            iterate([test], 3)
    seen: list[Seen] = []
    test, _ = alone(tmp_path, 2)
    test._kept._stage.keep = seen.append
    iterate([test], 3)
    assert [(one.at, one.mismatch.of_all, one.mismatch.elements) for one in seen] == [(0, True, 0), (0, True, 1)]
    test.repeat(test.wrong)
    assert seen[-1].mismatch == test.verification(()).kept[0]
    assert seen[-1].mismatch.repeated == 10


def test_no_more_is_kept_than_a_result_holds() -> None:
    """All are counted."""
    listener = Listener(Phase.MEASURE)
    kept = Kept(listener.stage)
    places = [kept.seen("product", number) for number in range(KEPT_MISMATCHES + 5)]
    assert places == [*range(KEPT_MISMATCHES), *[None] * 5]
    assert (kept.count, len(kept.all), len(listener.seen)) == (KEPT_MISMATCHES + 5, KEPT_MISMATCHES, KEPT_MISMATCHES)


def test_line_is_synced_and_starts_after_a_torn_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file each time, its folder when it is new. A write error costs only the line."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    paths = LaunchPaths(tmp_path)
    session._note(Seen(at=0, mismatch=mismatch()), paths)
    with paths.mismatches.open("ab") as file:
        file.write(b'{"at":1,"mis')
    session._note(Seen(at=2, mismatch=mismatch()), paths)
    assert synced == [str(paths.mismatches), str(tmp_path), str(paths.mismatches)]
    first, torn, last = (line for line in paths.mismatches.read_bytes().split(b"\n") if line)
    assert [msgspec.json.decode(line, type=Seen).at for line in (first, last)] == [0, 2]
    assert torn.startswith(b'{"at":1')
    session._note(Seen(at=0, mismatch=mismatch()), LaunchPaths(tmp_path / "gone"))
