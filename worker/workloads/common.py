"""Shared steps of the workloads: the phases of a launch, and its result."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from msgspec.structs import asdict

from protocol import floats
from protocol.cell import Cell, MemoryFormat, ModelSpec, Precision
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import LoadWindow, MeasuredIterations, Memory, WarmUp
from worker import compiler, devices, measure, memory
from worker.errors import ModelCodeError, UnsuitableModelError
from worker.measure import Work
from worker.memory import Peaks
from worker.models import registry
from worker.models.base import Batch, Family, Feed
from worker.stage import Stage
from worker.timing import Clock

_CASTS: Final = {
    torch.float32: torch.nn.Module.float,
    torch.float16: torch.nn.Module.half,
    torch.bfloat16: torch.nn.Module.bfloat16,
}

# None: the layout of the model's code.
_FORMATS: Final = {MemoryFormat.CONTIGUOUS: None, MemoryFormat.CHANNELS_LAST: torch.channels_last}


@dataclass(frozen=True)
class Measurements:
    """Warm-up and measurement of a launch. load: None without a load window.

    cold, warm: peaks of device memory in warm-up and in the measured blocks. resident_bytes: peak of the process's
    memory on the host.
    """

    warm_up: WarmUp
    measured: MeasuredIterations
    cold: Peaks
    warm: Peaks
    resident_bytes: int
    load: LoadWindow | None = None

    @property
    def iteration_ms(self) -> float:
        """Mean wall time of a measured iteration, in milliseconds."""
        blocks = self.measured.blocks
        return sum(block.end_ns - block.start_ns for block in blocks) / 1e6 / sum(block.iterations for block in blocks)


def family_of(assign: Assign, stage: Stage) -> Family:
    """Import and return the family of the cell's model, timed as "import". Raises UnknownFamilyError, ImportError."""
    with stage.timed("import"):
        return registry.family(assign.model)


def opened(family: Family, assign: Assign, stage: Stage, *, training: bool) -> tuple[torch.device, torch.nn.Module]:
    """Enter the build phase, open the launch's device, and build the cell's model on it. Returns device and model.

    training: build it in training mode with weights in fp32. False: for load and inference.
    """
    stage.enter(Phase.BUILD)
    device = open_device(assign, stage)
    with stage.timed("build"):
        module = build(family, assign, device, training=training)
        devices.synchronize(device)
    return device, module


def open_device(assign: Assign, stage: Stage) -> torch.device:
    """Open the launch's device (devices.open_device), seed torch, and reset the peak of resident memory.

    Redirects the compiler's caches if `assign.compiler_caches` is set.
    """
    if assign.compiler_caches:
        compiler.redirect_caches(Path(assign.compiler_caches))
    with stage.timed("context"):
        device = devices.open_device(assign.device, assign.cell.precision)
    memory.reset_resident()
    torch.manual_seed(assign.cell.seed)
    return device


def build(family: Family, assign: Assign, device: torch.device, *, training: bool) -> torch.nn.Module:
    """Build the cell's model on `device`, in the cell's memory format and precision.

    training: build it in training mode with weights in fp32. False: for load and inference (see serving).
    """
    cell = assign.cell
    dtype = devices.weights_type(cell.precision, training=training)
    make = family.build if training else serving(family)
    module = placed(cast(make(assign.model, device, cell.input_size), dtype), cell, device)
    module.train(training)  # a model that overrides this often forgets to return itself
    return module


def serving(family: Family) -> Callable[[ModelSpec, torch.device, int | None], torch.nn.Module]:
    """Return the builder for load and inference: `build_for_inference` if the family has it, otherwise `build`.

    Its arguments are those of Family.build: model, device and input size. None as the size is only for a model of one
    fixed size. Others raise ValueError.
    """
    build: Callable[[ModelSpec, torch.device, int | None], torch.nn.Module]
    build = getattr(family, "build_for_inference", family.build)
    return build


def placed(module: torch.nn.Module, cell: Cell, device: torch.device) -> torch.nn.Module:
    """Move the module, in place, to `device` and the cell's memory format. Returns it."""
    moved: torch.nn.Module = module.to(device, memory_format=_FORMATS[cell.memory_format])  # type: ignore[call-overload]  # torch declares each alone
    return moved


def holding(tensors: Iterable[torch.Tensor]) -> torch.nn.Module:
    """Return a module whose buffers are `tensors`. A cell without a model reports their bytes as model_bytes."""
    module = torch.nn.Module()
    for number, tensor in enumerate(tensors):
        module.register_buffer(str(number), tensor)
    return module


