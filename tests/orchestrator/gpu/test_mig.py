"""GPUs in MIG mode on a fake NVML: how their slices are found, labelled, read and judged."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.gpu.health.kernel_log import KernelLog
from orchestrator.gpu.mig import Occupants
from orchestrator.gpu.telemetry.readings import SHARED, Readings, of_slice
from protocol.cell import Device, DeviceKind
from tests.fakes.commands import python
from tests.fakes.nvml import FakeNvml, slice_uuid, uuid

RESOLVE = """
import json
from orchestrator.gpu.devices import resolve
from orchestrator.errors import DeviceError
answers = []
for ids, visible in json.loads({asked!r}):
    try:
        answers.append([[one.label, one.uuid, one.shared_gpu] for one in resolve(ids, visible=visible, cores=(0, 1))])
    except DeviceError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""

READ = """
import json
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.health.reader import vitals
with Nvml() as nvml:
    own = [nvml.read({uuid!r}), nvml.processes({uuid!r}), vitals(nvml, {uuid!r})]
print(json.dumps([own[0].power_mw, own[0].temperature_c, own[0].memory_used_bytes, own[0].gpu_percent,
                  [one.pid for one in own[1]], own[2].values["power_limit_mw"]]))
"""

BUSY = """
import json
from orchestrator.gpu import inventory as seen
from orchestrator.gpu.devices import resolve
from orchestrator.gpu.gpu_users import busy, refusal
look = seen.once()
devices = resolve("all", visible=None, cores=(0, 1), look=look)
print(json.dumps(refusal(devices, busy(devices, look))))
"""

FIRST, SECOND, LARGE = (slice_uuid(0, place) for place in range(3))


@pytest.fixture
def cut(tmp_path: Path) -> FakeNvml:
    """Two GPUs, the first cut into two small slices and a large one."""
    nvml = FakeNvml(tmp_path, gpus=2)
    nvml.cut(0, "1g.18gb", "1g.18gb", "3g.71gb")
    return nvml


def answers(nvml: FakeNvml, *asked: tuple[str, str | None]) -> Any:
    """The answers of resolve() to (--gpu-ids, CUDA_VISIBLE_DEVICES): [label, UUID, shared], or the error's words."""
    return nvml.python(RESOLVE.format(asked=json.dumps(asked)))


def test_slices_are_named_by_uuid_and_all_means_every_one(cut: FakeNvml) -> None:
    """`all` are the slices and the GPUs that have none; a UUID, or its beginning, is one slice."""
    everything, one, beginning, mixed = answers(
        cut, ("all", None), (SECOND, None), (LARGE[:7], None), (f"1,{FIRST},cpu:0", None)
    )
    assert everything == [
        ["GPU 0:0", FIRST, True],
        ["GPU 0:1", SECOND, True],
        ["GPU 0:2", LARGE, True],
        ["GPU 1", uuid(1), False],
    ]
    assert one == [["GPU 0:1", SECOND, False]]
    assert beginning == [["GPU 0:2", LARGE, False]]
    assert [label for label, *_ in mixed] == ["GPU 1", "GPU 0:0", "cpu:0"]


def test_a_gpu_in_mig_mode_is_not_used_as_a_whole(cut: FakeNvml) -> None:
    """By index and by UUID alike, with the slices to request instead."""
    by_index, by_uuid = answers(cut, ("1,0", None), (uuid(0)[:12], None))
    assert by_index == by_uuid
    assert by_index.startswith(f"--gpu-ids: GPU 0 ({uuid(0)}) is in MIG mode")
    assert f"{FIRST} (GPU 0:0, 1g.18gb), {SECOND} (GPU 0:1, 1g.18gb), {LARGE} (GPU 0:2, 3g.71gb)" in by_index


def test_a_gpu_in_mig_mode_without_slices_is_an_error(tmp_path: Path) -> None:
    """With how to cut it, how to leave MIG mode, and the list without it."""
    nvml = FakeNvml(tmp_path, gpus=3)
    nvml.cut(0)
    nvml.cut(2, "7g.141gb")
    (words,) = answers(nvml, ("all", None))
    assert "(nvidia-smi mig -cgi" in words
    assert f"(nvidia-smi -i {uuid(0)} -mig 0)" in words
    assert words.endswith(f"--gpu-ids 1,{slice_uuid(2, 0)}")


def test_slices_in_cuda_visible_devices(cut: FakeNvml) -> None:
    """They have the indices of the job; others are hidden; a whole GPU there brings its slices."""
    everything, first, hidden, gone, reordered, beyond = answers(
        cut,
        ("all", f"{LARGE},{FIRST}"),
        ("0", LARGE[:8]),
        (SECOND, LARGE),
        ("all", f"{FIRST},MIG-ffffffff,{SECOND}"),
        ("all", "1,0"),
        ("1", LARGE),
    )
    assert everything == [["GPU 0", LARGE, True], ["GPU 1", FIRST, True]]
    assert first == [["GPU 0", LARGE, False]]
    assert re.match(f"--gpu-ids: {SECOND} .*CUDA_VISIBLE_DEVICES={LARGE}", hidden)
    assert gone == [["GPU 0", FIRST, False]]
    assert [label for label, *_ in reordered] == ["GPU 0", "GPU 1:0", "GPU 1:1", "GPU 1:2"]
    assert "no GPU 1. " in beyond


