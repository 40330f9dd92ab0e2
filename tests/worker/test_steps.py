"""Steps of load: when a device works and rests, by a clock that all devices share."""

import itertools
import time
from pathlib import Path

import msgspec
import pytest

from protocol.cell import Workload
from protocol.messages import Assign, LoadSteps
from tests.fakes.assignments import PROBE, SHORT, Listener, assignment, run_here, verified
from worker.verify import burning, products
from worker.workloads import steps


@pytest.mark.parametrize(
    ("now", "offset_s", "rests_s"),
    [
        (99.0, 0.0, 0.0),
        (100.9, 0.0, 0.0),
        (101.0, 0.0, 1.0),
        (101.5, 0.0, 0.5),
        (102.0, 0.0, 0.0),
        (99.4, 1.5, 0.0),  # its work began at 97.5 and begins again at 100.5
        (99.9, 1.5, 0.6),
        (100.5, 1.5, 0.0),
        (0.5, 2.0, 0.0),
    ],
)
def test_device_rests_by_the_shared_clock(now: float, offset_s: float, rests_s: float) -> None:
    """Two seconds of work, one of rest, from the offset on and before it."""
    assert steps.rest_s(LoadSteps(on_s=2, off_s=1, offset_s=offset_s), now) == pytest.approx(rests_s)


def launch(cache: Path, load: LoadSteps | None) -> Assign:
    measurement = msgspec.structs.replace(
        SHORT, relative_half_width=0.0, block_s=0.01, warm_up_iterations=1, min_s=1.0, max_s=1.0
    )
    assign = assignment(PROBE, Workload.STEPS, cache, measurement=measurement, input_size=64, seed=8)
    return msgspec.structs.replace(assign, steps=load)


class HostClock:
    """A simulated shared clock: each reading advances it a little, and a sleep by its length.

    rests: for each, the end on this clock in s, its length in s, and the real time in ns.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.rests: list[tuple[float, float, int]] = []

    def monotonic(self) -> float:
        self.now += 0.03
        return self.now

    def sleep(self, rest_s: float) -> None:
        self.now += rest_s
        self.rests.append((self.now, rest_s, time.monotonic_ns()))


def test_load_comes_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block starts in the time of work, every product is verified, and the device rests in between."""
    monkeypatch.setattr(products, "_MOST_OUTPUTS", 11)
    load = LoadSteps(on_s=0.1, off_s=0.15, offset_s=0.05)
    clock = HostClock()
    monkeypatch.setattr(steps, "time", clock)
    result = run_here(launch(tmp_path, load))
    assert verified(result).mismatches == 0
    assert verified(result).checks >= sum(block.iterations for block in result.blocks)
    rested = []
    for before, after in itertools.pairwise(result.blocks):
        ((now, rest_s, _),) = [rest for rest in clock.rests if before.end_ns <= rest[2] <= after.start_ns]
        assert steps.rest_s(load, now) == pytest.approx(0)
        rested.append(rest_s)
    assert 0 < sum(rest_s > 0.1 for rest_s in rested) < len(rested) / 2


def test_blocks_of_steps_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long those of the burn-in are: a rest starts at the end of a block."""
    asked: list[float] = []
    monkeypatch.setattr(burning, "run", lambda assign, *_args, **_more: asked.append(assign.measurement.block_s))
    for block_s in (0.25, 0.01):
        assign = launch(tmp_path, LoadSteps(on_s=1, off_s=1))
        measurement = msgspec.structs.replace(assign.measurement, block_s=block_s)
        steps.run(msgspec.structs.replace(assign, measurement=measurement), Listener().stage, "exec")
    assert asked == [0.05, 0.01]


def test_products_do_not_depend_on_the_times(tmp_path: Path) -> None:
    """The digests are compared between devices that take turns. A cell of steps needs times to work and to rest."""
    found = [verified(run_here(launch(tmp_path, LoadSteps(on_s=on, off_s=0.01)))) for on in (0.05, 0.2)]
    assert len({one.digests for one in found}) == 1
    with pytest.raises(ValueError, match="times to work"):
        run_here(launch(tmp_path, None))
