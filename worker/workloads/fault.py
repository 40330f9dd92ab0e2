"""Causes any fault on request, or simulates a launch, for `selftest` and tests. Only faults on a GPU import torch.

Keys of the model's `config`: `do`: the fault, a key of FAULTS. `above`: no fault up to this batch size. `on`: UUID of
the only device with the fault. `once`: path of a file that the first process with the fault creates. While the file
exists, no other process has the fault. `in`: phase of the fault, "build", "warm-up" (default) or "measure". `after`:
seconds from the start of that phase to the fault. `told`: path of a file, to which the launch number and monotonic ns
are appended just before the fault. `seconds`: simulated measuring time. Processes of a cell wait for each other in each
phase.
"""

import ctypes
import importlib
import math
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

from protocol import floats
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Block, Environment, Memory, Result, SteadyState, StopReason, WarmUp
from protocol.verification import Verification
from worker import finite, memory
from worker.barrier import Gathering
from worker.stage import Stage

_MIB: Final = 1024 * 1024
_TOGETHER: Final = 8  # times that processes wait for each other while they measure
_BLOCK_S: Final = 0.5  # longest simulated block of a single process
_ON_A_GPU: Final = frozenset({"out of device memory", "device assert", "endless kernel"})
"""Faults that need the launch's device, which is opened in the build phase."""


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Cause the requested fault. Without one, return a simulated result: an iteration takes 1 ms for each sample.

    isolation: "fork" or "exec", for the result.
    """
    config = assign.model.config
    where = Phase(str(config.get("in", Phase.WARM_UP))) if _wanted(assign) else None
    others = None
    for phase in (Phase.BUILD, Phase.WARM_UP, Phase.MEASURE):
        stage.enter(phase)
        if phase is Phase.BUILD and where and config["do"] in _ON_A_GPU:
            _open_device(assign, stage)
        if phase is Phase.BUILD and assign.gang is not None:
            others = Gathering(assign.gang, len(assign.cell.devices))
        if phase is where:
            _inject(assign)
        if others is not None:
            others.align()
    with stage.timed("measure"):
        blocks = tuple(_pretend(float(config.get("seconds", 0)), others))
    if others is not None:
        others.align()  # only now has each of them measured
    stage.progress(1.0)
    return Result(
        cell=assign.cell,
        parameters=assign.model.parameters,
        items_per_iteration=assign.cell.batch_size,
        ledger=stage.ledger(),
        warm_up=WarmUp(
            steady_state=SteadyState.REACHED, iterations=1, first_iteration_ms=1.0, second_iteration_ms=None
        ),
        stop_reason=StopReason.TARGET,
        blocks=blocks,
        series={"iteration": floats.pack([float(assign.cell.batch_size)] * len(blocks))},
        memory=Memory(model_bytes=0, resident_bytes=0),
        environment=Environment(python=sys.version.split()[0], threads=1, collector_enabled=True, isolation=isolation),
        verification=None if others is None else _came(assign, others),
    )


def _pretend(seconds: float, others: Gathering | None) -> Iterator[Block]:
    number = max(1, math.ceil(seconds / _BLOCK_S)) if others is None else _TOGETHER
    for _ in range(number):
        start_ns = time.monotonic_ns()
        time.sleep(seconds / number)
        if others is not None:
            others.align()
        end_ns = time.monotonic_ns()
        yield Block(start_ns=start_ns, enqueued_ns=end_ns, end_ns=end_ns, iterations=1)


def _came(assign: Assign, others: Gathering) -> Verification:
    return Verification(key=(assign.device.uuid,), method="simulated", checks=others.steps.number)


def _wanted(assign: Assign) -> bool:
    config = assign.model.config
    if "do" not in config or assign.cell.batch_size <= int(config.get("above", 0)):
        return False
    if config.get("on", assign.device.uuid) != assign.device.uuid:
        return False
    if "once" in config:
        try:
            Path(str(config["once"])).touch(exist_ok=False)
        except FileExistsError:
            return False
    return True


def _open_device(assign: Assign, stage: Stage) -> None:
    from worker import devices

    with stage.timed("context"):
        devices.open_device(assign.device, assign.cell.precision)


def _inject(assign: Assign) -> None:
    config = assign.model.config
    time.sleep(float(config.get("after", 0)))
    if "told" in config:
        with Path(str(config["told"])).open("a", encoding="ascii") as file:
            file.write(f"{assign.launch} {time.monotonic_ns()}\n")
    FAULTS[str(config["do"])](assign)


def _raise(_: Assign) -> NoReturn:
    raise RuntimeError("raised on request")


def _no_context(_: Assign) -> NoReturn:
    # torch's error when CUDA cannot be started
    raise RuntimeError("CUDA error: unknown error\nCUDA kernel errors might be asynchronously reported")


def _hang(_: Assign) -> NoReturn:
    while True:
        time.sleep(3600)


def _hang_deaf(assign: Assign) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang(assign)


def _hold_the_gil(_: Assign) -> None:
    re.match(r"(a?){40}a{40}", "a" * 40)


def _segfault(_: Assign) -> None:
    ctypes.string_at(1)


def _abort(_: Assign) -> NoReturn:
    os.abort()


def _exhaust(assign: Assign) -> None:
    """Allocate and touch 64 MiB of host memory for each sample of the batch.

    Key `room_mb` of the model's `config`: first limit the process so that it can allocate only this many MiB more.
    """
    if "room_mb" in assign.model.config:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        room = (memory.headroom().data or 0) + int(assign.model.config["room_mb"]) * _MIB
        resource.setrlimit(resource.RLIMIT_DATA, (room, most))
    size = 64 * _MIB * assign.cell.batch_size
    ballast = bytearray(size)
    ballast[::4096] = b"\1" * len(ballast[::4096])


def _exhaust_device(assign: Assign) -> None:
    import torch

    _, total = torch.cuda.mem_get_info()
    torch.empty(int(total * 0.3) * assign.cell.batch_size, dtype=torch.uint8, device="cuda")


def _index_out_of_bounds(_: Assign) -> None:
    import torch

    # A failed device assertion makes the process unusable.
    torch.zeros(1, device="cuda")[torch.ones(1, dtype=torch.int64, device="cuda")]
    torch.cuda.synchronize()


def _endless_kernel(_: Assign) -> None:
    import torch

    torch.cuda._sleep(1 << 62)  # type: ignore[no-untyped-call]  # torch does not annotate it
    torch.cuda.synchronize()


def _print_without_end(_: Assign) -> NoReturn:
    line = b"x" * 1023 + b"\n"
    while True:
        os.write(1, line * 64)


FAULTS: Final[dict[str, Callable[[Assign], object]]] = {
    "raise": _raise,
    "no context": _no_context,
    "import error": lambda _: importlib.import_module("nothing_like_this"),
    "hang": _hang,
    "hang, deaf to SIGTERM": _hang_deaf,
    "hold the GIL": _hold_the_gil,
    "segfault": _segfault,
    "abort": _abort,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "leave without an outcome": lambda _: os._exit(0),
    "out of memory": _exhaust,
    "out of device memory": _exhaust_device,
    "device assert": _index_out_of_bounds,
    "endless kernel": _endless_kernel,
    "not finite": lambda _: finite.total({"model": math.nan}),
    "print without end": _print_without_end,
    "leave an orphan": lambda _: os.posix_spawn("/bin/sleep", ["sleep", "3600"], {}),
}
