"""orchestrator/plan/batch_scan.py: the batch sizes that `-b auto` tries, on simulated devices."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.run_configuration import Room
from orchestrator.plan import batch_scan
from orchestrator.plan.batch_scan import Figures, Tried
from protocol.cell import Cell, Precision, Workload
from protocol.failure import Category
from tests.fakes.results import result
from tests.fakes.runs import cpus, gpus

MIB = 2**20
ROOM = Room(memory_bytes=140_000 * MIB, largest=16_384, longest_s=5.0)
LAUNCHES = 45
PROMISED = 32
"""The largest is known to one part in so many: docs/batch-sizes.md."""


def world(size: int, *, base: float, item: float, latency_s: float, item_s: float, room: Room) -> Figures | None:
    """Figures of a launch with this batch size: linear memory, saturating throughput."""
    peak = int(base + item * size)
    if room.memory_bytes is not None and peak > room.memory_bytes:
        return None
    return Figures(peak_bytes=peak, items_per_second=size / (latency_s + item_s * size))


def scanned(room: Room = ROOM, **truth: float) -> list[Tried]:
    """The whole scan of a simulated device."""
    tried: list[Tried] = []
    while (size := batch_scan.next_batch(tried, room)) is not None:
        tried.append(step(len(tried), size, world(size, room=room, **truth)))
        assert len(tried) <= LAUNCHES
    return tried


def step(launch: int, size: int, figures: Figures | None, category: Category = Category.OUT_OF_MEMORY) -> Tried:
    """A launch, failed without figures."""
    return Tried(launch=launch, batch_size=size, figures=figures, category=None if figures else category)


def sizes(tried: list[Tried]) -> list[int]:
    """Batch sizes in the order in which they were tried."""
    return [one.batch_size for one in tried]


def test_two_small_launches_predict_the_largest_and_fresh_processes_verify_it() -> None:
    """60 MiB an item on 140 GB: some 2,300 items; few launches run out of memory on the way."""
    tried = scanned(base=2_000 * MIB, item=60 * MIB, latency_s=0.005, item_s=0.0005)
    assert sizes(tried)[:2] == [1, 8]
    true = (140_000 - 2_000) // 60
    found = batch_scan.largest(tried)
    assert found is not None
    assert true - true // PROMISED - 8 <= found.batch_size <= true
    assert batch_scan.bound(tried, ROOM) == "memory"
    assert 1 <= sum(one.figures is None for one in tried) <= 3
    powers = list(itertools.takewhile(lambda size: size <= found.batch_size, (2**n for n in range(20))))
    assert set(powers) <= set(sizes(tried)), "the curve has every power of two"


def test_the_best_throughput_need_not_be_at_the_largest_batch() -> None:
    """If throughput falls again, the best batch is the one before the fall."""
    tried = [
        Tried(launch=n, batch_size=size, figures=Figures(peak_bytes=size * MIB, items_per_second=rate))
        for n, (size, rate) in enumerate([(1, 10.0), (8, 70.0), (64, 90.0), (128, 60.0)])
    ]
    found = batch_scan.best(tried)
    assert found is not None
    assert found.batch_size == 64


def test_a_model_that_does_not_fit_at_all_is_tried_once() -> None:
    """No batch is smaller than one."""
    tried = scanned(base=200_000 * MIB, item=MIB, latency_s=0.01, item_s=0.01)
    assert sizes(tried) == [1]
    assert (batch_scan.largest(tried), batch_scan.best(tried), batch_scan.bound(tried, ROOM)) == (None, None, "")


def test_a_scan_is_bounded_by_time_and_by_the_cap() -> None:
    """Where memory never fills up: iterations do not become too long, nor batches larger than the cap."""
    room = Room(memory_bytes=10**12, largest=64, longest_s=2.0)
    tried = scanned(room, base=1e9, item=1e6, latency_s=0.1, item_s=0.25)
    assert max(sizes(tried)) <= 8
    assert batch_scan.bound(tried, room) == "time"
    room = Room(memory_bytes=None, largest=64, longest_s=1e9)
    tried = scanned(room, base=1e6, item=0.0, latency_s=0.001, item_s=0.0)
    assert sorted(sizes(tried)) == [1, 2, 4, 8, 16, 32, 64]
    assert batch_scan.bound(tried, room) == "cap"


def test_only_running_out_of_memory_is_called_memory() -> None:
    """Any other failure bounds the batch by its name; the smallest failed size counts."""
    room = Room(memory_bytes=None, largest=64, longest_s=1e9)
    works = Figures(peak_bytes=10**9, items_per_second=1.0)
    kernel, memory = Category.CUDA_ERROR, Category.OUT_OF_MEMORY
    below = [step(n, size, works) for n, size in enumerate((1, 2, 4, 8, 16, 20))]
    for failures, bound in (
        ({21: kernel}, "failure: CUDA error"),
        ({24: memory, 21: kernel}, "failure: CUDA error"),
        ({24: kernel, 21: memory}, "memory"),
        ({21: Category.HOST_OUT_OF_MEMORY}, f"failure: {Category.HOST_OUT_OF_MEMORY}"),
    ):
        failed = [step(6 + n, size, None, category) for n, (size, category) in enumerate(failures.items())]
        assert batch_scan.bound([*below, *failed], room) == bound


def test_nothing_bounds_a_scan_that_is_not_over() -> None:
    """A larger size may only not have been tried yet."""
    tried = scanned(base=2_000 * MIB, item=60 * MIB, latency_s=0.005, item_s=0.0005)
    assert {batch_scan.bound(tried[:end], ROOM) for end in range(len(tried))} == {""}
    assert batch_scan.bound(tried, ROOM) == "memory"


@given(
    base=st.floats(0, 150_000 * MIB),
    item=st.floats(0.01 * MIB, 50_000 * MIB),
    latency_s=st.floats(0.0001, 1.0),
    item_s=st.floats(1e-7, 1.0),
    jitter=st.lists(st.floats(0.97, 1.03), min_size=LAUNCHES, max_size=LAUNCHES),
    breaks_at=st.integers(2, 100_000),
)
def test_every_scan_ends_with_the_largest_that_works(
    *, base: float, item: float, latency_s: float, item_s: float, jitter: list[float], breaks_at: int
) -> None:
    """For any memory, times and failing kernels: no size twice, the largest to one part in 32."""
    tried: list[Tried] = []
    while (size := batch_scan.next_batch(tried, ROOM)) is not None:
        assert size not in sizes(tried)
        assert 1 <= size <= ROOM.largest
        assert len(tried) < LAUNCHES
        seen = world(size, base=base, item=item, latency_s=latency_s, item_s=item_s, room=ROOM)
        category = Category.OUT_OF_MEMORY if seen is None else Category.CUDA_ERROR
        if seen is not None and size >= breaks_at:
            seen = None
        if seen is not None:  # what is read is never quite the truth
            seen = Figures(peak_bytes=int(seen.peak_bytes * jitter[len(tried)]), items_per_second=seen.items_per_second)
        tried.append(step(len(tried), size, seen, category))
    found = batch_scan.largest(tried)
    unfit = [one.batch_size for one in tried if one.figures is None]
    if found is None:
        assert sizes(tried) == [1]
    elif unfit:
        smallest = next(one for one in tried if one.batch_size == min(unfit))
        in_memory = smallest.category is Category.OUT_OF_MEMORY
        assert batch_scan.bound(tried, ROOM) == ("memory" if in_memory else "failure: CUDA error")
        assert min(unfit) - found.batch_size <= max(1, found.batch_size // PROMISED)
    else:
        assert batch_scan.bound(tried, ROOM) in ("cap", "time")


def test_figures_are_items_over_time_and_the_peak_of_the_device() -> None:
    """Allocated memory on a GPU, the resident set elsewhere."""
    on_gpu, on_cpu = (
        result(
            Cell(
                devices=(device.uuid,),
                model="m",
                workload=Workload.INFERENCE,
                precision=Precision.FP32,
                batch_size=4,
            ),
            forward_ms=10.0,
            noise=0.0,
        )
        for device in (*gpus(1), *cpus(1))
    )
    assert round(batch_scan.figures(on_gpu).items_per_second) == 400
    assert batch_scan.figures(on_gpu).peak_bytes == on_gpu.memory.cold_allocated_bytes
    assert batch_scan.figures(on_cpu).peak_bytes == on_cpu.memory.resident_bytes
