"""The JAX process of a launch: it reads a Request, measures, answers and ends. It is killed with its launch.

inputs ─▶ lower, compile (compile_ms) ─▶ one call: peak memory, output ─▶ single calls ─▶ rounds ─▶ profiler
round: calls one after the other, each with another copy of the inputs, timed as a whole
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from protocol import codec, floats
from protocol.cell import DeviceKind, Precision
from protocol.result import CallProfile
from worker import adopt, memory, timing
from worker.jax_child import exchange
from worker.jax_child.exchange import Answer, Array, Request
from worker.operators import rounds, top_operations
from worker.timing import HostClock, TimedBlock

if TYPE_CHECKING:
    import jax

_GPU_PLANE: Final = "/device:GPU"
_STREAM: Final = "Stream"
_XLA_OPERATION: Final = "hlo_op"
_NO_KERNELS: Final = ("Memcpy", "Memset")
_DOTS: Final = {Precision.FP32: "highest", Precision.TF32: "tensorfloat32"}


def main() -> None:
    """Read a Request from standard input, write the Answer to standard output. Libraries print to standard error."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    head, rest = exchange.separated(sys.stdin.buffer.read())
    request = codec.decode(head, Request)
    adopt.die_with_parent(request.parent)
    answer, output = _answer(request, exchange.contents(request.arrays, rest))
    with os.fdopen(answers, "wb") as pipe:
        pipe.write(exchange.joined(answer, output))


def _answer(request: Request, given: Iterator[memoryview]) -> tuple[Answer, list[bytes]]:
    try:
        import jax
    except ImportError as error:
        return Answer(unsupported=f"JAX cannot be imported: {error}. Install gpubench with the extra jax"), []
    try:
        jax.devices()
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        return Answer(unsupported=f"JAX has no backend for this device: {reason}"), []
    dots = _DOTS.get(request.precision)
    with nullcontext() if dots is None else jax.default_matmul_precision(dots):
        return _measured(request, given)


def _measured(request: Request, given: Iterator[memoryview]) -> tuple[Answer, list[bytes]]:
    import jax
    import numpy as np
    from jax import numpy as jnp

    from worker.jax_child.functions import FUNCTIONS

    inputs = [jnp.array(_unpacked(array, data)) for array, data in zip(request.arrays, given, strict=True)]
    jax.block_until_ready(inputs)
    begin_ns = time.monotonic_ns()
    compiled = jax.jit(FUNCTIONS[request.operator]).lower(*inputs).compile()
    compile_ms = (time.monotonic_ns() - begin_ns) / 1e6
    memory.reset_resident()
    output = compiled(*inputs).block_until_ready()
    peak_bytes = _planned_bytes(compiled) if request.kind is DeviceKind.CUDA else memory.resident_peak()
    calls = _Calls(compiled, inputs, request.copies)
    host, real = rounds.single_calls(calls.call, calls.wait, request.window_s)
    pure, block = calls.pure_ms(request.window_s, ordered=request.kind is DeviceKind.CUDA)
    kernels, events = _profiled(calls, request.kind)
    found = np.asarray(output)
    answer = Answer(
        arrays=(Array(shape=found.shape, dtype=found.dtype.name, size=found.nbytes),),
        series={"host": floats.pack(host), "real": floats.pack(real), "pure": floats.pack(pure)},
        block=block,
        profile=CallProfile(
            compile_ms=compile_ms, peak_bytes=peak_bytes, kernels=kernels, top=top_operations.longest(events)
        ),
    )
    return answer, [found.tobytes()]


class _Calls:
    """Calls the compiled function. Keeps the outputs for `wait`, because JAX returns before they are computed."""

    def __init__(self, compiled: "jax.stages.Compiled", inputs: "list[jax.Array]", copies: int) -> None:
        from jax import numpy as jnp

        self._compiled = compiled
        self._rotated = [inputs, *([jnp.array(one, copy=True) for one in inputs] for _ in range(copies - 1))]
        self._outputs: list[jax.Array] = []

    def call(self) -> None:
        self._outputs = [self._compiled(*self._rotated[0])]

    def wait(self) -> None:
        for output in self._outputs:
            output.block_until_ready()

    def pure_ms(self, window_s: float, *, ordered: bool) -> tuple[list[float], TimedBlock]:
        """Time rounds. Returns the mean milliseconds of a call in each round, and the timed block of all rounds.

        window_s: approximate seconds of all rounds together, of which there are 5 to 2000. ordered: True if the device
        computes one call after the other. A CPU may compute several at once, so the host waits for each call.
        """
        begin = time.monotonic()
        self.call()
        self.wait()
        call_s = max(time.monotonic() - begin, 1e-9)
        rotated = self._rotated[-max(rounds.LEAST_COPIES, round(window_s / call_s)) :]

        def one_round() -> None:
            self._outputs = []
            for inputs in rotated:
                output = self._compiled(*inputs)
                if ordered:
                    self._outputs.append(output)
                else:
                    output.block_until_ready()
            self.wait()

        first = timing.time_block(HostClock(), (one_round,), 2)
        block = timing.time_block(HostClock(), (one_round,), rounds.calls(window_s, first.wall_ms / 2))
        return [span_ms / len(rotated) for span_ms in block.spans_ms], block


def _planned_bytes(compiled: "jax.stages.Compiled") -> int:
    """Return the bytes of memory that XLA planned for a call: inputs, output and temporaries."""
    plan = compiled.memory_analysis()
    return int(plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes)


def _profiled(calls: _Calls, kind: DeviceKind) -> tuple[int | None, list[tuple[str, float]]]:
    """Profile one call. Return the number of kernels, and the name and milliseconds of each kernel and each copy.

    The number is None if no kernel was seen. On a CPU device XLA's operations count as kernels.
    """
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            calls.call()
            calls.wait()
        file = next(Path(folder).rglob("*.xplane.pb"))
        seen = jax.profiler.ProfileData.from_file(str(file))
        events = list(_kernels(seen) if kind is DeviceKind.CUDA else _operations(seen))
    return sum(not name.startswith(_NO_KERNELS) for name, _ in events) or None, events


def _kernels(seen: "jax.profiler.ProfileData") -> Iterator[tuple[str, float]]:
    for plane in seen.planes:
        for line in plane.lines:
            if plane.name.startswith(_GPU_PLANE) and line.name.startswith(_STREAM):
                yield from ((event.name, event.duration_ns / 1e6) for event in line.events)


def _operations(seen: "jax.profiler.ProfileData") -> Iterator[tuple[str, float]]:
    for plane in seen.planes:
        for line in plane.lines:
            for event in line.events:
                if any(name == _XLA_OPERATION for name, _ in event.stats):
                    yield event.name, event.duration_ns / 1e6


def _unpacked(array: Array, data: memoryview) -> "jax.typing.ArrayLike":
    import jax.numpy  # noqa: F401 - numpy knows bfloat16 from here on
    import numpy as np

    return np.frombuffer(data, np.dtype(array.dtype)).reshape(array.shape)


if __name__ == "__main__":
    main()
