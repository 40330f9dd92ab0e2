"""torch.compile as a phase of a launch: private caches, what was compiled, and how far the outputs are from eager.

    eager call │ caches of this cell │ first compiled call: the time to compile │ WARM_UP │ MEASURE │ random losses

The first launch of a cell finds its caches empty (cold); the later ones use what it filled (cached). Losses that
dropout makes random are compared at the end, because that takes a compilation of its own.
"""

import importlib
import logging
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch._logging._internal import set_logs

from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Compilation
from worker import devices, outputs
from worker.errors import UnsuitableModelError
from worker.stage import Stage

_CACHES: Final = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_LOGS: Final = ("__graph_breaks", "__recompiles", "torch._dynamo.convert_frame")
_PLACE: Final = re.compile(r"in user code at (\S+:\d+)|Recompiling function \S+ in (\S+:\d+)")
MOST: Final = 20
"""Graph breaks and recompilations that a result keeps."""


class Compiler:
    """Compilation of a launch's model; does nothing for an eager cell. Enters Phase.WARM_UP at its end, or at once."""

    def __init__(self, assign: Assign, stage: Stage, device: torch.device) -> None:
        self._assign, self._stage, self._device = assign, stage, device
        self._compiles = assign.cell.compiles
        self._log = Log()
        self._random = False
        self._facts = Compilation()
        stage.enter(Phase.COMPILE if self._compiles else Phase.WARM_UP)

    def compile(self, module: torch.nn.Module, call: Callable[[], object]) -> None:
        """Compile the module in place by its first `call`. Raises UnsuitableModelError if nothing is compiled."""
        if not self._compiles:
            return
        with self._stage.timed("compile"):
            expected = _values(call())
            self._random = module.training and not _is_same(expected, _values(call()))
            cached = use_caches(Path(self._assign.compiler_caches), cold=self._assign.round == 0)
            use_workers()
            self._log.attach()
            self._compile(module)
            begin_ns = time.monotonic_ns()
            returned = call()
            devices.synchronize(self._device)
            first_call_ms = (time.monotonic_ns() - begin_ns) / 1e6
            if not graphs():
                raise UnsuitableModelError(
                    f"torch.compile found nothing to compile in {self._assign.model.name}. Its loss may call parts of "
                    "the model instead of the model. Measure it with --compile eager"
                )
            compile_ms = measured_ms()
            errors = {} if self._random else _errors(expected, _values(returned))
        facts = Compilation(cached=cached, compile_ms=compile_ms, first_call_ms=first_call_ms)
        self._facts = msgspec.structs.replace(facts, **errors)
        self._stage.enter(Phase.WARM_UP)

    def compilation(self) -> Compilation | None:
        """What was compiled until now, in an eager cell by the model's own code. None for nothing."""
        made = graphs()
        if not self._compiles and not made:
            return None
        return msgspec.structs.replace(
            self._facts,
            own=not self._compiles,
            graphs=made,
            graph_breaks=tuple(self._log.graph_breaks)[:MOST],
            recompilations=tuple(self._log.recompilations)[:MOST],
        )

    def compare_random(
        self, found: Compilation | None, module: torch.nn.Module, call: Callable[[], object]
    ) -> Compilation | None:
        """Add the errors of random outputs to `found`: eager and compiled calls draw the same random numbers.

        Measured code draws others, so the first launch of a cell compiles once more, after its measurement. `found` is
        unchanged if eager calls with equal seeds differ.
        """
        if found is None or not self._random or self._assign.round:
            return found

        def seeded() -> torch.Tensor:
            torch.manual_seed(self._assign.cell.seed)
            return _values(call())

        self._stage.enter(Phase.COMPILE)
        with self._stage.timed("compile"):
            torch.compiler.reset()
            with torch.compiler.set_stance("force_eager"):
                expected, again = seeded(), seeded()
            if not _is_same(expected, again):
                return found
            with sys.modules["torch._inductor"].config.patch(fallback_random=True):
                self._compile(module)
                return msgspec.structs.replace(found, **_errors(expected, seeded()))

    def _compile(self, module: torch.nn.Module) -> None:
        cell = self._assign.cell
        module.compile(mode=cell.compile_mode.value, dynamic=cell.dynamic_shapes or None)


