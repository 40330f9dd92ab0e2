"""A launch runs on the requested device, or fails."""

import os
from pathlib import Path

import msgspec
import pytest
import torch

from protocol.cell import Device, DeviceKind, Precision, Workload
from protocol.failure import Category, Phase
from tests.fakes import assignments
from tests.worker.fresh import Fresh
from worker import devices
from worker.errors import DeviceInheritedError
from worker.timing import HostClock

GPU = Device(uuid="GPU-00000000-1111-2222-3333-444444444444", gpu_id=3, kind=DeviceKind.CUDA, name="a GPU")


@pytest.mark.usefixtures("every_core")
def test_cpu_device_uses_the_cores_it_is_bound_to() -> None:
    """The thread count is the affinity's, not the machine's."""
    assert devices.open_device(assignments.CPU, Precision.FP32) == torch.device("cpu")
    assert torch.get_num_threads() == len(os.sched_getaffinity(0))
    assert isinstance(devices.clock_for(torch.device("cpu")), HostClock)


@pytest.mark.parametrize("visible", ["", GPU.uuid])
def test_gpu_that_is_not_there_is_a_failure_and_never_the_cpu(fresh: Fresh, tmp_path: Path, visible: str) -> None:
    """A launch for a GPU that CUDA does not show fails with the GPU's id."""
    assign = assignments.assignment(assignments.LSTM, Workload.INFERENCE, tmp_path, device=GPU)
    failure = assignments.failure_of(fresh.launch(assign, {"CUDA_VISIBLE_DEVICES": visible}))
    assert (failure.category, failure.phase) == (Category.DEVICE_UNAVAILABLE, Phase.BUILD)
    assert GPU.uuid in failure.message


def test_inherited_gpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing torch opens none; a process forked with a GPU's descriptors is not a fresh one."""
    assert devices.gpu_descriptors() == []
    (tmp_path / "0").symlink_to("/dev/null")
    (tmp_path / "7").symlink_to("/dev/nvidiactl")
    monkeypatch.setattr(devices, "_DESCRIPTORS", tmp_path)
    assert devices.gpu_descriptors() == ["/dev/nvidiactl"]
    with pytest.raises(DeviceInheritedError, match=r"GPU 3.*/dev/nvidiactl"):
        devices.open_device(GPU, Precision.FP32)


@pytest.mark.parametrize(
    ("precision", "half"),
    [
        (Precision.FP32, None),
        (Precision.TF32, None),
        (Precision.FP16, torch.float16),
        (Precision.BF16, torch.bfloat16),
    ],
)
def test_half_precision_casts_weights_for_inference_and_trains_under_autocast(
    precision: Precision, half: torch.dtype | None
) -> None:
    """Training keeps fp32 weights; fp32 and tf32 run without autocast."""
    assert devices.HALF.get(precision) is half
    assert devices.weights_type(precision, training=False) is (half or torch.float32)
    assert devices.weights_type(precision, training=True) is torch.float32
    with devices.autocast(torch.device("cpu"), precision):
        assert torch.is_autocast_enabled("cpu") is (half is not None)
        assert half in (None, torch.get_autocast_dtype("cpu"))


@pytest.mark.parametrize("precision", list(Precision))
def test_both_switches_of_tf32_are_on_for_tf32_alone(precision: Precision) -> None:
    """Of products and of cuDNN, which torch enables by default, whatever they were before."""
    for before in (True, False):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = before
        devices.open_device(assignments.CPU, precision)
        flags = devices.environment(torch.device("cpu"), "fork").flags
        wanted = str(precision is Precision.TF32)
        assert (flags["cuda.matmul.allow_tf32"], flags["cudnn.allow_tf32"]) == (wanted, wanted)


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("bf16", [True, False])
def test_onednn_is_off_in_training_that_it_does_not_support(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, *, bf16: bool
) -> None:
    """Torch raises with it for recurrent layers. It is on for everything else, and afterwards."""
    monkeypatch.setattr(devices, "onednn_has_bf16", lambda: bf16)
    unsupported = {Precision.FP16} if bf16 else {Precision.FP16, Precision.BF16}
    with devices.training_kernels(torch.device("cpu"), precision):
        assert torch._C._get_mkldnn_enabled() is (precision not in unsupported)
    with devices.training_kernels(torch.device("cuda"), precision):
        assert torch._C._get_mkldnn_enabled()
    assert torch._C._get_mkldnn_enabled()


def test_environment_goes_over_the_wire() -> None:
    """Versions are plain words; a distribution that is not installed is None."""
    environment = devices.environment(torch.device("cpu"), "fork")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(environment), type=type(environment)) == environment
    assert environment.torch == str(torch.__version__)
    assert environment.isolation == "fork"
    assert devices.installed("no-such-distribution") is None


@pytest.mark.parametrize(
    ("found", "asked", "same"),
    [
        ("5317350e-1234", "GPU-5317350E-1234", True),
        ("GPU-5317350e-1234", "GPU-5317350e-1234", True),
        ("5317350e-1234", "GPU-5317350e-1235", False),
    ],
)
def test_uuids_of_cuda_and_nvml_are_compared(found: str, asked: str, same: bool) -> None:
    """CUDA leaves the prefix out."""
    assert devices._same_uuid(found, asked) is same
