"""The telemetry process on a fake NVML: what it writes, hears and reports about the GPUs' health."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.gpu.health import node, records
from orchestrator.gpu.health.course import Course, Courses, follow
from orchestrator.gpu.health.reader import _BROKEN
from orchestrator.gpu.health.records import (
    NOT_COUNTED,
    UNSUPPORTED,
    Deafened,
    HealthRecord,
    NodeVitals,
    Vitals,
    Watch,
)
from orchestrator.gpu.nvml_errors import CORRUPTED_INFOROM
from orchestrator.gpu.telemetry.client import Telemetry
from protocol.messages import DeviceFree, Digest, ForeignSeen, GpuBroken, Unavailable, XidSeen
from protocol.paths import RunPaths
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import hear, sampling


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two GPUs, seen by the children of this process."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def telemetry(fake: FakeNvml, tmp_path: Path) -> Iterator[Telemetry]:
    """The process, reading both GPUs, after its first look."""
    with sampling(tmp_path, 0, 1) as started:
        hear(started, Digest)
        yield started


def written(folder: Path) -> list[HealthRecord]:
    """The records on disk."""
    return list(records.read(RunPaths(folder).health))


def courses(folder: Path) -> Courses:
    """The courses of the GPUs in these records."""
    return follow(written(folder))


def course(folder: Path, *gpus: str) -> Course:
    """The course of the first of some GPUs that telemetry looked at and left."""
    telemetry = Telemetry.start(gpus, folder, 20)
    hear(telemetry, Digest)
    telemetry.stop()
    return courses(folder).gpus[gpus[0]]


def test_a_look_at_the_beginning_and_at_the_end(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """Every GPU and the machine are read at start and at the end; the difference is the rise."""
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
    """The GPU of a launch that is over is read, but not more often than once a second."""
    for _ in range(2):
        hear(telemetry, Digest)  # so that the first look lies two seconds back
    for _ in range(3):
        telemetry.await_free(uuid(1), 0, 10.0)
        hear(telemetry, DeviceFree)
    telemetry.stop()
    looks = [record for record in written(tmp_path) if isinstance(record, Vitals) and record.uuid == uuid(1)]
    assert len(looks) > 2
    times = [look.at_ns for look in looks[:-1]]  # without the last one, which is read at the end
    assert all(later - earlier >= 1_000_000_000 for earlier, later in pairwise(times))


def test_foreign_processes_are_reported_before_a_launch_is_over(fake: FakeNvml, telemetry: Telemetry) -> None:
    """One that started since the last look is reported before the answer by which the launch is judged."""
    said: list[type] = []
    fake.set({"gpu.1.compute": f"{os.getppid()} 4096"})
    telemetry.await_free(uuid(1), 0, 10.0)
    hear(telemetry, object, lambda message: said.append(type(message)) or isinstance(message, DeviceFree))
    assert [one for one in said if one is not Digest] == [ForeignSeen, DeviceFree]


def test_an_xid_is_kept_before_it_is_reported(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """It is on disk when it is sent, so that it survives a kill right after; earlier ones are not heard."""
    fake.xid(1, 79)
    said = hear(telemetry, XidSeen)
    os.kill(telemetry.pid, signal.SIGKILL)
    assert (said.uuid, said.xid) == (uuid(1), 79)
    assert [heard.xid for heard in courses(tmp_path).xids[uuid(1)]] == [79]


def test_slices_share_what_happens_to_their_gpu(fake: FakeNvml, tmp_path: Path) -> None:
    """An Xid that NVML gives to a GPU instance is of its slice; one of the whole GPU, and its loss, of all slices."""
    first, second = fake.cut(0, "3g.71gb", "3g.71gb")
    telemetry = Telemetry.start([first, second, uuid(1)], tmp_path, 20)
    hear(telemetry, Digest)
    fake.xid(0, 13, instance=4)
    fake.xid(0, 31, instance=6)
    fake.xid(0, 79)
    fake.xid(1, 48)
    hear(telemetry, XidSeen, lambda message: message.xid == 48)
    fake.vanish(0)
    telemetry.stop()
    found = courses(tmp_path)
    seen = {uuid: [heard.xid for heard in heard] for uuid, heard in found.xids.items()}
    assert seen == {first: [79], second: [13, 79], uuid(1): [48]}
    assert [bool(found.gpus[one].broken) for one in (first, second, uuid(1))] == [True, True, False]
    assert found.gpus[first].last["power_limit_mw"] == 700_000


def test_several_xids_keep_their_order(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """A failing GPU reports many; none is lost, also those that come while telemetry ends."""
    for number in (48, 45, 45):
        fake.xid(0, number)
    telemetry.stop()
    assert [heard.xid for heard in courses(tmp_path).xids[uuid(0)]] == [48, 45, 45]


def test_gpus_without_events_are_written_down(fake: FakeNvml, tmp_path: Path) -> None:
    """Where events are not supported, the record has the GPU and the reason, and the others are heard."""
    fake.fail("nvmlDeviceRegisterEvents", 4, gpu=0)
    with sampling(tmp_path, 0, 1) as telemetry:
        hear(telemetry, Digest)
        fake.xid(1, 13)
        hear(telemetry, XidSeen)
    watch = written(tmp_path)[0]
    assert watch.deaf == {uuid(0): "no permission"}


def test_write_error_costs_only_health(fake: FakeNvml, tmp_path: Path) -> None:
    """It is reported once, and the readings of the GPUs continue."""
    RunPaths(tmp_path).health.mkdir(parents=True)
    with sampling(tmp_path, 0) as telemetry:
        said = hear(telemetry, Unavailable)
        hear(telemetry, Digest)
    assert "health" in said.reason


def test_events_that_fail_are_no_silence(fake: FakeNvml, telemetry: Telemetry, tmp_path: Path) -> None:
    """When NVML's event set fails, that is written once, and nothing counts as heard from then on."""
    assert not any(isinstance(record, Deafened) for record in written(tmp_path))
    fake.fail("nvmlEventSetWait", 999)
    telemetry.await_free(uuid(0), 1, 10.0)
    hear(telemetry, DeviceFree)
    telemetry.stop()
    (said,) = [record for record in written(tmp_path) if isinstance(record, Deafened)]
    assert said.deaf == dict.fromkeys((uuid(0), uuid(1)), "NVML error 999")


