"""Burn-in of links on real GPUs: NCCL between processes that see one GPU each, every word verified."""

import json
from pathlib import Path

import msgspec
import pytest

from protocol.cell import Device, DeviceKind, Precision
from protocol.messages import Assign, Gang
from protocol.verification import Injection
from tests.fakes.assignments import assignment, result_of, run_script, run_together, verified
from tests.fakes.faults import model
from tests.fakes.gangs import gang
from tests.worker.test_links import MEASUREMENT
from worker.gang import multicast

GPUS = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps([str(torch.cuda.get_device_properties(at).uuid) for at in range(count)]))
"""
MIB = 64


@pytest.fixture(scope="module")
def gpus(gpu: Device) -> tuple[Device, ...]:
    assert gpu.kind is DeviceKind.CUDA
    uuids = [f"GPU-{uuid.removeprefix('GPU-')}" for uuid in json.loads(run_script(GPUS))]
    if len(uuids) < 2:
        pytest.skip(f"links take two GPUs, and torch finds {len(uuids)}")
    return tuple(
        Device(uuid=uuid, gpu_id=number, kind=DeviceKind.CUDA, name="a GPU") for number, uuid in enumerate(uuids)
    )


pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


def assigned(folder: Path, gpus: tuple[Device, ...], precision: Precision, flips: dict[int, Injection]) -> list[Assign]:
    cell = msgspec.structs.replace(gang(*(gpu.uuid for gpu in gpus), precision=precision), input_size=MIB)
    made = []
    for rank, gpu in enumerate(gpus):
        place = Gang(rank=rank, meeting=str(folder / "meeting"), steps=str(folder / "steps"))
        assign = assignment(model("peers"), cell.workload, folder, device=gpu, measurement=MEASUREMENT)
        made.append(
            msgspec.structs.replace(assign, cell=cell, gang=place if len(gpus) > 1 else None, injection=flips.get(rank))
        )
    return made


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16])
def test_healthy_links(
    gpus: tuple[Device, ...], tmp_path: Path, precision: Precision, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong between all GPUs and to the host; rates are printed, and asserted to be there alone."""
    outcomes = run_together(assigned(tmp_path, gpus, precision, {}))
    found = list(map(verified, outcomes))
    assert [one.mismatches for one in found] == [0] * len(gpus)
    assert len({one.checks for one in found}) == 1
    assert found[0].checks > 3 * (len(gpus) + 1)
    assert "NCCL" in found[0].method
    assert multicast() in found[0].method
    assert found[0].not_tested == {}
    result = result_of(outcomes[0])
    assert set(result.bytes_per_iteration) == {"all_reduce", "copies", "to_host", "to_device"}
    with capsys.disabled():
        for series, size in result.bytes_per_iteration.items():
            times_ms = result.times_ms(series)
            mean_ms = sum(times_ms) / len(times_ms)
            print(f"\n  {precision} {series}: {size / mean_ms / 1e6:.1f} GB/s a GPU, of {len(gpus)}")  # noqa: T201 - a measurement


def test_flips_on_gpus(gpus: tuple[Device, ...], tmp_path: Path) -> None:
    """The GPU that has them finds them in its own numbers, all others in what they receive, and the sum is wrong."""
    found = list(map(verified, run_together(assigned(tmp_path, gpus, Precision.FP32, {1: Injection(flip_bits=3)}))))
    own = [one for one in found[1].kept if one.sender is None and not one.of_all]
    assert [(one.bits, one.repeated, one.wrong_again) for one in own] == [(3, 10, 0)] * 2
    for rank, one in enumerate(found):
        copies = [mismatch for mismatch in one.kept if mismatch.sender is not None]
        assert [(copy.sender, copy.bits) for copy in copies] == ([] if rank == 1 else [(gpus[1].uuid, 3)])
        assert any(mismatch.of_all for mismatch in one.kept)


def test_multicast_off_reaches_nccl_and_the_report(gpus: tuple[Device, ...], tmp_path: Path) -> None:
    """The environment reaches NCCL as it is."""
    assigns = assigned(tmp_path, gpus, Precision.FP32, {})
    found = list(map(verified, run_together(assigns, {"NCCL_NVLS_ENABLE": "0"})))
    assert all("set by NCCL_NVLS_ENABLE=0" in one.method for one in found)
    assert [one.mismatches for one in found] == [0] * len(gpus)


def test_single_gpu_moves_to_the_host_and_back(gpus: tuple[Device, ...], tmp_path: Path) -> None:
    """Without a peer, the way to the host is verified."""
    (found,) = map(verified, run_together(assigned(tmp_path, gpus[:1], Precision.FP32, {})))
    assert found.checks > 3
    assert found.verified_bytes == found.checks * MIB << 20
    assert found.mismatches == 0