def test_unknown_slices_are_errors_with_those_there_are(cut: FakeNvml) -> None:
    """An unknown UUID, the beginning of several, and one given twice."""
    unknown, several, twice, number = answers(
        cut, ("MIG-ffff", None), ("MIG-9", None), (f"all,{FIRST}", None), ("5", None)
    )
    assert re.match(rf"--gpu-ids: .*MIG-ffff; .*{FIRST} \(GPU 0:0, 1g.18gb\), ", unknown)
    assert re.match(f"--gpu-ids: .*MIG-9: {FIRST}, {SECOND}, {LARGE}", several)
    assert twice.startswith(f"--gpu-ids: GPU 0:0 ({FIRST}) is given twice")
    assert re.search(f" 0 to 1; .*{FIRST}", number)


def test_slices_that_a_container_does_not_have_are_skipped(cut: FakeNvml) -> None:
    """NVML refuses them without permission; any other error excludes the GPU, with its reason."""
    cut.set({"gpu.0.mig.1.error.nvmlDeviceGetMigDeviceHandleByIndex": 4})
    (ours,) = answers(cut, ("all", None))
    cut.set({"gpu.0.mig.1.error.nvmlDeviceGetMigDeviceHandleByIndex": 999})
    broken, other = answers(cut, ("all", None), ("1", None))
    assert [label for label, *_ in ours] == ["GPU 0:0", "GPU 0:2", "GPU 1"]
    assert "GPU 0 cannot be used: " in broken
    assert broken.endswith("--gpu-ids 1")
    assert other == [["GPU 1", uuid(1), False]]


def test_info_lists_the_slices(cut: FakeNvml, tmp_path: Path) -> None:
    """Below their GPU, with UUID, profile and memory of their own; in JSON as devices like the others."""
    cut.cut(1)
    words = command(cut, "info", folder=tmp_path)
    assert "MIG          on" in words
    assert f"    GPU 0:2  {LARGE}  3g.71gb, 66.1 GiB, 0.0 GiB used" in words
    assert re.search("MIG slices +none", words)
    facts = json.loads(command(cut, "info", "--json", folder=tmp_path))
    assert [(one["uuid"], one["slice_of"], one["name"]) for one in facts["mig_slices"]] == [
        (FIRST, uuid(0), "NVIDIA H200 MIG 1g.18gb"),
        (SECOND, uuid(0), "NVIDIA H200 MIG 1g.18gb"),
        (LARGE, uuid(0), "NVIDIA H200 MIG 3g.71gb"),
    ]
    assert [one["mig_enabled"] for one in facts["gpus"]] == [True, True]


def command(nvml: FakeNvml, *words: str, folder: Path) -> str:
    """What our command prints where that NVML is."""
    done = python("-P", "-m", "orchestrator", *words, cwd=folder, **nvml.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_slices_are_planned_and_busy_one_by_one(cut: FakeNvml, tmp_path: Path) -> None:
    """Every slice runs the cells; a process on one takes nothing from its neighbours."""
    words = command(cut, "-m", "lstm", "-b", "1", "--phases", "training", "--dry-run", folder=tmp_path)
    assert re.search("4 devices .*all at once", words)
    assert "  GPU 0:1: NVIDIA H200 MIG 1g.18gb\n" in words
    assert words.count("lstm") == 1
    cut.set({"gpu.0.mig.1.compute": f"{os.getpid()} 1073741824"})
    refusal = cut.python(BUSY)
    assert isinstance(refusal, str)
    assert re.match(rf"GPU 0:1 \({SECOND[:12]}…\).*PID {os.getpid()} .*--gpu-ids {FIRST},{LARGE},1,", refusal)


def test_a_slice_has_memory_and_processes_of_its_own(cut: FakeNvml) -> None:
    """Power, temperature and health are the GPU's; the note says so, and its energy is unknown."""
    cut.set({"gpu.0.power_mw": 512_000, "gpu.0.temperature_c": 61, "gpu.0.memory_used_bytes": 5})
    cut.set({"gpu.0.compute": "11 1 12 1", "gpu.0.mig.1.memory_used_bytes": 3, "gpu.0.mig.1.compute": "12 1"})
    assert cut.python(READ.format(uuid=SECOND)) == [512_000, 61, 3, None, [12], 700_000]
    marked = of_slice(Readings(power_draw_w=500.0, energy_j=3.0, memory_used_bytes=7, note="short"))
    assert marked == Readings(power_draw_w=500.0, memory_used_bytes=7, note=f"short; {SHARED}")
    assert of_slice(Readings()).note == SHARED


def test_the_kernels_log_names_the_instance(tmp_path: Path) -> None:
    """In MIG mode an Xid may be of one GPU instance: then it concerns the slices in that alone."""
    log = tmp_path / "kmsg"
    log.touch()
    kernel_log = KernelLog({"00000000:1B:00.0": Occupants({FIRST: 3, SECOND: 5})}, log)
    places = (" GPU-I:05 GPU-CI:00): 13", " GPU-I:06): 13", "): 79")
    log.write_text("".join(f"4,1,1,-;NVRM: Xid (PCI:0000:1b:00{place}, pid=1, name=python3\n" for place in places))
    assert list(kernel_log.heard()) == [(SECOND, 13), (FIRST, 79), (SECOND, 79)]
    kernel_log.close()


@pytest.mark.parametrize(("of", "index", "label"), [(None, None, "GPU 3"), ("y", 1, "GPU 3:1"), ("y", None, "GPU 3")])
def test_labels_of_slices(of: str | None, index: int | None, label: str) -> None:
    """A slice has the label of its GPU and its place there, unless it has an index of its own."""
    device = Device(uuid="x", gpu_id=3, kind=DeviceKind.CUDA, name="a GPU", slice_of=of, slice_index=index)
    assert device.label == label
