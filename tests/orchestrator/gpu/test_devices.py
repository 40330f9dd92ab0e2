"""The devices of --gpu-ids, under every shape of CUDA_VISIBLE_DEVICES, and the errors where there is none."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import DeviceError
from orchestrator.gpu.cpu_devices import cpu_devices, usable_cores
from orchestrator.gpu.devices import resolve
from orchestrator.gpu.gpu_users import Busy, refusal
from orchestrator.gpu.visible_devices import visible_gpus
from protocol.cell import Device, DeviceKind
from tests.fakes.nvml import FakeNvml, uuid

RESOLVE = """
import json
from orchestrator.gpu.devices import resolve
from orchestrator.errors import DeviceError
answers = []
for arguments in json.loads({asked!r}):
    try:
        devices = resolve(arguments["ids"], visible=arguments.get("visible"),
                          cores=tuple(arguments.get("cores", (0, 1))))
        answers.append([[device.gpu_id, device.uuid, list(device.cpus)] for device in devices])
    except DeviceError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""

BUSY = """
import json
from orchestrator.gpu import inventory as seen
from orchestrator.gpu.devices import resolve
from orchestrator.gpu.gpu_users import busy, refusal
look = seen.once()
devices = resolve("all", visible=None, cores=(0, 1), look=look)
found = busy(devices, look)
print(json.dumps({"found": [[one.device.gpu_id, one.pid, one.name] for one in found],
                  "refusal": refusal(devices, found)}))
"""

INVENTORY = """
import sys, msgspec
from orchestrator.gpu import inventory as seen
sys.stdout.buffer.write(msgspec.json.encode(seen.look().inventory))
"""


def answers(fake: FakeNvml, *asked: dict[str, Any]) -> Any:
    """The answers of resolve(): [[gpu_id, uuid, cpus], …] or the error's words, for each question."""
    return fake.python(RESOLVE.format(asked=json.dumps(asked)))


def gpu(index: int, name: str = "NVIDIA H200") -> Device:
    """A GPU as NVML found it."""
    return Device(uuid=uuid(index), gpu_id=index, kind=DeviceKind.CUDA, name=name)


@pytest.fixture
def eight(tmp_path: Path) -> FakeNvml:
    """A node with eight GPUs."""
    return FakeNvml(tmp_path, gpus=8)


def test_eight_gpus_by_all_index_and_uuid(eight: FakeNvml) -> None:
    """All, indices, UUIDs and their beginnings give the same GPUs, in the requested order."""
    everything, some, by_uuid, by_prefix, mixed = answers(
        eight,
        {"ids": "all"},
        {"ids": "3,0"},
        {"ids": uuid(5)},
        {"ids": uuid(6)[:12]},
        {"ids": f"1, {uuid(7)},cpu:0"},
    )
    assert everything == [[index, uuid(index), [index % 2]] for index in range(8)]
    assert some == [[3, uuid(3), [0]], [0, uuid(0), [1]]]
    assert by_uuid == [[5, uuid(5), [0, 1]]]
    assert by_prefix == [[6, uuid(6), [0, 1]]]
    assert mixed == [[1, uuid(1), [0]], [7, uuid(7), [1]], [0, "cpu:0", [0, 1]]]


def test_indices_count_within_cuda_visible_devices(eight: FakeNvml) -> None:
    """With CUDA_VISIBLE_DEVICES=5,2 GPU 0 is the sixth of the machine, and `all` are two."""
    everything, first, hidden, beyond, none = answers(
        eight,
        {"ids": "all", "visible": "5,2"},
        {"ids": "0", "visible": f"{uuid(5)},2"},
        {"ids": uuid(0), "visible": "5,2"},
        {"ids": "2", "visible": "5,2"},
        {"ids": "all", "visible": ""},
    )
    assert everything == [[0, uuid(5), [0]], [1, uuid(2), [1]]]
    assert first == [[0, uuid(5), [0, 1]]]
    assert re.match(rf"--gpu-ids: {uuid(0)} .*CUDA_VISIBLE_DEVICES=5,2", hidden)
    assert re.match(r"--gpu-ids: .*GPU 2.* 0 to 1 .*CUDA_VISIBLE_DEVICES=5,2", beyond)
    assert re.search(r"CUDA_VISIBLE_DEVICES is ''.*--gpu-ids cpu:0,cpu:1", none)


