"""Inference: forward passes in evaluation mode, one series, inputs already on the device.

cuDNN's autotuner and the memory format are left at torch's defaults, which is what most code runs with.
"""

import torch

from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from worker import devices
from worker.measure import Work
from worker.models import registry
from worker.stage import Stage
from worker.workloads import common


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell."""
    with stage.timed("import"):
        family = registry.family(assign.model)
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    dtype = devices.weights_type(assign.cell.precision, training=False)
    with stage.timed("build"):
        module = family.build(assign.model, device, assign.cell.input_size).to(dtype).eval()
        devices.synchronize(device)
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("build"):
            batch = common.make_batch(family, assign, device, dtype)
        work = Work({"forward": lambda: family.forward(module, batch)})
        measurements = common.warm_up_and_measure(work, assign, stage, device)
    return common.result(measurements, module, assign, stage, isolation=isolation, items=assign.cell.batch_size)
