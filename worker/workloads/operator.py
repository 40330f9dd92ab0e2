"""Measurement of an operator in one implementation and precision: each shape is verified and timed.

    shape ─▶ inputs ─▶ verified against fp64 ─▶ real and pure times ─▶ profile, if requested ─▶ verified again
      │        └── JAX: another process does all but verify                    wrong in either verification: no times
      ├── an error ─▶ the next launch tries the shape again, in the opposite order
      └── the process dies ─▶ the retry measures the other shapes, and a later launch tries this one again

The order of the shapes is random. An error may end the CUDA context, so that all later shapes fail. In the opposite
order, those shapes come before the error.

A real time is that of one call on an idle device. A pure round is many calls back to back (operators/times.py). The
cell's series `iteration` holds the times of all pure rounds. Reports use `Result.shapes` instead.
"""

import contextlib
import random
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
from msgspec.structs import replace

from protocol import floats
from protocol.cell import JAX, InputSpec, OperatorShape, OperatorSpec
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Block, MeasuredIterations, ShapeResult, SteadyState, StopReason, WarmUp
from protocol.result import Result as LaunchResult
from worker import compiler, devices, memory
from worker.errors import ModelCodeError, UnsupportedError
from worker.models.own_code import Code
from worker.operators import jax_client, profiles, rounds, times, variants, verification
from worker.operators.functions import REFERENCES, Function
from worker.operators.variants import Implementation
from worker.operators.verification import Verified
from worker.probes.base import Bench
from worker.stage import Stage
from worker.timing import Step, TimedBlock
from worker.workloads import common

_FATAL: Final = "the process of an earlier launch ended while it measured this shape"


def run(assign: Assign, stage: Stage, isolation: str) -> LaunchResult:
    """Measure the cell. Errors of single shapes are text in its result.

    isolation: "fork" or "exec", noted in the result. Raises UnsupportedError if no shape is supported, and the first
    error if all shapes failed.
    """
    spec = assign.model.operator
    assert spec is not None
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    with stage.timed("build"):
        implementation = _implementation(assign, spec)
    stage.enter(Phase.WARM_UP)
    bench = _Bench(assign, spec, implementation, device)
    stage.enter(Phase.MEASURE)
    memory.reset_peaks(device)
    with stage.timed("measure"):
        shapes = _measured(bench, assign.round, stage)
    if all(shape.unsupported for shape in shapes):
        raise UnsupportedError(shapes[0].unsupported)
    if bench.errors and all(shape.error for shape in shapes):
        raise bench.errors[0]
    peaks = memory.peaks(device)
    spans_ms = [span for block in bench.blocks for span in block.spans_ms]
    facts = WarmUp(
        steady_state=SteadyState.NOT_SOUGHT, iterations=0, first_iteration_ms=spans_ms[0] if spans_ms else 0.0,
        second_iteration_ms=None,
    )  # fmt: skip
    blocks = tuple(
        Block(
            start_ns=block.start_ns, enqueued_ns=block.enqueued_ns, end_ns=block.end_ns, iterations=len(block.spans_ms)
        )
        for block in bench.blocks
    )
    series = {"iteration": floats.pack(spans_ms)}
    measured = MeasuredIterations(blocks=blocks, series=series, stop_reason=StopReason.FIXED)
    measurements = common.Measurements(facts, measured, peaks, peaks, memory.resident_peak())
    fields = common.fields(measurements, common.holding(()), assign, stage, isolation=isolation, items=1)
    return LaunchResult(**fields, shapes=shapes)


def _implementation(assign: Assign, spec: OperatorSpec) -> Implementation:
    """Return the implementation to measure. For JAX, return PyTorch's eager one: another process measures JAX.

    Raises NotBuiltError if the user's own code cannot be imported or built.
    """
    if assign.model.own is not None:
        made: Function = Code(assign.model.own).made_by  # type: ignore[assignment]  # verified when it is called
        found = Implementation(made)
    else:
        found = variants.implementation(spec.name, "" if spec.variant == JAX else spec.variant)
    if not assign.cell.compiles:
        return found
    compiler.use_caches(Path(assign.compiler_caches), cold=assign.round == 0)
    compiled: Function = torch.compile(found.function, dynamic=False, mode=assign.cell.compile_mode.value)
    return Implementation(compiled, found.context)