def use_caches(folder: Path, *, cold: bool) -> bool:
    """Direct all caches of the compiler to `folder`, emptied first if cold. Returns whether it holds anything.

    Kernels are compiled in this process (use_workers).
    """
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    cached = folder.is_dir()
    for variable, name in _CACHES.items():
        os.environ[variable] = str(folder / name)
    importlib.import_module("worker.inductor_ahead")  # takes a second that must not count as compile time
    return cached


def use_workers() -> None:
    """Let a pool of processes, one for each core, compile kernels: worth its start for a model, not an operator."""
    config: Any = sys.modules["torch._inductor.config"]
    config.compile_threads = config.decide_compile_threads()


def graphs() -> int:
    """Graphs that TorchDynamo has made in this process."""
    if "torch._dynamo" not in sys.modules:
        return 0
    return int(sys.modules["torch._dynamo"].utils.counters["stats"]["unique_graphs"])


def measured_ms() -> float:
    """Milliseconds that TorchDynamo and its backend took, of all frames and of backward passes."""
    metrics = sys.modules["torch._dynamo"].utils.get_compilation_metrics()
    return sum(one.duration_us or 0 for one in metrics) / 1e3


def _values(returned: object) -> torch.Tensor:
    """All floating-point outputs as one vector of doubles on the host."""
    tensors = [one for one in outputs.tensors(returned) if one.is_floating_point()]
    return torch.cat([one.detach().double().cpu().flatten() for one in tensors]) if tensors else torch.empty(0)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two eager calls agree, but for the order of sums. Dropout changes a loss by much more."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=0.0, equal_nan=True)


def _errors(expected: torch.Tensor, found: torch.Tensor) -> dict[str, float]:
    """Errors as in Compilation; none where there is nothing to compare. Raises UnsuitableModelError for other sizes."""
    if expected.shape != found.shape:
        raise UnsuitableModelError(
            f"the compiled model returns {len(found)} numbers, the eager one {len(expected)}. Measure it with "
            "--compile eager"
        )
    if not expected.numel():
        return {}
    absolute, largest = (found - expected).abs().max().item(), expected.abs().max().item()
    similarity = torch.nn.functional.cosine_similarity(expected, found, dim=0).item()
    return {
        "absolute_error": absolute,
        "relative_error": absolute / largest if largest else absolute,
        "cosine_distance": max(1 - similarity, 0.0),
    }


class Log(logging.Handler):
    """Graph breaks and recompilations that TorchDynamo logs, with the user's line and the reason, and how often.

    limited: TorchDynamo reached its limit of forms of a function, and runs further ones eager.
    """

    def __init__(self) -> None:
        super().__init__()
        self.graph_breaks: Counter[str] = Counter()
        self.recompilations: Counter[str] = Counter()
        self.limited = False

    def attach(self) -> None:
        """Listen from now on."""
        set_logs(graph_breaks=True, recompiles=True)
        for logger in _loggers():
            logger.addHandler(self)

    def detach(self) -> None:
        """Listen no more."""
        for logger in _loggers():
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message of TorchDynamo's log."""
        self.limited = self.limited or "torch._dynamo hit config." in record.getMessage()
        lines = [line.strip() for line in record.getMessage().splitlines() if line.strip()]
        place = _PLACE.search(lines[0]) if lines else None
        if place is None:
            return
        into = self.recompilations if record.name.endswith("__recompiles") else self.graph_breaks
        into[f"{place[1] or place[2]}: {_reason(lines[1:])}"] += 1


def _loggers() -> Iterator[logging.Logger]:
    return (logging.getLogger(name) for name in tuple(logging.root.manager.loggerDict) if name.endswith(_LOGS))


def _reason(lines: list[str]) -> str:
    """The line with the reason: the second one if there is one, because the first is general."""
    return (lines[1:] or lines or ["unknown"])[0].removeprefix("- ")[:300]
