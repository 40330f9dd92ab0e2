"""Inference: forward passes with inputs on the device, then end-to-end latency (latency.py).

The model is in evaluation mode. cuDNN's autotuner stays at torch's default, as in most code.
"""

import torch
from msgspec.structs import replace

from protocol import floats
from protocol.messages import Assign
from protocol.result import Result
from worker import devices, flops, latency, outputs
from worker.changing_shapes import Trials
from worker.compiler import Compiler
from worker.measure import Work
from worker.models.base import Batch, Family
from worker.stage import Stage
from worker.workloads import common


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell.

    isolation: "fork" or "exec", for the result. Raises NotFiniteError if outputs contain NaN or infinity. In a user's
    own model, infinity is allowed. Raises ModelCodeError if the model returns no computed output
    (outputs.require_computed).
    """
    family = common.family_of(assign, stage)
    device, module = common.opened(family, assign, stage, training=False)
    compiler = Compiler(assign, stage, device)
    with torch.inference_mode():
        with stage.timed("build"):
            batch = _inputs(family, assign, device, assign.cell.input_size)

        def forward() -> torch.Tensor:
            return family.forward(module, batch)

        compiler.compile(module, forward)
        measurements = common.warm_up_and_measure(Work({"forward": forward}), assign, stage, device)
        with stage.timed("count"):
            # A user's own model may mask with infinity.
            found = outputs.require_computed(forward(), assign.model.name)
            outputs.require_finite(found, infinite=assign.model.own is not None)
        with stage.timed("measure"):
            passes_ms = floats.unpack(measurements.measured.series["forward"])
            latencies_ms = latency.times_ms(forward, batch.values(), device, assign.measurement.min_s, passes_ms)
        with stage.timed("count"):
            operations = flops.count(forward, measurements.iteration_ms)
        compilation = compiler.compare_random(compiler.compilation(), module, forward)
        if compilation is not None and assign.shapes is not None:
            trials = Trials(
                assign,
                stage,
                module,
                lambda size: _inputs(family, assign, device, size),
                lambda inputs: family.forward(module, inputs),
            )
            compilation = replace(compilation, shapes=trials.run(assign.shapes))
    return Result(
        **common.fields(
            measurements,
            module,
            assign,
            stage,
            isolation=isolation,
            items=common.items(family, assign, batch),
            series={"latency": latencies_ms},
        ),
        compilation=compilation,
        flops_per_iteration=operations,
    )


def _inputs(family: Family, assign: Assign, device: torch.device, size: int | None) -> Batch:
    dtype = devices.weights_type(assign.cell.precision, training=False)
    sized = replace(assign, cell=replace(assign.cell, input_size=size))
    batch = common.make_batch(family, sized, device, dtype)
    # Without the labels of the loss, which would take memory.
    named = {entry.name: batch[entry.name] for entry in assign.model.inputs if entry.name in batch}
    return named or batch