def _measured(bench: "_Bench", launch_round: int, stage: Stage) -> tuple[ShapeResult, ...]:
    order = shape_order(bench.shapes, bench.seed, launch_round)
    fatal = stage.paths.fatal_shapes() if len(order) > 1 else ()
    found = []
    for number, shape in enumerate(order, 1):
        if shape.name in fatal:
            found.append(ShapeResult(shape=shape.name, error=_FATAL))
            continue
        with contextlib.suppress(OSError):  # a disk that is full costs the file, not the launch
            stage.paths.shape.write_text(shape.name, encoding="utf-8")
        found.append(bench.tried(shape))
        stage.progress(number / len(order))
    return tuple(found)


def shape_order(shapes: Sequence[OperatorShape], seed: int, launch_round: int) -> list[OperatorShape]:
    """Return the shapes in random order, reversed in every second launch (odd `launch_round`)."""
    order = list(shapes)
    random.Random(seed).shuffle(order)
    return order[::-1] if launch_round % 2 else order


def _wrong(shape: str, verified: Verified, when: str = "") -> ShapeResult:
    return ShapeResult(
        shape=shape,
        wrong=f"{when}{verified.wrong}",
        deviation=verified.deviation,
        compared=verified.compared,
        no_gradient=True,
    )


@dataclass(frozen=True)
class _Calls:
    """Calls to time, one for each copy of the inputs. name: suffix of their series. given: inputs of the last call."""

    name: str
    calls: Sequence[Step]
    given: Sequence[torch.Tensor]