def cast(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Cast the module's floating-point weights and buffers to `dtype`, in place, and return the module.

    Raises UnsuitableModelError if `dtype` is fp16 or bf16 and a weight or buffer is complex.
    """
    if dtype in devices.HALF.values():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if tensor.is_complex():
                raise UnsuitableModelError(
                    f"{name} is of type {str(tensor.dtype).removeprefix('torch.')}, which has no counterpart in "
                    f"{str(dtype).removeprefix('torch.')}. Measure load and inference of this model with -p fp32"
                )
    return _CASTS[dtype](module)


def make_batch(family: Family, assign: Assign, device: torch.device, dtype: torch.dtype) -> Batch:
    """Make the inputs of an iteration on the device, seeded by the cell. dtype: of floating-point inputs.

    Images (four-dimensional floating-point inputs) have the memory format of the cell.
    """
    cell = assign.cell
    feed = Feed(batch_size=cell.batch_size, input_size=cell.input_size, device=device, dtype=dtype, seed=cell.seed)
    batch = family.batch(assign.model, feed)
    if cell.memory_format is MemoryFormat.CONTIGUOUS:
        return batch
    return {name: _channels_last(tensor) for name, tensor in batch.items()}


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    images = tensor.dim() == 4 and tensor.is_floating_point()
    return tensor.contiguous(memory_format=torch.channels_last) if images else tensor


def items(family: Family, assign: Assign, batch: Batch) -> int:
    """Return the number of samples in one iteration: the family's own count, or the batch size."""
    samples = getattr(family, "samples", None)
    counted: int | None = None if samples is None else samples(batch)
    return assign.cell.batch_size if counted is None else counted


def warm_up_and_measure(
    work: Work, assign: Assign, stage: Stage, device: torch.device, clock: Clock | None = None
) -> Measurements:
    """Run warm-up, measurement and load window of `work`. clock: by default that of the device.

    Raises ModelCodeError if the model's code has switched TF32 against the cell's precision.
    """
    wants_tf32 = assign.cell.precision is Precision.TF32
    devices.set_tf32(wanted=wants_tf32)  # building and feeding may have run code that switches it
    memory.release_cached(device)
    memory.reset_peaks(device)
    work = replace(work, retries=lambda: memory.allocator_retries(device))
    clock = clock or devices.clock_for(device)
    began_ns = time.monotonic_ns()
    warm_up, iteration_ms = measure.warm_up(work, clock, assign.measurement, stage)
    cold = memory.peaks(device)
    memory.reset_peaks(device)
    measured = measure.measured(work, clock, assign.measurement, stage, iteration_ms)
    warm = memory.peaks(device)
    since_ns = began_ns + round(warm_up.first_iteration_ms * 1e6)
    load = measure.load_window(work, clock, assign.measurement, stage, measured, since_ns=since_ns)
    _require_precision(assign, wants_tf32=wants_tf32)
    return Measurements(warm_up, measured, cold, warm, memory.resident_peak(), load)


def _require_precision(assign: Assign, *, wants_tf32: bool) -> None:
    changed = [name for name, on in devices.tf32_switches().items() if on is not wants_tf32]
    if changed:
        raise ModelCodeError(
            f"the code of {assign.model.name} switched TF32 {'off' if wants_tf32 else 'on'} during the measurement "
            f"({', '.join(changed)}), so the times are not those of {assign.cell.precision}. Remove "
            "torch.set_float32_matmul_precision, allow_tf32 and fp32_precision from the code, and choose the "
            "precision with -p"
        )


def fields(
    measurements: Measurements,
    module: torch.nn.Module,
    assign: Assign,
    stage: Stage,
    *,
    isolation: str,
    items: int,
    series: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the fields of Result that every launch has: name → value.

    module: the model. isolation: "fork" or "exec", the way in which this process was started. items: samples in an
    iteration. series: name → milliseconds, to add to the measured series.
    """
    found = asdict(measurements.measured)
    device = torch.device(assign.device.kind)  # the module may have no parameters to ask
    return found | {
        "cell": assign.cell,
        "parameters": memory.parameter_count(module),
        "items_per_iteration": items,
        "ledger": stage.ledger(),
        "warm_up": measurements.warm_up,
        "series": found["series"] | {name: floats.pack(times) for name, times in series.items()},
        "load": measurements.load,
        "memory": Memory(
            model_bytes=memory.module_bytes(module),
            cold_allocated_bytes=measurements.cold.allocated_bytes,
            cold_reserved_bytes=measurements.cold.reserved_bytes,
            warm_allocated_bytes=measurements.warm.allocated_bytes,
            warm_reserved_bytes=measurements.warm.reserved_bytes,
            resident_bytes=measurements.resident_bytes,
        ),
        "environment": devices.environment(device, isolation),
    }