COUNTERS = {"aer_fatal", "aer_nonfatal", "aer_correctable", "memory_corrected", "memory_uncorrected"}
INFOROM = f"{_BROKEN[CORRUPTED_INFOROM]} (NVML error {CORRUPTED_INFOROM})"
ECC = "uncorrected memory errors: 2 in this run"


BREAKS = [
    ({"error.nvmlDeviceGetRemappedRows": CORRUPTED_INFOROM}, INFOROM, False),
    ({"error.*": 15}, "(NVML error 15)", True),
    ({"error.*": 16}, "(NVML error 16)", True),
    ({"ecc_uncorrected": 5}, ECC, False),
    ({"ecc_uncorrected_lifetime": 2}, ECC, False),
]
"""What happens to a GPU, the end of what is reported, and whether the GPU is lost."""


def test_gpus_that_break_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is reported once; if it still answers, the rest of it is read, as is the last GPU, which is healthy."""
    fake = FakeNvml(tmp_path, gpus=len(BREAKS) + 1)
    fake.install(monkeypatch)
    everyone = [uuid(number) for number in range(len(BREAKS) + 1)]
    fake.set({f"gpu.{gpu}.ecc_uncorrected": 3 for gpu in range(len(BREAKS))})  # before the run, for the verdict
    telemetry = Telemetry.start(everyone, tmp_path, 20)
    for _ in range(3):
        hear(telemetry, Digest)
    said = {}
    for gpu, (fault, _, _) in enumerate(BREAKS):
        fake.set({f"gpu.{gpu}.{name}": value for name, value in (fault | {"pcie_replays": 7}).items()})
        telemetry.await_free(uuid(gpu), 0, 10.0)
        said[gpu] = hear(telemetry, GpuBroken)
    telemetry.stop()
    seen = courses(tmp_path).gpus
    for gpu, (_, reason, lost) in enumerate(BREAKS):
        assert (said[gpu].uuid, said[gpu].reason.endswith(reason), said[gpu].lost) == (uuid(gpu), True, lost)
        assert seen[uuid(gpu)].last["pcie_replays"] == (0 if lost else 7)
        assert seen[uuid(gpu)].broken == (said[gpu].reason if lost else "")
        assert seen[uuid(gpu)].damaged == (said[gpu].reason if reason == INFOROM else "")
    assert not seen[everyone[-1]].broken


def test_unreadable_values_have_a_reason(fake: FakeNvml, tmp_path: Path) -> None:
    """A permission differs from a missing function. Before Ada, the slowdown threshold replaces T.Limit."""
    fake.fail("nvmlDeviceGetTotalEccErrors", 4, gpu=0)
    fake.set({"gpu.0.nvlinks": None, "gpu.0.field.230": None})
    seen = course(tmp_path, uuid(0))
    refusals = seen.refusals
    assert refusals["ecc_uncorrected"] == "no permission"
    assert refusals["nvlinks_up"] == refusals["recovery_action"] == UNSUPPORTED
    assert seen.last["peers"] == 1
    fake.set({"gpu.0.margin_c": None, "gpu.0.slowdown_c": 90, "gpu.0.temperature_c": 84})
    assert course(tmp_path / "before Ada", uuid(0)).first["gpu_margin_c"] == 6


def test_an_nvml_that_hangs_ends_nothing(fake: FakeNvml, tmp_path: Path) -> None:
    """A last look that never returns is ended in bounded time; what was written before can be read."""
    telemetry = Telemetry.start([uuid(0)], tmp_path, 20)
    hear(telemetry, Digest)
    fake.hang(0, "nvmlDeviceGetRemappedRows")
    before = time.monotonic()
    telemetry.stop()
    assert time.monotonic() - before < 10.0  # three steps of two seconds
    assert courses(tmp_path).gpus[uuid(0)].looks == 1


def counters(sysfs: Path, place: str, **values: str) -> None:
    """Files of a device in sysfs."""
    folder = sysfs / place
    folder.mkdir(parents=True)
    for name, text in values.items():
        (folder / name).write_text(text)


SLOTS = ["00000000:1B:00.0", "00000000:1C:00.0"]


def test_the_machines_counters_need_no_root(tmp_path: Path) -> None:
    """PCIe errors of the GPUs' slots and memory errors of all controllers are added up from sysfs."""
    for name, fatal in (("0000:1b:00.0", 1), ("0000:1c:00.0", 2)):
        aer = {"aer_dev_fatal": f"Undefined 0\nDLP {fatal}\nTOTAL_ERR_FATAL {fatal}\n"}
        aer["aer_dev_correctable"] = "RxErr 4\nTOTAL_ERR_COR 4\n"
        counters(tmp_path, f"bus/pci/devices/{name}", **aer)
    for name in ("mc0", "mc1"):
        counters(tmp_path, f"devices/system/edac/mc/{name}", ce_count="5\n", ue_count="0\n")
    seen = node.look(SLOTS, sysfs=tmp_path)
    assert seen.values == {"aer_fatal": 3, "aer_correctable": 8, "memory_corrected": 10, "memory_uncorrected": 0}
    assert list(seen.refusals) == ["aer_nonfatal"]


