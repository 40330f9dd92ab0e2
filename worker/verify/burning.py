"""One launch of a burn-in workload that makes and verifies matrix products: soak, truth or steps."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from protocol.cell import Cell
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from worker import devices
from worker.stage import Stage
from worker.timing import Step
from worker.verify import products
from worker.verify.key import key
from worker.verify.products import Products
from worker.verify.slow import slowed
from worker.verify.watch import Watch, WatchedWork
from worker.workloads import common

Prepare = Callable[[Cell, torch.device], Products]


def run(assign: Assign, stage: Stage, isolation: str, prepare: Prepare, pause: Step = lambda: None) -> Result:
    """Warm up and measure by making products, verify each of them, and return the result with its verification.

    isolation: how this process was started, "fork" or "exec", for the result. prepare: returns the Products of a cell
    on a device. pause: called before every block, untimed.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product, for equal bits
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(assign.cache_folder) / "triton"))
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    products.add_in_fp32()
    clock = devices.clock_for(device)
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("warm_up"):
            made = prepare(assign.cell, device)
            watch = Watch(made, assign, stage)
            share = watch.cost(clock)
        work = slowed(WatchedWork({"iteration": watch.step}, watch=watch, prepare=pause), assign)
        measurements = common.warm_up_and_measure(work, assign, stage, device, clock)
        watch.end()
    method = f"{made.method}, which takes {100 * share:.1f} % of the time"
    return Result(
        **common.fields(
            measurements, common.holding((*made.tensors(), *watch.outputs)), assign, stage, isolation=isolation, items=1
        ),
        flops_per_iteration=products.flops(made.side),
        verification=watch.verification(key(assign.device, device), method),
    )
