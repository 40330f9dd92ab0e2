"""A cell is measured in its own precision, whatever the model's code contains and switches."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from protocol.cell import Precision, Workload
from protocol.failure import Category, Phase
from tests.fakes.assignments import CPU, assignment, run_here
from tests.fakes.own import LINEAR, Code
from worker import devices, exception_categories
from worker.errors import ModelCodeError, UnsuitableModelError

TURN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.full((4,), 3 + 4j))
        self.register_buffer("by", torch.full((4,), 1j))
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        assert self.turn.dtype is self.by.dtype is torch.complex64
        return self.layer((x * self.turn * self.by).abs().to(x.dtype))
    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 4)
"""
SWITCHES = [
    "torch.set_float32_matmul_precision('{high}')",
    "torch.backends.cuda.matmul.allow_tf32 = {on}",
    "torch.backends.cudnn.allow_tf32 = {on}",
]
if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    SWITCHES += [
        "torch.backends.fp32_precision = '{tf32}'; torch.backends.cudnn.conv.fp32_precision = '{tf32}'",
        "torch.backends.cuda.matmul.fp32_precision = '{tf32}'",
        "torch.backends.cudnn.rnn.fp32_precision = '{tf32}'",
    ]


SWITCHED = [*((line, Precision.FP32) for line in SWITCHES), *((SWITCHES[at], Precision.TF32) for at in (0, -1))]


@pytest.fixture(autouse=True)
def switches_restored() -> Iterator[None]:
    """After a test, this process has the switches of fp32."""
    yield
    devices.open_device(CPU, Precision.FP32)


def switched(line: str, *, on: bool) -> str:
    return line.format(on=on, high="high" if on else "highest", tf32="tf32" if on else "ieee")


@pytest.mark.parametrize(
    ("workload", "precision"),
    [
        (Workload.LOAD, Precision.FP32),
        (Workload.INFERENCE, Precision.FP32),
        (Workload.TRAINING, Precision.BF16),  # autocast leaves the weights as they are
    ],
)
def test_complex_numbers_keep_both_their_parts(
    write: Code, tmp_path: Path, workload: Workload, precision: Precision
) -> None:
    """Where a cast to fp32 would take the real part, and measure another model."""
    assert run_here(assignment(write(TURN), workload, tmp_path, precision=precision)).parameters == 14


@pytest.mark.parametrize(
    ("workload", "precision"), [(Workload.LOAD, Precision.FP16), (Workload.INFERENCE, Precision.BF16)]
)
def test_complex_numbers_have_no_half(write: Code, tmp_path: Path, workload: Workload, precision: Precision) -> None:
    """The error has the tensor's name and a remedy; a buffer is refused like a parameter."""
    for text, name in [(TURN, "turn"), (TURN.replace("nn.Parameter(torch.full((4,), 3 + 4j))", "nn.ReLU()"), "by")]:
        spec = write(text, file=f"{name}.py")
        with pytest.raises(UnsuitableModelError, match=f"^{name} .*complex64.*-p fp32") as caught:
            run_here(assignment(spec, workload, tmp_path, precision=precision))
        assert exception_categories.failure(caught.value, Phase.BUILD).category is Category.EXCEPTION


@pytest.mark.parametrize(("line", "precision"), SWITCHED)
def test_switch_before_the_measurement_is_corrected(
    write: Code, tmp_path: Path, line: str, precision: Precision
) -> None:
    """Wherever the code sets it, by either of torch's interfaces, even where both were used and reading one raises."""
    wanted = precision is Precision.TF32
    text = LINEAR.replace(
        "        return torch.randn", f"        {switched(line, on=not wanted)}\n        return torch.randn"
    )
    result = run_here(assignment(write(text), Workload.INFERENCE, tmp_path, precision=precision))
    flags = {name: value for name, value in result.environment.flags.items() if name.endswith("allow_tf32")}
    assert set(flags.values()) == {str(wanted)}
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (wanted, wanted)


@pytest.mark.parametrize(
    ("line", "precision", "workload"),
    [
        *((*row, Workload.INFERENCE) for row in SWITCHED),
        (SWITCHES[0], Precision.FP32, Workload.TRAINING),
        (SWITCHES[-1], Precision.TF32, Workload.TRAINING),
    ],
)
def test_switch_in_the_measurement_is_a_failure(
    write: Code, tmp_path: Path, line: str, precision: Precision, workload: Workload
) -> None:
    """TF32 by the name of fp32 would be a wrong number."""
    wanted = precision is Precision.TF32
    text = LINEAR.replace("        return self", f"        {switched(line, on=not wanted)}\n        return self")
    with pytest.raises(ModelCodeError, match=rf"TF32 {'off' if wanted else 'on'} .* {precision}\."):
        run_here(assignment(write(text), workload, tmp_path, precision=precision))
    assert set(devices.environment(torch.device("cpu"), "fork").flags) >= {"cuda.matmul.allow_tf32", "cudnn.allow_tf32"}
