"""The telemetry process looks after the GPUs' health, really, on an NVML of our own: what it writes, hears and says."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.gpu.health import node, records
from orchestrator.gpu.health.course import Courses, follow
from orchestrator.gpu.health.records import Deafened, HealthRecord, NodeVitals, Vitals, Watch
from orchestrator.gpu.telemetry.client import Telemetry
from protocol.messages import DeviceFree, Digest, ForeignSeen, GpuBroken, Unavailable, XidSeen
from protocol.paths import RunPaths
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import hear


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two GPUs, seen by the children of this process."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def telemetry(fake: FakeNvml, tmp_path: Path) -> Iterator[Telemetry]:
    """The process, reading both GPUs."""
    started = Telemetry.start([uuid(0), uuid(1)], tmp_path, 20)
    yield started
    started.stop()


def at_work(telemetry: Telemetry) -> None:
    """Wait until it has looked once."""
    hear(telemetry, lambda message: isinstance(message, Digest))


def written(folder: Path) -> list[HealthRecord]:
    """What lies on disk."""
    return list(records.read(RunPaths(folder).health))


def courses(folder: Path) -> Courses:
    """What that says."""
    return follow(written(folder))


def test_a_look_at_the_beginning_and_at_the_end(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """Every GPU and the machine are looked at when it begins and once more when it ends; the difference is the rise."""
    at_work(telemetry)
    fake.set({"gpu.1.ecc_corrected": 12, "gpu.1.field.52": 3, "gpu.0.nvlinks_up": 17})
    telemetry.stop()
    kinds = [type(record) for record in written(tmp_path)]
    assert kinds == [Watch, Vitals, Vitals, NodeVitals, Vitals, Vitals, NodeVitals]
    seen = courses(tmp_path).gpus
    assert seen[uuid(0)].lowest["nvlinks_up"] == 17
    assert seen[uuid(1)].rise["ecc_corrected"] == 12
    assert seen[uuid(1)].rise["nvlink_errors"] == 3
    assert seen[uuid(1)].first["gpu_margin_c"] == 53  # 51 degrees to its limit, of which it may exceed 2


def test_a_look_after_every_launch(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """The GPU of a launch that is over is looked at, and not more often than once a second."""
    for _ in range(3):
        at_work(telemetry)  # so that the first look lies two seconds back
    for _ in range(3):
        telemetry.await_free(uuid(1), 0, 10.0)
        hear(telemetry, lambda message: isinstance(message, DeviceFree))
    telemetry.stop()
    looks = [record for record in written(tmp_path) if isinstance(record, Vitals) and record.uuid == uuid(1)]
    assert len(looks) > 2
    times = [look.at_ns for look in looks[:-1]]  # without the last one, which comes when it comes
    assert all(later - earlier >= 1_000_000_000 for earlier, later in pairwise(times))


def test_a_launch_is_not_over_before_it_is_known_who_was_beside_it(fake: FakeNvml, telemetry: Telemetry) -> None:
    """A process that came since the last look is told of before the answer that lets the launch's result be judged."""
    said: list[type] = []
    at_work(telemetry)  # with which a look fell together: the next one is half a second off
    fake.set({"gpu.1.compute": f"{os.getppid()} 4096"})
    telemetry.await_free(uuid(1), 0, 10.0)
    hear(telemetry, lambda message: said.append(type(message)) or isinstance(message, DeviceFree))
    assert [one for one in said if one is not Digest] == [ForeignSeen, DeviceFree]