def test_counters_of_a_machine_may_be_partly_unread(tmp_path: Path) -> None:
    """Where a GPU has no address or its slot no counters. Without AER and EDAC, as in many virtual machines, none."""
    nothing = node.look(SLOTS[:1], sysfs=tmp_path)
    assert (nothing.values, nothing.refusals) == ({}, dict.fromkeys(COUNTERS, NOT_COUNTED))
    assert NOT_COUNTED not in node.look(SLOTS[:1], elsewhere=1, sysfs=tmp_path).refusals["aer_fatal"]
    counters(tmp_path, "bus/pci/devices/0000:1b:00.0", aer_dev_fatal="TOTAL_ERR_FATAL 1\n")
    for slots, elsewhere in ((SLOTS[:1], 1), (SLOTS, 0)):
        seen = node.look(slots, elsewhere=elsewhere, sysfs=tmp_path)
        assert seen.values == {"aer_fatal": 1}
        assert "PCIe errors of 1 " in seen.refusals["aer_fatal"]
    assert "aer_fatal" not in node.look(SLOTS[:1], sysfs=tmp_path).refusals
    counters(tmp_path, "bus/pci/devices/0000:1c:00.0", aer_dev_fatal="damaged")
    counters(tmp_path, "devices/system/edac/mc/mc0", ce_count="damaged")
    damaged = node.look(SLOTS[1:], sysfs=tmp_path).refusals
    assert {name for name, why in damaged.items() if why != NOT_COUNTED} == {
        "aer_fatal",
        "memory_corrected",
        "memory_uncorrected",
    }


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


def test_a_watch_counts_gpus_without_an_address(fake: FakeNvml, tmp_path: Path) -> None:
    """NVML does not return the address of one of two."""
    fake.fail("nvmlDeviceGetPciInfo", 3, gpu=1)
    assert fake.python(WITHOUT_A_PLACE.replace("FOLDER", repr(str(tmp_path)))) == [[1, 1]]
