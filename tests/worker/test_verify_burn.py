"""Burn-in of products in whole launches on the CPU, healthy and with an injected fault."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from protocol.cell import Precision, Workload
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.verification import KEPT_MISMATCHES, Injection
from tests.fakes.assignments import PROBE, SHORT, Listener, assignment, run_here, verified
from tests.worker.fresh import Fresh
from worker.timing import HostClock
from worker.verify import flips, products
from worker.verify.key import key
from worker.verify.watch import Watch, WatchedWork
from worker.workloads import soak, truth

CPU = torch.device("cpu")
SIDE = 64
ITERATIONS = 60
WARM_UP = 4
MADE = 6 + WARM_UP + ITERATIONS
"""Products of a launch: six measure what verification costs."""
FIXED = msgspec.structs.replace(SHORT, iterations=ITERATIONS, warm_up_iterations=WARM_UP)
BOTH = pytest.mark.parametrize("workload", [Workload.SOAK, Workload.TRUTH])
CELLS = [
    (Workload.SOAK, Precision.FP32),
    (Workload.SOAK, Precision.TF32),
    (Workload.SOAK, Precision.BF16),
    (Workload.TRUTH, Precision.FP32),
    (Workload.TRUTH, Precision.FP16),
]


@pytest.fixture(autouse=True)
def few_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eleven products: the measurement has several, and none is of even length."""
    monkeypatch.setattr(products, "_MOST_OUTPUTS", 11)


def launch(tmp_path: Path, workload: Workload, precision: Precision = Precision.FP32, **changes: Any) -> Assign:
    """An assignment of fixed numbers of products; `changes` are fields of its cell, and `injection`."""
    cell = {"precision": precision, "batch_size": 1, "input_size": SIDE, "seed": 8} | changes
    return assignment(PROBE, workload, tmp_path, measurement=FIXED, **cell)


KINDS = {Workload.SOAK: soak.RandomProducts, Workload.TRUTH: truth.WholeProducts}


def places(precision: Precision, count: int) -> dict[int, int]:
    return flips.places(8, count, SIDE * SIDE, 16 if precision in (Precision.FP16, Precision.BF16) else 32)


@pytest.mark.parametrize(("workload", "precision"), CELLS)
def test_a_healthy_launch_has_nothing_wrong(tmp_path: Path, workload: Workload, precision: Precision) -> None:
    """Every product was verified, those of the warm-up too, and the result is one of products."""
    listener = Listener()
    result = run_here(launch(tmp_path, workload, precision), listener)
    found = verified(result)
    assert listener.phases == [Phase.IMPORT, Phase.BUILD, Phase.WARM_UP, Phase.MEASURE]
    assert (found.mismatches, found.kept) == (0, ())
    assert found.checks == MADE
    assert result.warm_up.iterations == WARM_UP
    assert sum(block.iterations for block in result.blocks) == ITERATIONS
    assert result.flops_per_iteration == 2 * SIDE**3
    assert found.operations == found.checks * 2 * SIDE**3
    assert len(result.times_ms("iteration")) == ITERATIONS
    assert found.method.endswith(" % of the time")
    assert ("tf32" in found.not_tested) is (precision is Precision.TF32)
    assert len(found.digests) == (2 if workload is Workload.SOAK else 0)


@pytest.mark.parametrize(
    ("workload", "precision", "count"), [(*cell, 4 if at % 2 else 1) for at, cell in enumerate(CELLS)]
)
def test_a_transient_flip_is_found(tmp_path: Path, workload: Workload, precision: Precision, count: int) -> None:
    """Once, where it is and which bits it has; it is there when read again, and does not come back."""
    found = verified(run_here(launch(tmp_path, workload, precision, injection=Injection(flip_bits=count))))
    assert (found.mismatches, found.checks) == (1, MADE)
    (mismatch,) = found.kept
    wanted = places(precision, count)
    assert (mismatch.elements, mismatch.bits) == (len(wanted), count)
    assert {one.offset: int(one.expected, 16) ^ int(one.found, 16) for one in mismatch.first} == wanted
    assert len({len(one.found) for one in mismatch.first} | {len(one.expected) for one in mismatch.first}) == 1
    assert mismatch.same_when_read_again
    assert (mismatch.repeated, mismatch.wrong_again) == (10, 0)
    assert mismatch.beyond_rounding is not None
    assert ITERATIONS / 4 < mismatch.iteration < ITERATIONS * 3 / 4
    assert mismatch.what.endswith(f"{SIDE} x {SIDE} in {precision}")


