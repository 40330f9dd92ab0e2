"""Two sources tell of the driver's errors, NVML and the kernel's log: nothing twice, nothing lost, nothing claimed."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.health import records
from orchestrator.health.course import follow
from orchestrator.health.kernel_log import KernelLog
from orchestrator.health.records import Deafened
from orchestrator.machine.mig import Occupants
from tests.fakes.nvml import FakeNvml, uuid


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    """Two GPUs."""
    return FakeNvml(tmp_path, gpus=2)


def test_the_kernels_log_tells_what_nvml_does_not(tmp_path: Path) -> None:
    """New Xids of the run's GPUs are taken from it, by their slots; older ones, and those of others, are not."""
    log = tmp_path / "kmsg"
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 13, pid=1\n")
    kernel_log = KernelLog({"00000000:1B:00.0": Occupants({uuid(0): None})}, log)
    with log.open("a") as file:
        file.write("4,2,2,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.\n")
        file.write("4,3,3,-;NVRM: Xid (PCI:0000:2c:00): 48, pid=4711\n6,4,4,-;eth0: link up\n")
    assert list(kernel_log.heard()) == [(uuid(0), 79)]
    assert list(kernel_log.heard()) == []
    kernel_log.close()


@pytest.mark.parametrize("path", ["/dev/null", "/nowhere/kmsg"])
def test_a_kernel_log_that_is_none(path: str) -> None:
    """What containers put in its place is not taken for it."""
    kernel_log = KernelLog({}, Path(path))
    assert not kernel_log.readable
    assert list(kernel_log.heard()) == []


TWO_SOURCES = """
import json, sys, time
from pathlib import Path
from orchestrator.health.watch import HealthWatch
from orchestrator.machine.nvml import Nvml
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import hear
log, script = Path(sys.argv[1]), Path(sys.argv[2])
line = "4,1,1,-;NVRM: Xid (PCI:0000:1b:00): {}, pid=1\\n"
with Nvml() as nvml:
    watch = HealthWatch(nvml, [uuid(0)], log.with_name("health"), log)
    heard = [list(watch.tick(time.monotonic_ns()))]
    for xids, events in (((79, 13), "event.1 = 0 79\\n"), ((), "event.2 = 0 13\\n")):
        with log.open("a") as file:
            file.writelines(line.format(xid) for xid in xids)
        with script.open("a") as file:
            file.write(events)
        heard.append([one.xid for one in watch.tick(time.monotonic_ns())])
    watch.close()
print(json.dumps(heard))
"""


def test_an_error_that_is_told_twice_counts_once(fake: FakeNvml, tmp_path: Path) -> None:
    """NVML and the kernel's log tell of the same error, in either order."""
    log = tmp_path / "kmsg"
    log.touch()
    source = f"import sys; sys.argv[1:] = [{str(log)!r}, {fake.environment['GPUBENCH_FAKE_NVML']!r}]\n{TWO_SOURCES}"
    assert fake.python(source) == [[], [79, 13], []]


STORM = """
import json, sys, time
from pathlib import Path
from orchestrator.health.watch import HealthWatch
from orchestrator.machine.nvml import Nvml
from tests.fakes.nvml import uuid
log = Path(sys.argv[1])
told = []
with Nvml() as nvml:
    watch = HealthWatch(nvml, [uuid(0), uuid(1)], log.with_name("health"), log)
    for slot, number, times in json.loads(sys.argv[2]):
        for _ in range(5):
            with log.open("a") as file:
                file.write(f"4,1,1,-;NVRM: Xid (PCI:0000:{slot}:00): {number}, pid=1\\n" * times)
            told += [(one.uuid, one.xid) for one in watch.tick(time.monotonic_ns()) if hasattr(one, "xid")]
    watch.close()
print(json.dumps([[gpu, number, told.count((uuid(gpu), number))] for gpu in (0, 1) for number in (31, 48, 79, 119)]))
"""


def test_a_storm_of_errors_fills_no_disk_and_hides_none(fake: FakeNvml, tmp_path: Path) -> None:
    """A thousand errors of a GPU and kind are kept and said; those of others, and new grave numbers, come through."""
    log = tmp_path / "kmsg"
    log.touch()
    storm = [["1b", 31, 300], ["1b", 79, 1], ["1c", 48, 300], ["1c", 119, 1], ["1c", 31, 1]]
    counted = fake.python(f"import sys; sys.argv[1:] = {[str(log), json.dumps(storm)]!r}\n{STORM}")
    assert isinstance(counted, list)
    expected = [[0, 31, 1000], [0, 79, 5], [1, 31, 5], [1, 48, 1000], [1, 119, 1]]
    assert [one for one in counted if one[2]] == expected
    kept = follow(records.read(tmp_path / "health")).xids
    assert [len(kept[uuid(gpu)]) for gpu in (0, 1)] == [1005, 1006]


def test_a_log_that_can_no_longer_be_read_is_told(tmp_path: Path) -> None:
    """An error other than "nothing has come" ends it: from then on it does not count as read."""
    log = tmp_path / "kmsg"
    log.touch()
    kernel_log = KernelLog({}, log)
    assert list(kernel_log.heard()) == []
    assert kernel_log.readable
    assert kernel_log._fd is not None
    folder = os.open(tmp_path, os.O_RDONLY)  # which no read succeeds on
    os.dup2(folder, kernel_log._fd)
    os.close(folder)
    assert list(kernel_log.heard()) == []
    assert not kernel_log.readable


LOSES_ITS_LOG = """
import json, sys, time
from pathlib import Path
from orchestrator.health.watch import HealthWatch
from orchestrator.machine.nvml import Nvml
from tests.fakes.nvml import uuid
log = Path(sys.argv[1])
with Nvml() as nvml:
    watch = HealthWatch(nvml, [uuid(0)], log.with_name("health"), log)
    for _ in range(3):
        watch.tick(time.monotonic_ns())
        watch._kernel_log.close()
    watch.close()
print(json.dumps(None))
"""


def test_a_log_that_is_lost_is_written_down(fake: FakeNvml, tmp_path: Path) -> None:
    """Once, so that the report names the source that was not heard to the end."""
    log = tmp_path / "kmsg"
    log.touch()
    fake.python(f"import sys; sys.argv[1:] = [{str(log)!r}]\n{LOSES_ITS_LOG}")
    written = list(records.read(tmp_path / "health"))
    assert [(one.deaf, one.kernel_log) for one in written if isinstance(one, Deafened)] == [({}, False)]
    assert list(follow(written).gpus[uuid(0)].unheard) == ["the kernel's log"]