@pytest.mark.parametrize(
    ("visible", "places"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2", [2]),
        ("3,1", [3, 1]),
        (" 1 , 0 ", [1, 0]),
        ("1,9,0", [1]),
        ("1,-1,0", [1]),
        ("-1", []),
        ("NoDevFiles", []),
        ("1,,0", [1]),
        ("1,1", []),
        (f"1,{uuid(1)}", []),
        (uuid(2), [2]),
        (f"{uuid(3)[:10]},0", [3, 0]),
        ("GPU-", []),
        ("GPU-00000000,1", []),
    ],
)
def test_cuda_visible_devices_means_what_cuda_means(visible: str | None, places: list[int]) -> None:
    """The first entry without a GPU ends the list; a GPU given twice, or an ambiguous beginning, empties it."""
    gpus = [gpu(index) for index in range(4)]
    assert [found.gpu_id for found in visible_gpus(gpus, visible, None) if found] == places


def test_different_gpus_have_indices_only_in_a_known_order() -> None:
    """CUDA's fastest-first order is unknown here, so an index in it is refused."""
    gpus = [gpu(0, "NVIDIA T400"), gpu(1, "NVIDIA A100")]
    with pytest.raises(DeviceError, match="Set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        visible_gpus(gpus, "0", None)
    assert visible_gpus(gpus, "0", "PCI_BUS_ID") == (gpus[0],)
    assert visible_gpus(gpus, uuid(1), None) == (gpus[1],)
    assert visible_gpus(gpus, None, None) == tuple(gpus)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ("8", r"no GPU 8\..* 0 to 7"),
        (f"0,{uuid(0)}", rf"GPU 0 \({uuid(0)}\) is given twice"),
        ("all,3", rf"GPU 3 \({uuid(3)}\) is given twice"),
        ("GPU-ffff", "GPU-ffff"),
        ("GPU-5", "several UUIDs"),
    ],
)
def test_gpus_that_do_not_exist_are_errors(eight: FakeNvml, ids: str, words: str) -> None:
    """With the word that is wrong and what there is instead."""
    assert re.search(words, answers(eight, {"ids": ids})[0])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ("", "a device is missing"),
        ("0,,1", "a device is missing"),
        ("cpu:0,", "a device is missing"),
        ("first", "'first'"),
        ("-1", "'-1'"),
        ("cpu", "'cpu'"),
        ("cpu:0,cpu:00", "cpu:0 .*twice"),
    ],
)
def test_words_that_are_no_device_are_errors(ids: str, words: str) -> None:
    """Before NVML is opened."""
    with pytest.raises(DeviceError, match=words):
        resolve(ids, visible=None, cores=(0, 1))


def test_a_missing_driver_differs_from_a_broken_one(eight: FakeNvml) -> None:
    """Neither falls back to the CPU by itself; only the advice differs."""
    eight.fail("nvmlInit", 9)
    absent = answers(eight, {"ids": "all"})[0]
    eight.fail("nvmlInit", 18)
    broken = answers(eight, {"ids": "all"})[0]
    assert absent.endswith("--gpu-ids cpu:0,cpu:1")
    assert "Reboot. Nothing" in broken


def test_a_lost_gpu_is_not_skipped_silently(eight: FakeNvml) -> None:
    """`all` with a lost GPU is refused, with the list without it."""
    eight.fail("*", 15, gpu=3)
    everything, others = answers(eight, {"ids": "all"}, {"ids": "2,4"})
    assert "GPU 3 cannot be used" in everything
    assert everything.endswith("--gpu-ids 0,1,2,4,5,6,7")
    assert others == [[2, uuid(2), [0]], [4, uuid(4), [1]]]