@pytest.mark.parametrize(("workload", "precision"), [(Workload.SOAK, Precision.BF16), (Workload.TRUTH, Precision.FP32)])
def test_a_stuck_flip_comes_back(tmp_path: Path, workload: Workload, precision: Precision) -> None:
    """From the middle on every product is wrong, and so are all ten that are made to see."""
    found = verified(run_here(launch(tmp_path, workload, precision, injection=Injection(flip_bits=2, stuck=True))))
    first = found.kept[0].iteration
    assert found.mismatches == ITERATIONS - first
    assert len(found.kept) == KEPT_MISMATCHES
    assert [mismatch.iteration for mismatch in found.kept] == list(range(first, first + KEPT_MISMATCHES))
    assert {mismatch.wrong_again for mismatch in found.kept} == {10}
    assert {one.offset for mismatch in found.kept for one in mismatch.first} == set(places(precision, 2))


@pytest.mark.parametrize(
    ("workload", "bit", "beyond"),
    [(Workload.SOAK, 30, True), (Workload.SOAK, 31, True), (Workload.SOAK, 0, False), (Workload.TRUTH, 0, True)],
)
def test_rounding_explains_low_bits_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload, bit: int, beyond: bool
) -> None:
    """The lowest bit of an fp32 might be another order of adding up; of a whole number, nothing is rounded."""
    monkeypatch.setattr(flips, "places", lambda *_: {77: 1 << bit})
    (mismatch,) = verified(run_here(launch(tmp_path, workload, injection=Injection(flip_bits=1)))).kept
    assert (mismatch.beyond_rounding, mismatch.first[0].offset) == (beyond, 77)


def test_very_short_measurement_has_its_fault(tmp_path: Path) -> None:
    """Also one that is over before half of its time."""
    assign = launch(tmp_path, Workload.SOAK, injection=Injection(flip_bits=1))
    for block_s in (0.001, 1.0):
        timed = msgspec.structs.replace(SHORT, block_s=block_s, warm_up_cap_s=0.01, min_s=0.03, max_s=0.03)
        found = verified(run_here(msgspec.structs.replace(assign, measurement=timed)))
        assert found.mismatches == 1


@pytest.mark.usefixtures("every_core")
def test_launches_of_a_seed_give_the_same_digests(fresh: Fresh, tmp_path: Path) -> None:
    """In this process and in another; those of another seed are others, and A·B is not B·A."""
    assign = launch(tmp_path, Workload.SOAK)
    first = verified(run_here(assign))
    assert verified(run_here(assign)).digests == first.digests
    apart = verified(fresh.launch(assign, every_core=True))
    assert (apart.digests, apart.key) == (first.digests, first.key)
    other = verified(run_here(launch(tmp_path, Workload.SOAK, seed=9)))
    assert len({*first.digests, *other.digests}) == 4


def test_key_has_what_results_depend_on(tmp_path: Path) -> None:
    """Of a CPU: the processor, its instructions, the threads and torch."""
    words = key(launch(tmp_path, Workload.SOAK).device, CPU)
    assert words[-2:] == (f"{torch.get_num_threads()} threads", f"torch {torch.__version__}")
    assert len(words) == 4


def watch_of(
    tmp_path: Path, made: products.Products, workload: Workload = Workload.SOAK, phase: Phase = Phase.MEASURE
) -> tuple[Watch, Listener]:
    listener = Listener()
    watch = Watch(made, launch(tmp_path, workload), listener.stage)
    listener.stage.enter(phase)
    return watch, listener


@BOTH
def test_unwritten_product_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """No output gets what it contains already, however long the blocks are."""
    made = KINDS[workload](launch(tmp_path, workload).cell, CPU)
    watch, _ = watch_of(tmp_path, made, workload)
    work = WatchedWork({"iteration": watch.step}, watch=watch)
    for length in (11, 11, 10, 11, 3, 11):
        work.block(HostClock(), length)
    assert watch.verification((), "").mismatches == 0
    monkeypatch.setattr(made, "make", lambda *_: None)
    work.block(HostClock(), 11)
    assert watch.verification((), "").mismatches == 11


@BOTH
def test_products_of_the_cost_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """All six that measure what verification costs."""
    made = KINDS[workload](launch(tmp_path, workload).cell, CPU)
    watch, _ = watch_of(tmp_path, made, workload, Phase.WARM_UP)
    make = made.make

    def wrong(pair: int, output: torch.Tensor) -> None:
        make(pair, output)
        output[3, 5] += 1

    monkeypatch.setattr(made, "make", wrong)
    assert 0 < watch.cost(HostClock()) < 1
    found = watch.verification((), "")
    assert (found.checks, found.mismatches) == (6, 6)
    assert found.kept[0].what.endswith(", while warming up")


