"""The two sources of the driver's errors, NVML and the kernel's log: nothing twice, nothing lost, nothing claimed."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from orchestrator.gpu.health import records, verdict
from orchestrator.gpu.health.course import EVENTS, Course, follow
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.kernel_log import KernelLog
from orchestrator.gpu.health.records import UNSUPPORTED, Deafened, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.mig import Occupants
from tests.fakes.health import case, state
from tests.fakes.nvml import FakeNvml, uuid


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    """Two GPUs."""
    return FakeNvml(tmp_path, gpus=2)


def append(log: Path, *lines: str) -> None:
    """Add lines as the kernel writes them."""
    with log.open("a") as file:
        file.writelines(f"4,1,1,-;{line}\n" for line in lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A kernel log with an old error."""
    append(tmp_path / "kmsg", "NVRM: Xid (PCI:0000:1b:00): 13, pid=1")
    return tmp_path / "kmsg"


def test_the_kernels_log_has_errors_of_the_runs_gpus(log: Path) -> None:
    """New Xids are taken by their slots, also in PCI domains of more than four digits; old and other ones are not."""
    slots = {"00000000:1B:00.0": uuid(0), "00010000:01:00.0": uuid(1), "00000000:01:00.0": uuid(2)}
    kernel_log = KernelLog({slot: Occupants({gpu: None}) for slot, gpu in slots.items()}, log)
    append(log, "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.")
    append(log, "NVRM: Xid (PCI:0000:2c:00): 48, pid=4711", "eth0: link up")
    append(log, "NVRM: Xid (PCI:10000:01:00): 79, pid=1", "NVRM: Xid (PCI:0000:01:00): 48, pid=1")
    assert list(kernel_log.heard()) == [(uuid(0), 79), (uuid(1), 79), (uuid(2), 48)]
    assert list(kernel_log.heard()) == []
    kernel_log.close()


@pytest.mark.parametrize("path", ["/dev/null", "/nowhere/kmsg"])
def test_a_file_that_is_no_kernel_log(path: str) -> None:
    """Containers put such files in its place."""
    kernel_log = KernelLog({}, Path(path))
    assert not kernel_log.readable
    assert list(kernel_log.heard()) == []


TWO_SOURCES = """
import json, sys, time
from pathlib import Path
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from tests.fakes.nvml import FakeNvml, uuid
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


def run(fake: FakeNvml, source: str, *arguments: object) -> object:
    """What a script prints with these arguments."""
    return fake.python(f"import sys; sys.argv[1:] = {list(map(str, arguments))!r}\n{source}")


def test_an_error_of_both_sources_counts_once(fake: FakeNvml, log: Path) -> None:
    """NVML and the kernel's log have the same error, in either order."""
    assert run(fake, TWO_SOURCES, log, fake.environment["GPUBENCH_FAKE_NVML"]) == [[], [79, 13], []]


STORM = """
import json, sys, time
from pathlib import Path
from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
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


def test_a_storm_of_errors_fills_no_disk_and_hides_none(fake: FakeNvml, log: Path) -> None:
    """A thousand errors of a GPU and kind are kept; those of others, and new grave numbers, come through."""
    storm = [["1b", 31, 300], ["1b", 79, 1], ["1c", 48, 300], ["1c", 119, 1], ["1c", 31, 1]]
    counted = run(fake, STORM, log, json.dumps(storm))
    assert isinstance(counted, list)
    expected = [[0, 31, 1000], [0, 79, 5], [1, 31, 5], [1, 48, 1000], [1, 119, 1]]
    assert [one for one in counted if one[2]] == expected
    kept = follow(records.read(log.with_name("health"))).xids
    assert [len(kept[uuid(gpu)]) for gpu in (0, 1)] == [1005, 1006]


def test_a_log_that_becomes_unreadable_does_not_count_as_read(tmp_path: Path, log: Path) -> None:
    """From an error other than "nothing new" on."""
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


def test_a_lost_log_is_written_down(fake: FakeNvml, tmp_path: Path, log: Path) -> None:
    """Once, so that the report names the source that was not heard to the end."""
    run(fake, LOSES_ITS_LOG, log)
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
NO_EVENTS = f"{EVENTS} not heard ({UNSUPPORTED})"


def unheard(fake: FakeNvml, log: Path, *errors: int) -> tuple[object, list[Course]]:
    """Xids and courses of two GPUs. The first has no NVML events, and then an Xid in the kernel's log.

    errors: of the log's first reads.
    """
    fake.fail("nvmlDeviceRegisterEvents", 3, gpu=0)
    heard = run(fake, SILENT, log, *errors)
    courses = follow(records.read(log.with_name("health"))).gpus
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
        ({"gpu.0.pci_address": ""}, "NVML .* empty"),
    ],
)
def test_a_gpu_without_an_address_is_not_heard_in_the_log(
    fake: FakeNvml, tmp_path: Path, log: Path, answer: dict[str, object], why: str
) -> None:
    """Its lines are unknown: the log is no source for it, only for the others."""
    fake.set(answer)
    heard, (first, second) = unheard(fake, log)
    assert heard == []
    (begun,) = [one for one in records.read(tmp_path / "health") if isinstance(one, Watch)]
    assert re.fullmatch(f"its PCI address .*: {why}.*", begun.unlogged.pop(uuid(0)))
    assert begun.unlogged == {}
    state, words, verdict = xid(first)
    assert (state, verdict) == (State.UNREADABLE, HealthVerdict.UNKNOWN)
    assert re.fullmatch(rf"{re.escape(NO_EVENTS)}, .* not heard .*PCI .*: {why}.*\)", words)
    assert (second.unheard, second.deaf) == ({}, "")


def test_a_gpu_with_an_address_is_heard_in_the_log(fake: FakeNvml, log: Path) -> None:
    """Without NVML's events."""
    heard, (first, _) = unheard(fake, log)
    assert heard == [[uuid(0), 79]]
    state, words, _ = xid(first)
    assert (state, words.startswith(NO_EVENTS), words.endswith("log heard")) == (State.PASS, True, True)


def test_overwritten_records_are_a_gap(fake: FakeNvml, tmp_path: Path, log: Path) -> None:
    """They may have held an Xid. The gap is written down once, and later lines are heard."""
    heard, (first, second) = unheard(fake, log, errno.EPIPE)
    assert heard == [[uuid(0), 79]]
    (state, words, judged), (other, others, _) = xid(first), xid(second)
    assert (state, other, judged) == (State.UNREADABLE, State.PASS, HealthVerdict.UNKNOWN)
    assert (words.startswith(f"{NO_EVENTS}, "), "overwritten" in words) == (True, True)
    assert (others.startswith("NVML's events heard"), "overwritten" in others) == (True, True)
    (said,) = [one for one in records.read(tmp_path / "health") if isinstance(one, Deafened)]
    assert (said.kernel_log, list(said.unlogged)) == (True, [uuid(0), uuid(1)])
