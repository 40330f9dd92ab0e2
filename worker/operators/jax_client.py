"""Client of a launch's JAX process: start it, send the inputs, and wait for the answer until a deadline."""

import os
import subprocess
import sys
from collections.abc import Sequence

import torch

from protocol import codec
from protocol.failure import Phase
from protocol.messages import Assign
from worker import adopt
from worker.errors import UnsupportedError, WorkerError
from worker.jax_child import exchange
from worker.jax_child.exchange import PLATFORMS, VARIABLES, Answer, Array, Request

_OF_DEADLINE = 0.9
"""Share of the phase's deadline for JAX. The launch needs the rest to report that JAX was too slow."""


def measure(assign: Assign, operator: str, inputs: Sequence[torch.Tensor], copies: int) -> tuple[Answer, torch.Tensor]:
    """Measure an operator in JAX. Returns the answer of the JAX process, and the output as a tensor on the CPU.

    operator: key of jax_child.functions.FUNCTIONS. copies: number of copies of the inputs, used in turn. Raises
    UnsupportedError if JAX cannot be imported or has no backend for the device, WorkerError if the process fails (also
    because of the operator) or takes too long.
    """
    kind = assign.device.kind
    request = Request(
        parent=os.getpid(),
        operator=operator,
        kind=kind,
        precision=assign.cell.precision,
        window_s=assign.measurement.block_s,
        copies=copies,
        arrays=tuple(map(_described, inputs)),
    )
    limit_s = _OF_DEADLINE * assign.deadlines.allowance(Phase.MEASURE, assign.measurement)
    root, known = adopt.rooms_root(), os.environ.get("PYTHONPATH", "")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "worker.jax_child"],
            input=exchange.joined(request, list(map(_bytes, inputs))),
            stdout=subprocess.PIPE,
            env=os.environ
            | VARIABLES
            | {"JAX_PLATFORMS": PLATFORMS[kind], "PYTHONPATH": os.pathsep.join(filter(None, (root, known)))},
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"the JAX process did not answer within {limit_s:.0f} s") from error
    if done.returncode:
        raise WorkerError(f"the JAX process ended with code {done.returncode}; stderr.log says why")
    head, rest = exchange.separated(done.stdout)
    answer = codec.decode(head, Answer)
    if answer.unsupported:
        raise UnsupportedError(answer.unsupported)
    (output,) = answer.arrays
    dtype: torch.dtype = getattr(torch, output.dtype)
    return answer, torch.frombuffer(bytearray(rest), dtype=dtype).reshape(output.shape)


def _described(tensor: torch.Tensor) -> Array:
    return Array(shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."), size=tensor.nbytes)


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes()