class _Bench:
    """Measurement of an operator on its device. errors: exceptions of failed shapes, except UnsupportedError.

    blocks: timed blocks of the pure rounds (see the module), of all shapes so far without a wrong output.
    """

    def __init__(self, assign: Assign, spec: OperatorSpec, made: Implementation, device: torch.device) -> None:
        self._spec, self._function, self._context, self._device = spec, made.function, made.context, device
        self._assign, self._cell = assign, assign.cell
        self._bench = Bench(
            device=device,
            dtype=devices.weights_type(assign.cell.precision, training=False),
            generator=torch.Generator(device=device).manual_seed(assign.cell.seed),
            clock=devices.clock_for(device),
            burst_s=assign.measurement.block_s,
        )
        self.seed = assign.cell.seed
        self.shapes = spec.shapes[assign.device.kind]
        self.errors: list[Exception] = []
        self.blocks: list[TimedBlock] = []

    def tried(self, shape: OperatorShape) -> ShapeResult:
        """Measure a shape. Exceptions become text in the result, and join `errors` unless they are UnsupportedError."""
        if self._cell.compiles:  # beyond eight forms, torch would silently call the function in eager
            torch.compiler.reset()
        try:
            memory.release_cached(self._device)  # raises where an earlier error has ended the CUDA context
            with self._context():
                return self._shape(shape)
        except UnsupportedError as error:
            return ShapeResult(shape=shape.name, unsupported=str(error))
        except Exception as error:  # noqa: BLE001 - the other shapes stand
            traceback.print_exception(error)
            self.errors.append(error)
            said = str(error).strip().partition("\n")[0]
            return ShapeResult(shape=shape.name, error=f"{type(error).__name__}: {said}")

    def _shape(self, shape: OperatorShape) -> ShapeResult:
        inputs = [self._made(one) for one in shape.inputs]
        if self._spec.variant == JAX:
            return self._in_jax(shape.name, inputs)
        verified = self._verified(self._function, inputs)
        if verified.wrong:
            return _wrong(shape.name, verified)
        first = self._forward(inputs)
        compile_ms = compiler.measured_ms() if self._cell.compiles else None
        peak_bytes = profiles.peak_bytes(first, self._device) if self._spec.profiled else None
        timed = len(self.blocks)
        series, graphed = self._times(inputs, backward=self._spec.backward and not verified.no_gradient)
        self._require_unchanged()
        profile = None
        if self._spec.profiled:
            profile = replace(profiles.of_call(first, self._device), compile_ms=compile_ms, peak_bytes=peak_bytes)
        for tensor, one in zip(inputs, shape.inputs, strict=True):
            tensor.copy_(self._made(one))  # an output kept from an earlier call is wrong for them
        again = self._verified(self._function, inputs)
        if again.wrong:
            del self.blocks[timed:]
            return _wrong(shape.name, again, "after its times, with other inputs: ")
        return ShapeResult(
            shape=shape.name,
            deviation=verified.deviation,
            series=series,
            graphed=graphed,
            no_gradient=verified.no_gradient,
            profile=profile,
        )

    def _in_jax(self, name: str, inputs: list[torch.Tensor]) -> ShapeResult:
        answer, output = jax_client.measure(self._assign, self._spec.name, inputs, self._copies(inputs))
        found = output.to(self._device)
        verified = self._verified(lambda *_: found, inputs)
        if verified.wrong:
            return _wrong(name, verified)
        if answer.block is not None:
            self.blocks.append(answer.block)
        return ShapeResult(
            shape=name, deviation=verified.deviation, series=answer.series, no_gradient=True, profile=answer.profile
        )

    def _verified(self, function: Function, inputs: list[torch.Tensor]) -> Verified:
        return verification.verify(
            function,
            REFERENCES[self._spec.name],
            inputs,
            self.seed,
            self._spec.tolerance[self._cell.precision],
            backward=self._spec.backward,
        )

    def _times(self, inputs: list[torch.Tensor], *, backward: bool) -> tuple[dict[str, bytes], bool]:
        """Time forward calls. Return (packed times in ms by series: host, real, pure; whether pure ran as a graph).

        backward: also time calls of forward and backward pass together, as further series.
        """
        series: dict[str, bytes] = {}
        graphed = True
        for one in self._passes(inputs, backward=backward):
            wait = partial(devices.synchronize, self._device)
            host, real = rounds.single_calls(one.calls[0], wait, self._bench.burst_s)
            pure, block, captured = times.pure_ms(one.calls, self._device, self._bench.burst_s, one.given)
            found = {"host": host, "real": real, "pure": pure}
            series |= {f"{name}{one.name}": floats.pack(values) for name, values in found.items()}
            graphed = graphed and captured
            self.blocks.append(block)
        return series, graphed

    def _copies(self, inputs: list[torch.Tensor]) -> int:
        size = sum(tensor.nbytes for tensor in inputs)
        return rounds.copies(size, self._bench.room(), self._device.type)

    def _passes(self, inputs: list[torch.Tensor], *, backward: bool) -> Iterator[_Calls]:
        count = self._copies(inputs)
        rotated = [inputs, *([tensor.clone() for tensor in inputs] for _ in range(count - 1))]
        yield _Calls("", [self._forward(copy) for copy in rotated], rotated[-1])
        if backward:
            output = verification.as_tensor(self._function(*inputs))
            gradient = verification.upstream(output, self.seed)
            del output
            yield _Calls("_backward", [self._both(copy, gradient) for copy in rotated], (*rotated[-1], gradient))

    def _forward(self, inputs: list[torch.Tensor]) -> Step:
        def call() -> object:
            with torch.no_grad():
                return self._function(*inputs)

        return call

    def _both(self, inputs: list[torch.Tensor], gradient: torch.Tensor) -> Step:
        leaves = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]

        def call() -> object:
            return torch.autograd.grad(self._function(*leaves), wanted, gradient, allow_unused=True)

        return call

    def _made(self, spec: InputSpec) -> torch.Tensor:
        shape = tuple(map(int, spec.shape))
        if spec.dtype == "int64":
            return torch.randint(
                round(spec.low), round(spec.high), shape, generator=self._bench.generator, device=self._device
            )
        if spec.high > spec.low:
            drawn = torch.rand(shape, generator=self._bench.generator, device=self._device)
            return (spec.low + (spec.high - spec.low) * drawn).to(self._bench.dtype)
        return self._bench.numbers(*shape)

    def _require_unchanged(self) -> None:
        """Raise ModelCodeError if the user's code changed a TF32 switch."""
        wanted = self._cell.precision == "tf32"
        if any(on is not wanted for on in devices.tf32_switches().values()):
            raise ModelCodeError(f"the code of {self._assign.model.name} switched TF32. Remove the switch")
