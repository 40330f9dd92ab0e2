"""How long does it take to know where a large run stands? The journal of so many cells is replayed and viewed.

    python -m tests.bench.replaying [cells]

Eight GPUs, four batch sizes a model, a failure in every hundredth launch. Prints seconds of CPU for reading the
records, the replay of the whole run, the start of a resumed session, the outcomes, and the status.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from orchestrator.analysis import outcomes
from orchestrator.engine import run_status
from orchestrator.state import archive
from orchestrator.state.replay import replay, rules_of
from orchestrator.store import journal
from orchestrator.store.records import End, Finished, Left, Record, Start
from protocol.cell import ModelSpec
from protocol.failure import Category, Failure, Phase
from tests.fakes.runs import FakeRun, gpus, shipped

T = TypeVar("T")
DEVICES: Final = 8
SIZES: Final = (1, 2, 4, 8)


def main(cells: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="gpubench-bench-") as name:
        run = FakeRun(Path(name), devices=gpus(DEVICES), models=_models(cells), batch_sizes=SIZES)
        run._journal.close()
        begun = len(journal.read(run.paths.journal))
        with run.paths.journal.open("ab") as file:  # not synced one by one, which is what takes the time
            file.writelines(journal._framed(one, begun + place) for place, one in enumerate(_records(run)))
        records = journal.read(run.paths.journal)
        print(f"{len(run.stored.plan.cells)} cells, {len(records)} records")
        _timed("read the journal", lambda: journal.read(run.paths.journal))
        replayed = _timed("replay", lambda: replay(run.stored.plan, rules_of(run.stored), records))
        _timed("outcomes", lambda: outcomes.derive(replayed))
        _timed("archive", lambda: archive.load(run.paths, run.stored))
        _timed("status", lambda: run_status.look(run.stored, run.paths))


def _models(cells: int) -> tuple[ModelSpec, ...]:
    (one,) = shipped("resnet50")
    number = max(1, cells // (DEVICES * len(SIZES)))
    return tuple(msgspec.structs.replace(one, name=f"model{place}") for place in range(number))


def _records(run: FakeRun) -> list[Record]:
    """Those of a run in which every launch was made, a hundredth of them twice, and that is over."""
    found: list[Record] = []
    sizes = {cell.id: cell.batch_size for cell in run.stored.plan.cells}
    crashed = Failure(category=Category.CRASHED, message="killed by SIGSEGV", phase=Phase.MEASURE)
    launch = 0
    for place in range(max(map(len, run.stored.plan.order.values()))):
        for device, queue in run.stored.plan.order.items():
            cell, number = queue[place]
            for attempt in (1, 2) if launch % 100 == 0 else (1,):
                at_ns = run.now_ns + launch
                failure = crashed if attempt == 1 and launch % 100 == 0 else None
                digest = None if failure else "0" * 64
                size = sizes[cell]
                found += [
                    Start(
                        launch=launch,
                        cell=cell,
                        round=number,
                        attempt=attempt,
                        batch_size=size,
                        device=device,
                        at_ns=at_ns,
                    ),
                    End(launch=launch, at_ns=at_ns, result_sha256=digest, failure=failure),
                    Left(launch=launch, exit_code=0, signal=None, teardown_ms=1.0),
                ]
                launch += 1
    return [*found, Finished(at_ns=run.now_ns + launch, interrupted=False)]


def _timed(what: str, work: Callable[[], T]) -> T:
    """What `work` returns. Prints the least CPU time of three tries."""
    times = []
    for _ in range(3):
        before = time.process_time()
        found = work()
        times.append(time.process_time() - before)
    print(f"{what:20s} {min(times):7.3f} s of CPU")
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
