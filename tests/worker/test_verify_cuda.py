"""Burn-in of products on a real GPU, each launch in an interpreter of its own."""

import json
from pathlib import Path

import pytest

from protocol.cell import Device, Precision, Workload
from protocol.messages import Measurement
from protocol.result import Result
from protocol.verification import Injection, Verification
from tests.fakes.assignments import PROBE, assignment, result_of, run_apart, run_script, verified

SIDE = 2048
WARM_UP, ITERATIONS = 4, 200
MEASUREMENT = Measurement(
    relative_half_width=0.02,
    block_s=0.02,
    warm_up_cap_s=0.5,
    min_s=0.5,
    max_s=0.5,
    warm_up_iterations=WARM_UP,
    iterations=ITERATIONS,
)
PRECISIONS = pytest.mark.parametrize("precision", list(Precision))
BOTH = pytest.mark.parametrize("workload", [Workload.SOAK, Workload.TRUTH])

MANY_FLIPS = """
import torch
from protocol.cell import Cell, Precision, Workload
from worker import devices
from worker.verify import bits, flips, products
from worker.workloads import soak, truth

FLIPS = 100
device = torch.device("cuda", 0)
products.add_in_fp32()
missed = []
for precision in Precision:
    devices.set_tf32(wanted=precision is Precision.TF32)
    for workload, kind in ((Workload.SOAK, soak.RandomProducts), (Workload.TRUTH, truth.WholeProducts)):
        cell = Cell(devices=("0",), model="m", workload=workload, precision=precision, batch_size=1, input_size=1024)
        made = kind(cell, device)
        output = made.empty()
        verdicts = torch.zeros(FLIPS + 1, dtype=torch.int64, device=device)
        for trial in range(FLIPS):
            made.make(0, output)
            masks = flips.places(trial, 1 + trial % 4, output.numel(), bits.width(output))
            flat = bits.integers(output).view(-1)
            for offset, mask in masks.items():
                flat[offset] ^= bits.signed(mask, bits.width(output))
            made.judge(trial, 0, output, verdicts, trial)
        made.make(0, output)
        made.judge(FLIPS, 0, output, verdicts, FLIPS)
        *struck, healthy = verdicts.tolist()
        assert healthy == made.verdict(0), (precision, workload)
        missed += [(precision, workload, trial) for trial, said in enumerate(struck) if said == made.verdict(0)]
assert missed == [], missed
"""
SAME_DIGEST = """
import json
from statistics import median
import torch
from worker.timing import CudaClock, time_block
from worker.verify.digest import Digester
from worker.verify.seeded import Squares

device = torch.device("cuda", 0)
for side, dtype in ((8192, torch.bfloat16), (8192, torch.float32), (1000, torch.float16), (66, torch.bfloat16)):
    output = Squares(1, side, dtype, device).bell(0, tf32=False)
    one, other = Digester(output, 3), Digester(output, 3, stock=True)
    here = Digester(output.cpu(), 3)
    assert one.of(output) == other.of(output) == here.of(output.cpu()), (side, dtype)

side = 8192
left, right = (Squares(1, side, torch.bfloat16, device).bell(at, tf32=False) for at in range(2))
assert torch.equal(left.cpu(), Squares(1, side, torch.bfloat16, torch.device("cpu")).bell(0, tf32=False))
output, totals = torch.empty_like(left), torch.zeros(1, dtype=torch.int64, device=device)
costs = {}
for digester in (Digester(output, 3), Digester(output, 3, stock=True)):
    steps = (lambda: torch.mm(left, right, out=output)), (lambda: digester.add(output, totals, 0))
    found = []
    for turn in range(13):
        bare, both, again, last = (time_block(CudaClock(), steps[:many], 50).wall_ms for many in (1, 2, 2, 1))
        found += [100 * ((both + again) / (bare + last) - 1)] if turn else []
    costs[digester.method] = median(found)
print(json.dumps(costs))
"""


pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


def launched(
    gpu: Device, tmp_path: Path, workload: Workload, precision: Precision, injection: Injection | None = None
) -> tuple[Result, Verification]:
    cell = {"precision": precision, "batch_size": 1, "input_size": SIDE, "seed": 8}
    assign = assignment(PROBE, workload, tmp_path, device=gpu, measurement=MEASUREMENT, injection=injection, **cell)
    result = result_of(run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid}))
    return result, verified(result)


@BOTH
@PRECISIONS
def test_healthy_on_a_gpu(gpu: Device, tmp_path: Path, workload: Workload, precision: Precision) -> None:
    """Nothing is wrong, every product was verified, and the key has all that it needs."""
    result, found = launched(gpu, tmp_path, workload, precision)
    assert (found.mismatches, found.checks) == (0, WARM_UP + ITERATIONS)
    assert not any("unknown" in word for word in found.key if not word.startswith("driver"))
    assert set(found.not_tested) <= {"sign of zero"}
    assert result.launch_bound is not None
    assert result.environment.flags["cuda.matmul.allow_tf32"] == str(precision is Precision.TF32)


@PRECISIONS
def test_the_same_digests_twice_on_a_gpu(gpu: Device, tmp_path: Path, precision: Precision) -> None:
    """Launches of a cell reproduce each other to the last bit."""
    (_, first), (_, second) = (launched(gpu, tmp_path, Workload.SOAK, precision) for _ in range(2))
    assert (first.digests, first.key) == (second.digests, second.key)
    assert len(set(first.digests)) == 2


@BOTH
@pytest.mark.parametrize("stuck", [False, True])
def test_injected_on_a_gpu(gpu: Device, tmp_path: Path, workload: Workload, stuck: bool) -> None:
    """A transient flip is found once, and a stuck one in every product from then on."""
    _, found = launched(gpu, tmp_path, workload, Precision.BF16, Injection(flip_bits=3, stuck=stuck))
    first = found.kept[0]
    assert found.mismatches == (ITERATIONS - first.iteration if stuck else 1)
    assert (first.bits, first.wrong_again, first.same_when_read_again) == (3, 10 if stuck else 0, True)


def test_every_flip_is_found_on_a_gpu() -> None:
    """A hundred in each precision and by each of the two checks, of one to four bits."""
    run_script(MANY_FLIPS)


def test_digests_agree_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """Triton's, that of stock operators, and the CPU's, bit for bit; operands too. What each costs is printed."""
    costs = json.loads(run_script(SAME_DIGEST))
    with capsys.disabled():
        for method, percent in costs.items():
            print(f"\n  {method}: {percent:.2f} % of a bf16 product of 8192 x 8192")  # noqa: T201 - a measurement
    assert len(costs) == 2