def test_gpus_divide_the_cores_near_them(eight: FakeNvml) -> None:
    """GPUs on one socket get a part of its cores each. Cores that this process may not use are excluded."""
    eight.set({"gpu.0.cpus": "0 1 2 3", "gpu.1.cpus": "0 1 2 3", "gpu.2.cpus": "4 5", "gpu.3.cpus": "1 64 200"})
    three, one = answers(eight, {"ids": "0,1,2", "cores": [0, 1, 2, 3, 4, 5]}, {"ids": "3"})
    assert [cpus for _, _, cpus in three] == [[0, 1], [2, 3], [4, 5]]
    assert one == [[3, uuid(3), [1]]]


def test_busy_gpus_are_refused(eight: FakeNvml) -> None:
    """With GPU, process and memory, and the list without them; a display server is only noted."""
    assert eight.python(BUSY) == {"found": [], "refusal": None}
    pid = os.getpid()
    eight.set({"gpu.3.compute": f"{pid} 13207024435", "gpu.4.graphics": "1 1048576"})
    seen: Any = eight.python(BUSY)
    assert [entry[:2] for entry in seen["found"]] == [[3, pid], [4, 1]]
    name = seen["found"][0][2]
    words = rf"GPU 3 \({uuid(3)[:12]}…\).*\(PID {pid} {name}, 12.3 GiB\).*--gpu-ids 0,1,2,4,5,6,7,.*--allow-busy"
    assert re.match(words, seen["refusal"])


def test_many_processes_on_a_gpu_are_one_remark() -> None:
    """With the one that has the most memory, and the number of the others."""
    gpu = Device(uuid=uuid(0), gpu_id=0, kind=DeviceKind.CUDA, name="a GPU")
    crowd = [Busy(device=gpu, pid=pid, name="train", used_bytes=pid << 30, compute=True) for pid in (2, 7, 5)]
    words = refusal([gpu], crowd)
    assert re.search(r"\(PID 7 train, 7.0 GiB\).* 2 more", words)
    assert "PID 5" not in words


def test_inventory_has_gpus_and_the_state_of_nvml(eight: FakeNvml) -> None:
    """Every GPU that can be opened, whatever CUDA_VISIBLE_DEVICES is, and the reason for others."""
    whole: Any = eight.python(INVENTORY, CUDA_VISIBLE_DEVICES="1")
    eight.fail("*", 15, gpu=7)
    partial: Any = eight.python(INVENTORY)
    assert (whole["nvml"], len(whole["gpus"]), whole["driver_version"]) == ("ok", 8, "580.95.05")
    assert (partial["nvml"], len(partial["gpus"])) == ("ok", 7)
    assert partial["reason"].startswith("GPU 7 cannot be used")


@pytest.mark.parametrize(
    ("devices", "cores", "expected"),
    [
        (2, 2, [((0,), False), ((1,), False)]),
        (1, 2, [((0, 1), False)]),
        (2, 5, [((0, 1), False), ((2, 3), False)]),
        (3, 2, [((0,), True), ((1,), False), ((0,), True)]),
        (2, 1, [((0,), True), ((0,), True)]),
    ],
)
def test_cores_are_divided_evenly(devices: int, cores: int, expected: list[tuple[tuple[int, ...], bool]]) -> None:
    """Every CPU device gets as many cores as the others; beyond the core count they share."""
    made = cpu_devices(range(devices), range(cores))
    assert [(device.cpus, device.shared_cores) for device in made] == expected
    assert all(device.name and device.memory_total_bytes for device in made)


def test_usable_cores_are_those_of_this_process() -> None:
    """Nothing outside the affinity mask is handed out."""
    assert set(usable_cores()) == os.sched_getaffinity(0)
