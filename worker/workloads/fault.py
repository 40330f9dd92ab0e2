"""Does every wrong thing on request. Used by tests alone, through a model whose family is "fault".

The model's `config` says what: `do` is a key of the table at the end. `above` lets it happen only above that batch
size, `on` (a UUID) only on that device, `once` (a path) only the first time; `seconds` is how long a launch that works
pretends to measure.
"""

import ctypes
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from protocol import floats
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Block, Environment, Memory, Result, SteadyState, StopReason, WarmUp
from worker.stage import Stage

_MIB: Final = 1024 * 1024


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Misbehave as asked, or return a made-up result whose times are 1 ms for each item of the batch."""
    config = assign.model.config
    stage.enter(Phase.BUILD)
    stage.enter(Phase.WARM_UP)
    if _wanted(assign):
        FAULTS[str(config["do"])](assign)
    stage.enter(Phase.MEASURE)
    start = time.monotonic_ns()
    with stage.timed("measure"):
        time.sleep(float(config.get("seconds", 0)))
    end = time.monotonic_ns()
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
        blocks=(Block(start_ns=start, enqueued_ns=end, end_ns=end, iterations=1),),
        series={"iteration": floats.pack([float(assign.cell.batch_size)])},
        memory=Memory(model_bytes=0, resident_bytes=0),
        environment=Environment(python=sys.version.split()[0], threads=1, collector_enabled=True, isolation=isolation),
    )


def _wanted(assign: Assign) -> bool:
    """Whether this launch is one that goes wrong."""
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


def _raise(_: Assign) -> NoReturn:
    raise RuntimeError("raised on request")


def _import(_: Assign) -> NoReturn:
    raise ModuleNotFoundError("No module named 'nothing_like_this'", name="nothing_like_this")


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


def _kill(_: Assign) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(_: Assign) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _leave(_: Assign) -> NoReturn:
    os._exit(0)


def _exhaust(assign: Assign) -> None:
    """Really allocate 64 MiB for each item of the batch, and touch it, as a model's activations would."""
    size = 64 * _MIB * assign.cell.batch_size
    ballast = bytearray(size)
    ballast[::4096] = b"\1" * len(ballast[::4096])


def _not_finite(_: Assign) -> NoReturn:
    from worker.errors import NotFiniteError

    raise NotFiniteError(f"the loss is {math.nan}")


def _print_without_end(_: Assign) -> NoReturn:
    line = b"x" * 1023 + b"\n"
    while True:
        os.write(1, line * 64)


def _orphan(_: Assign) -> None:
    """Leave a grandchild behind that would outlive the launch."""
    os.posix_spawn("/bin/sleep", ["sleep", "3600"], {})


FAULTS: Final[dict[str, Callable[[Assign], object]]] = {
    "raise": _raise,
    "import error": _import,
    "hang": _hang,
    "hang, deaf to SIGTERM": _hang_deaf,
    "hold the GIL": _hold_the_gil,
    "segfault": _segfault,
    "abort": _abort,
    "kill": _kill,
    "stop": _stop,
    "leave without an outcome": _leave,
    "out of memory": _exhaust,
    "not finite": _not_finite,
    "print without end": _print_without_end,
    "leave an orphan": _orphan,
}
