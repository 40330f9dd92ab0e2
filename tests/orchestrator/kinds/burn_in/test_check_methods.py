"""In which ways the launches of a check compared outputs on one device."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import tallies
from protocol.cell import Workload
from protocol.verification import Verification
from tests.fakes.nights import Night, sound
from tests.fakes.runs import cpus

TRITON = "64-bit digest by Triton, in one pass, {} % of the time"
STOCK = "64-bit digest by stock operators (Triton: another digest), {} % of the time"

pytestmark = pytest.mark.usefixtures("unsynced")


def went(way: str, percent: float) -> Verification:
    """What a launch says that compared like this."""
    return Verification(key=(), method=way.format(percent), checks=1)


def test_every_way_is_told_once() -> None:
    """What it cost differs from launch to launch, and makes no other way."""
    launches = [went(TRITON, 1.2), went(STOCK, 8.0), went(TRITON, 1.3)]
    assert tallies.methods(launches) == f"{TRITON.format(1.2)}; {STOCK.format(8.0)}"
    assert tallies.methods(launches[::2]) == TRITON.format(1.2)
    assert tallies.methods([]) == ""
    assert tallies.not_tested({"a": launches[::2], "b": launches[1:2]}) == {}


def test_a_digest_that_failed_its_trial_once_is_told_of_its_device(tmp_path: Path) -> None:
    """Among what was not tested, with how often; the other device has none of it, and both pass."""
    night = Night(tmp_path, cpus(2), "10m")
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    said = {number: msgspec.structs.replace(sound(cell), method=TRITON.format(number / 10)) for number in range(20)}
    said[3] = msgspec.structs.replace(sound(cell), method=STOCK.format(9.0))
    night.work(verified={(0, Workload.SOAK, number): found for number, found in said.items()})
    report = night.ended().burn_in
    assert report is not None
    first, second = report.gpus
    told = {what: why for what, why in first.not_tested.items() if "in one way" in what}
    assert f"soak gemm {cell.precision} in one way all night" in told
    assert all("stock operators (Triton: another digest) in 1 of " in why for why in told.values())
    assert not [what for what in second.not_tested if "in one way" in what]
    assert second.verdict is HealthVerdict.PASS