def test_an_xid_is_heard_said_and_kept(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """It is on disk when it is said, so that it outlives a kill right behind it; what came before is not heard."""
    at_work(telemetry)
    fake.xid(1, 79)
    said = hear(telemetry, lambda message: isinstance(message, XidSeen))
    os.kill(telemetry.pid, signal.SIGKILL)
    assert isinstance(said, XidSeen)
    assert (said.uuid, said.xid) == (uuid(1), 79)
    assert [heard.xid for heard in courses(tmp_path).xids[uuid(1)]] == [79]


def test_an_xid_of_a_slice_is_heard_by_it_alone(fake: FakeNvml, tmp_path: Path) -> None:
    """One that NVML gives to a GPU instance is of the slice there; one of the whole GPU is of all its slices."""
    first, second = fake.cut(0, "3g.71gb", "3g.71gb")
    telemetry = Telemetry.start([first, second, uuid(1)], tmp_path, 20)
    at_work(telemetry)
    fake.xid(0, 13, instance=4)
    fake.xid(0, 31, instance=6)
    fake.xid(0, 79)
    fake.xid(1, 48)
    telemetry.stop()
    seen = {uuid: [heard.xid for heard in found] for uuid, found in courses(tmp_path).xids.items()}
    assert seen == {first: [79], second: [13, 79], uuid(1): [48]}


def test_a_lost_gpu_is_lost_to_each_of_its_slices(fake: FakeNvml, tmp_path: Path) -> None:
    """A slice says nothing of health by itself: its GPU is asked."""
    first, second = fake.cut(0, "3g.71gb", "3g.71gb")
    telemetry = Telemetry.start([first, second, uuid(1)], tmp_path, 20)
    at_work(telemetry)
    fake.vanish(0)
    telemetry.stop()
    seen = courses(tmp_path).gpus
    assert [bool(seen[one].broken) for one in (first, second, uuid(1))] == [True, True, False]
    assert seen[first].last["power_limit_mw"] == 700_000


def test_several_xids_keep_their_order(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """A GPU that dies reports many; none is lost, also those that come while it ends."""
    at_work(telemetry)
    for number in (48, 45, 45):
        fake.xid(0, number)
    telemetry.stop()
    assert [heard.xid for heard in courses(tmp_path).xids[uuid(0)]] == [48, 45, 45]


def test_gpus_that_cannot_be_heard_are_named(fake: FakeNvml, tmp_path: Path) -> None:
    """Where events are not supported it says for which GPU and why, and hears the others."""
    fake.fail("nvmlDeviceRegisterEvents", 4, gpu=0)
    telemetry = Telemetry.start([uuid(0), uuid(1)], tmp_path, 20)
    at_work(telemetry)
    fake.xid(1, 13)
    hear(telemetry, lambda message: isinstance(message, XidSeen))
    telemetry.stop()
    watch = written(tmp_path)[0]
    assert isinstance(watch, Watch)
    assert watch.deaf == {uuid(0): "no permission"}


def test_a_disk_that_refuses_costs_health_alone(fake: FakeNvml, tmp_path: Path) -> None:
    """It is said once, and the readings of the GPUs go on."""
    RunPaths(tmp_path).health.mkdir(parents=True)
    telemetry = Telemetry.start([uuid(0)], tmp_path, 20)
    said = hear(telemetry, lambda message: isinstance(message, Unavailable))
    at_work(telemetry)
    telemetry.stop()
    assert isinstance(said, Unavailable)
    assert said.reason.startswith("the health of the GPUs cannot be written")


def test_events_that_fail_are_no_silence(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """NVML's event set refuses in the middle: that is written once, and from then on nobody claims to have heard."""
    at_work(telemetry)
    assert not any(isinstance(record, Deafened) for record in written(tmp_path))
    fake.fail("nvmlEventSetWait", 999)
    telemetry.await_free(uuid(0), 1, 10.0)
    hear(telemetry, lambda message: isinstance(message, DeviceFree))
    telemetry.stop()
    (said,) = [record for record in written(tmp_path) if isinstance(record, Deafened)]
    assert said.deaf == dict.fromkeys((uuid(0), uuid(1)), "NVML error 999")


INFOROM, ECC = "its InfoROM is damaged (NVML error 14)", "memory errors, uncorrected: 2 in this run"


@pytest.mark.parametrize(
    ("fault", "reason", "lost"),
    [
        ({"error.nvmlDeviceGetRemappedRows": 14}, INFOROM, False),
        ({"error.*": 15}, "it has fallen off the bus (NVML error 15)", True),
        ({"error.*": 16}, "it must be reset (NVML error 16)", True),
        ({"ecc_uncorrected": 5}, ECC, False),
        ({"ecc_uncorrected_lifetime": 2}, ECC, False),
    ],
)
def test_a_gpu_that_breaks_in_the_middle(
    fake: FakeNvml, tmp_path: Path, fault: dict[str, int], reason: str, lost: bool
) -> None:
    """It is said once by its own name; of one that still answers the rest is read, as the other GPU is."""
    fake.set({"gpu.0.ecc_uncorrected": 3})  # before the run, which is for the verdict to say
    telemetry = Telemetry.start([uuid(0), uuid(1)], tmp_path, 20)
    for _ in range(3):
        at_work(telemetry)
    fake.set({f"gpu.0.{name}": value for name, value in fault.items()} | {"gpu.0.pcie_replays": 7})
    telemetry.await_free(uuid(0), 0, 10.0)
    said = hear(telemetry, lambda message: isinstance(message, GpuBroken))
    telemetry.stop()
    assert isinstance(said, GpuBroken)
    assert (said.uuid, said.reason, said.lost) == (uuid(0), reason, lost)
    seen = courses(tmp_path).gpus
    assert seen[uuid(0)].last["pcie_replays"] == (0 if lost else 7)
    assert seen[uuid(0)].broken == (reason if lost else "")
    assert seen[uuid(0)].damaged == (reason if reason == INFOROM else "")
    assert not seen[uuid(1)].broken


def test_what_cannot_be_read_says_why(fake: FakeNvml, tmp_path: Path) -> None:
    """A permission, a missing function and a board that has it not are told apart."""
    fake.fail("nvmlDeviceGetTotalEccErrors", 4, gpu=0)
    fake.set({"gpu.0.nvlinks": None, "gpu.0.field.230": None})
    telemetry = Telemetry.start([uuid(0)], tmp_path, 20)
    at_work(telemetry)
    telemetry.stop()
    refusals = courses(tmp_path).gpus[uuid(0)].refusals
    assert refusals["ecc_uncorrected"] == "no permission"
    assert refusals["nvlinks_up"] == refusals["recovery_action"] == "not supported by this board or driver"


def test_thresholds_stand_in_for_the_t_limit(fake: FakeNvml, tmp_path: Path) -> None:
    """Before Ada there is no T.Limit: the distance to the slowdown threshold is the same thing."""
    fake.set({"gpu.0.margin_c": None, "gpu.0.slowdown_c": 90, "gpu.0.temperature_c": 84})
    telemetry = Telemetry.start([uuid(0)], tmp_path, 20)
    at_work(telemetry)
    telemetry.stop()
    assert courses(tmp_path).gpus[uuid(0)].first["gpu_margin_c"] == 6


def test_an_nvml_that_hangs_ends_nothing(fake: FakeNvml, tmp_path: Path) -> None:
    """A last look that never returns is ended in bounded time; what was written before can be read."""
    telemetry = Telemetry.start([uuid(0)], tmp_path, 20)
    at_work(telemetry)
    fake.hang(0, "nvmlDeviceGetRemappedRows")
    before = time.monotonic()
    telemetry.stop()
    assert time.monotonic() - before < 10.0  # three steps of two seconds
    assert courses(tmp_path).gpus[uuid(0)].looks == 1


def test_the_machines_counters_need_no_root(tmp_path: Path) -> None:
    """PCIe errors of the GPUs' slots and memory errors of all controllers are added up from sysfs."""
    for name, fatal in (("0000:1b:00.0", 1), ("0000:1c:00.0", 2)):
        slot = tmp_path / "bus/pci/devices" / name
        slot.mkdir(parents=True)
        (slot / "aer_dev_fatal").write_text(f"Undefined 0\nDLP {fatal}\nTOTAL_ERR_FATAL {fatal}\n")
        (slot / "aer_dev_correctable").write_text("RxErr 4\nTOTAL_ERR_COR 4\n")
    for name in ("mc0", "mc1"):
        controller = tmp_path / "devices/system/edac/mc" / name
        controller.mkdir(parents=True)
        (controller / "ce_count").write_text("5\n")
        (controller / "ue_count").write_text("0\n")
    seen = node.look(["00000000:1B:00.0", "00000000:1C:00.0"], sysfs=tmp_path)
    assert seen.values == {
        "aer_fatal": 3,
        "aer_correctable": 8,
        "memory_corrected": 10,
        "memory_uncorrected": 0,
    }
    assert list(seen.refusals) == ["aer_nonfatal"]


def test_a_gpu_whose_place_nobody_knows_leaves_the_machine_partly_unread(tmp_path: Path) -> None:
    """What the others' slots count is told; that all is well is not, also where one slot has no counters."""
    slot = tmp_path / "bus/pci/devices" / "0000:1b:00.0"
    slot.mkdir(parents=True)
    (slot / "aer_dev_fatal").write_text("TOTAL_ERR_FATAL 1\n")
    for seen in (
        node.look(["00000000:1B:00.0"], elsewhere=1, sysfs=tmp_path),
        node.look(["00000000:1B:00.0", "00000000:1C:00.0"], sysfs=tmp_path),
    ):
        assert seen.values == {"aer_fatal": 1}
        assert "PCIe errors of 1 of these GPUs" in seen.refusals["aer_fatal"]
    assert "aer_fatal" not in node.look(["00000000:1B:00.0"], sysfs=tmp_path).refusals


WITHOUT_A_PLACE = """
import json, sys
from pathlib import Path
from orchestrator.gpu.health import node
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.nvml import uuid
seen, real = [], node.look
node.look = lambda slots, elsewhere: seen.append([len(slots), elsewhere]) or real(slots, elsewhere)
with Nvml() as nvml:
    HealthWatch(nvml, (uuid(0), uuid(1)), Path(FOLDER, "health")).tick(0)
print(json.dumps(seen))
"""


def test_a_watch_knows_how_many_gpus_have_no_place(fake: FakeNvml, tmp_path: Path) -> None:
    """NVML does not tell the address of one of two."""
    fake.fail("nvmlDeviceGetPciInfo", 3, gpu=1)
    assert fake.python(WITHOUT_A_PLACE.replace("FOLDER", repr(str(tmp_path)))) == [[1, 1]]


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    """No AER and no EDAC in sysfs, as in many virtual machines: each is named as unread."""
    seen = node.look(["00000000:1B:00.0"], sysfs=tmp_path)
    assert not seen.values
    assert len(seen.refusals) == 5
