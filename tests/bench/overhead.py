"""What a cell costs beyond warm-up and measuring, forked and exec'd: resnet50 inference until the device is free again.

python -m tests.bench.overhead [device] [forked launches] [exec'd launches]
"""

from statistics import median

from orchestrator.config.run_configuration import Isolation
from tests.bench.harness import Timed, arguments, default_device, harness, stored_run


def main(device: str, forked: int, executed: int) -> None:
    stored = stored_run(device, "-m", "resnet50", "-b", "8", "-p", "fp32", "--phases", "inference")
    cell = next(cell for cell in stored.plan.cells if cell.model == "resnet50")
    with harness(stored) as bench:
        zygote_ms = bench.start_zygote()
        bench.launch(cell, Isolation.FORK)  # the first launch brings files into the page cache
        forks = [bench.launch(cell, Isolation.FORK) for _ in range(forked)]
        execs = [bench.launch(cell, Isolation.EXEC) for _ in range(executed)]
    show("forked", forks)
    show("exec'd", execs)
    fork_ms, exec_ms = median(one.overhead_ms for one in forks), median(one.overhead_ms for one in execs)
    print(f"exec'd / forked: {exec_ms / fork_ms:.1f}")
    print(f"zygote start: {zygote_ms:.0f} ms; pays from {zygote_ms / (exec_ms - fork_ms):.1f} launches on")


def show(name: str, launches: list[Timed]) -> None:
    """Median, smallest, largest, and where the median launch's time went."""
    overheads = sorted(one.overhead_ms for one in launches)
    print(
        f"{name}: median {median(overheads):.0f} ms ({overheads[0]:.0f} to {overheads[-1]:.0f}, n = {len(overheads)})"
    )
    ledger = sorted(launches, key=lambda one: one.overhead_ms)[len(launches) // 2]
    parts = {
        field.removesuffix("_ms"): round(getattr(ledger.result.ledger, field))
        for field in ledger.result.ledger.__struct_fields__
    }
    told = sum(getattr(ledger.result.ledger, field) for field in ledger.result.ledger.__struct_fields__)
    print(f"  {parts}, the rest (teardown, messages): {ledger.wall_ms - told:.0f} ms")


if __name__ == "__main__":
    main(*arguments(default_device(), 10, 3))
