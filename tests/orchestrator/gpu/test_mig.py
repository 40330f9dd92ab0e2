"""GPUs in MIG mode, on an NVML of our own: how their slices are found, named, read and judged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.gpu.health.kernel_log import KernelLog
from orchestrator.gpu.mig import Occupants
from orchestrator.gpu.telemetry.readings import SHARED, Readings, of_slice
from protocol.cell import Device, DeviceKind
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


def ask(nvml: FakeNvml, *asked: tuple[str, str | None]) -> Any:
    """What resolve() answers to each (--gpu-ids, CUDA_VISIBLE_DEVICES): [label, UUID, shared], or the error's words."""
    return nvml.python(RESOLVE.format(asked=json.dumps(asked)))


def test_slices_are_named_by_uuid_and_all_means_every_one(cut: FakeNvml) -> None:
    """`all` are the slices and the GPUs that have none; a UUID, or its beginning, is one slice."""
    everything, one, beginning, mixed = ask(
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
    """By index and by UUID alike: why not, and what to name in its place."""
    by_index, by_uuid = ask(cut, ("1,0", None), (uuid(0)[:12], None))
    assert by_index == by_uuid
    assert by_index == (
        f"--gpu-ids: GPU 0 ({uuid(0)}) is in MIG mode, in which CUDA sees slices of it alone. Name slices of it: "
        f"{FIRST} (GPU 0:0, 1g.18gb), {SECOND} (GPU 0:1, 1g.18gb), {LARGE} (GPU 0:2, 3g.71gb); all names every one of "
        "them"
    )


def test_a_gpu_in_mig_mode_without_slices_is_said(tmp_path: Path) -> None:
    """It is not left out silently: how to cut it, how to leave MIG mode, how to go on without it."""
    nvml = FakeNvml(tmp_path, gpus=3)
    nvml.cut(0)
    nvml.cut(2, "7g.141gb")
    (words,) = ask(nvml, ("all", None))
    assert "and it has none that can be used here. Make some (nvidia-smi mig -cgi" in words
    assert f"(nvidia-smi -i {uuid(0)} -mig 0)" in words
    assert words.endswith(f"Leave it out with --gpu-ids 1,{slice_uuid(2, 0)}")


def test_slices_in_cuda_visible_devices(cut: FakeNvml) -> None:
    """They are counted as the job sees them; what is not named is hidden; a whole GPU there brings its slices."""
    everything, first, hidden, gone, reordered, beyond = ask(
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
    assert hidden == f"--gpu-ids: {SECOND} is hidden by CUDA_VISIBLE_DEVICES={LARGE}"
    assert gone == [["GPU 0", FIRST, False]]
    assert [label for label, *_ in reordered] == ["GPU 0", "GPU 1:0", "GPU 1:1", "GPU 1:2"]
    assert "there is no GPU 1; there are only 0" in beyond


def test_unknown_slices_are_told_those_there_are(cut: FakeNvml) -> None:
    """A UUID that is none, the beginning of several, and one named twice."""
    unknown, several, twice, number = ask(cut, ("MIG-ffff", None), ("MIG-9", None), (f"all,{FIRST}", None), ("5", None))
    assert unknown.startswith(f"--gpu-ids: no slice has the UUID MIG-ffff; slices are {FIRST} (GPU 0:0, 1g.18gb), ")
    assert several == (
        f"--gpu-ids: MIG-9 is the beginning of several UUIDs: {FIRST}, {SECOND}, {LARGE}. Give more of it"
    )
    assert twice == f"--gpu-ids: GPU 0:0 ({FIRST}) is named twice. Name each device once"
    assert f"there are 0 to 1; slices are {FIRST}" in number


def test_slices_that_a_container_was_not_given_are_left_out(cut: FakeNvml) -> None:
    """NVML refuses them there; any other refusal takes the GPU out, with its reason."""
    cut.set({"gpu.0.mig.1.error.nvmlDeviceGetMigDeviceHandleByIndex": 4})
    (ours,) = ask(cut, ("all", None))
    cut.set({"gpu.0.mig.1.error.nvmlDeviceGetMigDeviceHandleByIndex": 999})
    broken, other = ask(cut, ("all", None), ("1", None))
    assert [label for label, *_ in ours] == ["GPU 0:0", "GPU 0:2", "GPU 1"]
    assert "GPU 0 cannot be used: " in broken
    assert broken.endswith("Leave it out with --gpu-ids 1")
    assert other == [["GPU 1", uuid(1), False]]


def test_info_lists_the_slices(cut: FakeNvml, tmp_path: Path) -> None:
    """Below their GPU, with UUID, profile and memory of their own; in JSON as devices like the others."""
    cut.cut(1)
    words = command(cut, "info", folder=tmp_path)
    assert "MIG          on" in words
    assert f"    GPU 0:2  {LARGE}  3g.71gb, 66.1 GiB, 0.0 GiB used" in words
    assert "MIG slices   none, so CUDA sees nothing of this GPU" in words
    facts = json.loads(command(cut, "info", "--json", folder=tmp_path))
    assert [(one["uuid"], one["slice_of"], one["name"]) for one in facts["mig_slices"]] == [
        (FIRST, uuid(0), "NVIDIA H200 MIG 1g.18gb"),
        (SECOND, uuid(0), "NVIDIA H200 MIG 1g.18gb"),
        (LARGE, uuid(0), "NVIDIA H200 MIG 3g.71gb"),
    ]
    assert [one["mig_enabled"] for one in facts["gpus"]] == [True, True]


def test_a_dry_run_plans_for_slices(cut: FakeNvml, tmp_path: Path) -> None:
    """Every slice runs the cells; the plan names each with its profile."""
    words = command(cut, "-m", "lstm", "-b", "1", "--phases", "training", "--dry-run", folder=tmp_path)
    assert "Each of 4 devices runs the cells below, all at once:" in words
    assert "  GPU 0:1: NVIDIA H200 MIG 1g.18gb\n" in words
    assert words.count("lstm") == 1


def command(nvml: FakeNvml, *words: str, folder: Path) -> str:
    """What our command prints where that NVML is."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", *words],
        env=nvml.environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_slice_has_memory_and_processes_of_its_own(cut: FakeNvml) -> None:
    """Power, temperature and what health looks at are the GPU's; what the GPU itself does not tell stays unknown."""
    cut.set(
        {
            "gpu.0.power_mw": 512_000,
            "gpu.0.temperature_c": 61,
            "gpu.0.memory_used_bytes": 5,
            "gpu.0.compute": "11 1 12 1",
            "gpu.0.mig.1.memory_used_bytes": 3,
            "gpu.0.mig.1.compute": "12 1",
        }
    )
    assert cut.python(READ.format(uuid=SECOND)) == [512_000, 61, 3, None, [12], 700_000]


def test_only_the_slice_that_is_used_is_busy(cut: FakeNvml) -> None:
    """A process on one slice takes nothing from its neighbours, and the list without it names them by UUID."""
    cut.set({"gpu.0.mig.1.compute": f"{os.getpid()} 1073741824"})
    refusal = cut.python(BUSY)
    assert isinstance(refusal, str)
    assert refusal.startswith(f"GPU 0:1 ({SECOND[:12]}…) is used by another process (PID {os.getpid()} ")
    assert f"Leave it out with --gpu-ids {FIRST},{LARGE},1, or" in refusal


def test_readings_of_a_slice_are_marked() -> None:
    """The energy of a GPU is that of nobody's measurement alone; the note says whose the others are."""
    marked = of_slice(Readings(power_draw_w=500.0, energy_j=3.0, memory_used_bytes=7, note="short"))
    assert marked == Readings(power_draw_w=500.0, memory_used_bytes=7, note=f"short; {SHARED}")
    assert of_slice(Readings()).note == SHARED


def test_the_kernels_log_names_the_instance(tmp_path: Path) -> None:
    """In MIG mode an Xid may be of one GPU instance: then it concerns the slices in that alone."""
    log = tmp_path / "kmsg"
    log.touch()
    kernel_log = KernelLog({"00000000:1B:00.0": Occupants({FIRST: 3, SECOND: 5})}, log)
    with log.open("a") as file:
        file.write("4,1,1,-;NVRM: Xid (PCI:0000:1b:00 GPU-I:05 GPU-CI:00): 13, pid=1, name=python3\n")
        file.write("4,2,2,-;NVRM: Xid (PCI:0000:1b:00 GPU-I:06): 13, pid=1\n")
        file.write("4,3,3,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n")
    assert list(kernel_log.heard()) == [(SECOND, 13), (FIRST, 79), (SECOND, 79)]
    kernel_log.close()


def test_labels_tell_slices_from_gpus() -> None:
    """A slice is called by its GPU and its place there, unless it has a number of its own."""
    device = Device(uuid="x", gpu_id=3, kind=DeviceKind.CUDA, name="a GPU")
    assert device.label == "GPU 3"
    assert Device(uuid="x", gpu_id=3, kind=DeviceKind.CUDA, name="a", slice_of="y", slice_index=1).label == "GPU 3:1"
    assert Device(uuid="x", gpu_id=3, kind=DeviceKind.CUDA, name="a", slice_of="y").label == "GPU 3"
