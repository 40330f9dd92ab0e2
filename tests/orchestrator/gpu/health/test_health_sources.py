"""Two sources tell of the driver's errors, NVML and the kernel's log: nothing twice, nothing lost, nothing claimed."""

import errno
import json
import os
from pathlib import Path

import pytest

from orchestrator.gpu.health import records, verdict
from orchestrator.gpu.health.course import Course, follow
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.kernel_log import KernelLog
from orchestrator.gpu.health.records import Deafened, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.mig import Occupants
from tests.fakes.health import case, state
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


def test_a_slot_of_a_large_domain_is_told(tmp_path: Path) -> None:
    """PCI domains beyond four digits, behind a bridge that makes its own, are neither cut off nor mistaken."""
    log = tmp_path / "kmsg"
    log.touch()
    slots = {"00010000:01:00.0": Occupants({uuid(0): None}), "00000000:01:00.0": Occupants({uuid(1): None})}
    kernel_log = KernelLog(slots, log)
    with log.open("a") as file:
        file.write("4,1,1,-;NVRM: Xid (PCI:10000:01:00): 79, pid=1\n4,2,2,-;NVRM: Xid (PCI:0000:01:00): 48, pid=1\n")
    assert list(kernel_log.heard()) == [(uuid(0), 79), (uuid(1), 48)]
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
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.health import case, state
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
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.health import case, state
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
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.health import case, state
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


SILENT = """
import json, os, sys, time
from pathlib import Path
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.nvml import uuid
log, overwritten = Path(sys.argv[1]), sys.argv[2:]
read = os.read
def refuse(fd, count):
    if overwritten and fd == watch._kernel_log._fd:
        raise OSError(int(overwritten.pop()), "the kernel has written over it")
    return read(fd, count)
os.read = refuse
with Nvml() as nvml:
    watch = HealthWatch(nvml, [uuid(0), uuid(1)], log.with_name("health"), log)
    heard = [[one.uuid, one.xid] for one in watch.tick(time.monotonic_ns())]
    with log.open("a") as file:
        file.write("4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1\\n")
    heard += [[one.uuid, one.xid] for one in watch.tick(time.monotonic_ns())]
    watch.close()
print(json.dumps(heard))
"""
NO_EVENTS = "NVML's events not heard (not supported by this board or driver)"


def unheard(fake: FakeNvml, folder: Path, *errors: int) -> tuple[object, list[Course]]:
    """What is heard of two GPUs, and their courses: the first has no NVML events, and then an Xid in the kernel's log.

    errors: what the log's first reads are refused with.
    """
    log = folder / "kmsg"
    log.touch()
    fake.fail("nvmlDeviceRegisterEvents", 3, gpu=0)
    arguments = [str(log), *map(str, errors)]
    heard = fake.python(f"import sys; sys.argv[1:] = {arguments!r}\n{SILENT}")
    courses = follow(records.read(folder / "health")).gpus
    return heard, [courses[uuid(0)], courses[uuid(1)]]


def xid(course: Course) -> tuple[State, str, HealthVerdict]:
    """What became of the signal, in words, and the verdict where it is required."""
    opinion = verdict.of_gpu(case(course), ("xid",))
    (finding,) = [one for one in opinion.findings if one.name == "xid"]
    return state(opinion, "xid"), finding.judgement.message, opinion.verdict


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"gpu.0.error.nvmlDeviceGetPciInfo": 4}, "no permission"),
        ({"gpu.0.pci_address": ""}, "NVML tells an empty one"),
    ],
)
def test_a_gpu_without_an_address_is_not_heard_in_the_log(
    fake: FakeNvml, tmp_path: Path, answer: dict[str, object], why: str
) -> None:
    """Nobody knows which lines are its own: the log is no answer for it, and one for the others."""
    fake.set(answer)
    heard, (first, second) = unheard(fake, tmp_path)
    words = f"{NO_EVENTS}, the kernel's log not heard (its PCI address is unknown: {why})"
    assert heard == []
    assert xid(first) == (State.UNREADABLE, words, HealthVerdict.UNKNOWN)
    assert (second.unheard, second.deaf) == ({}, "")
    (begun,) = [one for one in records.read(tmp_path / "health") if isinstance(one, Watch)]
    assert begun.unlogged == {uuid(0): f"its PCI address is unknown: {why}"}


def test_with_an_address_the_log_answers_for_it(fake: FakeNvml, tmp_path: Path) -> None:
    """The same GPU that tells its address is heard there, without NVML's events."""
    heard, (first, _) = unheard(fake, tmp_path)
    assert heard == [[uuid(0), 79]]
    assert xid(first)[:2] == (State.PASS, f"{NO_EVENTS}, the kernel's log heard")


def test_records_that_were_overwritten_are_a_gap(fake: FakeNvml, tmp_path: Path) -> None:
    """They may have held an Xid: it is written down once, and what comes afterwards is heard all the same."""
    heard, (first, second) = unheard(fake, tmp_path, errno.EPIPE)
    missed = "the kernel's log not heard (records were overwritten before they were read)"
    assert heard == [[uuid(0), 79]]
    assert xid(first) == (State.UNREADABLE, f"{NO_EVENTS}, {missed}", HealthVerdict.UNKNOWN)
    assert xid(second)[:2] == (State.PASS, f"NVML's events heard, {missed}")
    (said,) = [one for one in records.read(tmp_path / "health") if isinstance(one, Deafened)]
    assert (said.kernel_log, list(said.unlogged)) == (True, [uuid(0), uuid(1)])