def test_error_of_reading_differs_from_one_of_the_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest was wrong once, and the output is right: nothing differs, and nothing is blamed on rounding."""
    made = soak.RandomProducts(launch(tmp_path, Workload.SOAK).cell, CPU)
    watch, _ = watch_of(tmp_path, made)
    judge = made.judge

    def misread(number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        judge(number, pair, output, verdicts, slot)
        if number == 4 and verdicts.numel() > 1:
            verdicts[slot] += 1

    monkeypatch.setattr(made, "judge", misread)
    WatchedWork({"iteration": watch.step}, watch=watch).block(HostClock(), 8)
    (mismatch,) = watch.verification((), "").kept
    assert (mismatch.iteration, mismatch.same_when_read_again, mismatch.elements) == (4, False, 0)
    assert (mismatch.wrong_again, mismatch.beyond_rounding) == (0, None)


@pytest.mark.parametrize("at", [0, 1])
def test_flip_in_the_reference_is_outvoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The first product of its kind, or the second, is wrong: the one that came twice is right."""
    cell = launch(tmp_path, Workload.SOAK).cell
    right = soak.RandomProducts(cell, CPU)
    make, done = soak.RandomProducts.make, []

    def flipping(self: soak.RandomProducts, pair: int, output: torch.Tensor) -> None:
        make(self, pair, output)
        done.append(pair)
        if len(done) == at + 1:
            output.view(torch.int32)[3, 5] ^= 1 << 20

    monkeypatch.setattr(soak.RandomProducts, "make", flipping)
    made = soak.RandomProducts(cell, CPU)
    assert (made.digests, done) == (right.digests, [0, 0, 0, 1, 1])
    watch, _ = watch_of(tmp_path, made)
    (mismatch,) = watch.verification((), "").kept
    assert (mismatch.elements, mismatch.first[0].offset, mismatch.wrong_again) == (1, 3 * SIDE + 5, 0)
    assert mismatch.what.endswith("before warming up")
    assert mismatch.same_when_read_again


def test_device_that_never_agrees_has_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all its mismatches."""
    make, done = soak.RandomProducts.make, []

    def wild(self: soak.RandomProducts, pair: int, output: torch.Tensor) -> None:
        make(self, pair, output)
        done.append(pair)
        output[0, 0] = len(done)

    monkeypatch.setattr(soak.RandomProducts, "make", wild)
    found = verified(run_here(launch(tmp_path, Workload.SOAK)))
    assert found.mismatches == found.checks + 2 * 3
    assert found.kept[6].what.endswith("while warming up")
    assert {mismatch.wrong_again for mismatch in found.kept} == {10}


def test_mismatch_in_the_warm_up_has_its_phase(tmp_path: Path) -> None:
    """Its iteration is that of the warm-up; the measurement's start at 0 again."""
    made = soak.RandomProducts(launch(tmp_path, Workload.SOAK).cell, CPU)
    listener = Listener()
    watch = Watch(made, launch(tmp_path, Workload.SOAK), listener.stage)
    for phase in (Phase.WARM_UP, Phase.MEASURE):
        listener.stage.enter(phase)
        watch.begin(3)
        for _ in range(3):
            watch.step()
        watch.outputs[1].zero_()
        watch._verdicts[1] = 0
        watch.look()
    one, other = watch.verification((), "").kept
    assert (one.iteration, other.iteration) == (1, 1)
    assert one.what == other.what + ", while warming up"


@pytest.mark.parametrize(
    ("workload", "precision", "size", "message"),
    [
        (Workload.TRUTH, Precision.FP32, None, "an input size"),
        (Workload.SOAK, Precision.BF16, 63, "even input size"),
    ],
)
def test_cell_needs_a_side_that_can_be_digested(
    tmp_path: Path, workload: Workload, precision: Precision, size: int | None, message: str
) -> None:
    """Otherwise it is refused, with what to change."""
    with pytest.raises(ValueError, match=message):
        run_here(launch(tmp_path, workload, precision, input_size=size))


def test_blocks_fit_into_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many outputs as fit into memory, at least the two that take turns; a larger block is refused."""
    watch, _ = watch_of(tmp_path, soak.RandomProducts(launch(tmp_path, Workload.SOAK).cell, CPU))
    work = WatchedWork({"iteration": watch.step}, watch=watch)
    assert (work.size(10.0, 0.01), work.size(0.0, 1.0), work.group(HostClock(), 0.001)) == (11, 1, 1)
    with pytest.raises(ValueError, match="12 products, with 11 outputs"):
        work.block(HostClock(), 12)
    monkeypatch.setattr(products, "_MOST_OUTPUTS", 256)
    assert [products.outputs_for(size, CPU) for size in (1, 2**18, 2**20, 2**40)] == [256, 256, 64, 2]
