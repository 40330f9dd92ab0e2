"""Notes on devices that a run begins with: names past the cores, and another run that works on the same ones."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.plan_notes import device_conflicts
from orchestrator.store import lock
from protocol.cell import Device
from tests.fakes.runs import FakeRun, cpus, gpus

CORES = (0, 1)


def named(number: int) -> Device:
    """cpu:number, with all cores."""
    return msgspec.structs.replace(cpus(1)[0], uuid=f"cpu:{number}", gpu_id=number, cpus=CORES)


def test_a_cpu_device_past_the_cores_is_a_name(tmp_path: Path) -> None:
    """`info` says cpu:0 to cpu:1, and cpu:9 runs all the same: on the same cores."""
    [told] = device_conflicts((named(1), named(9)), CORES, tmp_path)
    assert re.match(r".* 2 cores\b.* cpu:9 ", told)
    assert tuple(device_conflicts((named(0), named(1)), CORES, tmp_path / "missing")) == ()
    assert tuple(device_conflicts(gpus(9), CORES, tmp_path)) == ()


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [
        ((named(0),), (named(1),), "cpu:0"),
        (cpus(2), cpus(1), "cpu:0"),
        (cpus(2), cpus(2), "cpu:0 and cpu:1"),
        (cpus(2)[1:], cpus(1), ""),
        (gpus(2), gpus(1), "GPU 0"),
        (gpus(2)[1:], gpus(1), ""),
        (cpus(1), gpus(1), ""),
    ],
)
def test_another_run_on_the_same_devices_is_said(
    tmp_path: Path, own: tuple[Device, ...], other: tuple[Device, ...], shared: str
) -> None:
    """While its process lives; cores are compared, because cpu:0 has all of them in a run of one device."""
    run = FakeRun(tmp_path / "20260101-000000-aaaaaa", devices=other)
    assert tuple(device_conflicts(own, CORES, tmp_path)) == ()
    myself = lock.myself()
    run.paths.lock.write_bytes(msgspec.json.encode(myself))
    told = tuple(device_conflicts(own, CORES, tmp_path))
    words = rf".* {run.paths.folder} .*{myself.pid}.* {shared} "
    assert [bool(re.match(words, one)) for one in told] == ([True] if shared else [])
    run.paths.lock.write_bytes(msgspec.json.encode(msgspec.structs.replace(myself, start_ticks=1)))
    assert tuple(device_conflicts(own, CORES, tmp_path)) == (), "its process has ended"
