"""torch.compile as a phase of a launch: private caches, what was compiled, and the error of the outputs.

    eager call │ caches of this cell │ first compiled call: the time to compile │ WARM_UP │ MEASURE │ random outputs

The first launch of a cell finds its caches empty (cold); later launches use the caches that it filled (cached). Outputs
are compared with those of the eager model. Random outputs, such as losses with dropout, are compared at the end,
because that takes a compilation of its own.
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
_REPLAYED: Final = 3
"""Calls until CUDA graphs replay: reduce-overhead and max-autotune warm up in the first, and record in the second."""
MOST: Final = 20
"""Graph breaks and recompilations that a result keeps."""


class Compiler:
    """Compilation of a launch's model. Enters Phase.WARM_UP afterwards. In an eager cell it compiles nothing."""

    def __init__(self, assign: Assign, stage: Stage, device: torch.device) -> None:
        self._assign, self._stage, self._device = assign, stage, device
        self._compiles = assign.cell.compiles
        self._log = Log()
        self._random = False
        self._facts = Compilation()
        stage.enter(Phase.COMPILE if self._compiles else Phase.WARM_UP)

    def compile(self, module: torch.nn.Module, call: Callable[[], object]) -> None:
        """Compile the module in place by running `call`. Raises UnsuitableModelError if nothing is compiled."""
        if not self._compiles:
            return
        with self._stage.timed("compile"):
            expected = _values(call())
            self._random = not _is_same(expected, _values(call()), training=module.training)
            cached = use_caches(Path(self._assign.compiler_caches), cold=self._assign.round == 0)
            use_workers()
            self._log.attach()
            self._compile(module)
            earlier_ms = measured_ms()  # by the model's own code, in eager calls
            begin_ns = time.monotonic_ns()
            call()
            devices.synchronize(self._device)
            first_call_ms = (time.monotonic_ns() - begin_ns) / 1e6
            if not graphs():
                raise UnsuitableModelError(
                    f"torch.compile found nothing to compile in {self._assign.model.name}. Its loss may call parts of "
                    "the model instead of the model. Measure it with --compile eager"
                )
            compile_ms = measured_ms() - earlier_ms
            errors = {} if self._random else output_errors(expected, _replayed(call))
        facts = Compilation(cached=cached, compile_ms=compile_ms, first_call_ms=first_call_ms)
        self._facts = msgspec.structs.replace(facts, **errors)
        self._stage.enter(Phase.WARM_UP)

    def compilation(self) -> Compilation | None:
        """Return what was compiled so far (in an eager cell: by the model's own code), None if nothing was."""
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
        """Return `found` with the errors of random outputs. Eager and compiled calls draw the same numbers here.

        The measured code draws other random numbers, so the first launch of a cell compiles once more, after its
        measurement. `found` stays as it is if it is None or eager calls with equal seeds differ.
        """
        if found is None or not self._random or self._assign.round:
            return found

        def seeded() -> object:
            torch.manual_seed(self._assign.cell.seed)
            return call()

        self._stage.enter(Phase.COMPILE)
        with self._stage.timed("compile"):
            torch.compiler.reset()
            with torch.compiler.set_stance("force_eager"):
                expected, again = _values(seeded()), _values(seeded())
            if not _is_same(expected, again, training=module.training):
                return found
            with sys.modules["torch._inductor"].config.patch(fallback_random=True):
                self._compile(module)
                return msgspec.structs.replace(found, **output_errors(expected, _replayed(seeded)))

    def _compile(self, module: torch.nn.Module) -> None:
        cell = self._assign.cell
        module.compile(mode=cell.compile_mode.value, dynamic=cell.dynamic_shapes or None)


def use_caches(folder: Path, *, cold: bool) -> bool:
    """Direct all caches of the compiler to `folder`, emptied first if cold. Returns whether a launch has filled it.

    Kernels are then compiled in this process, unless use_workers is called.
    """
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    cached = folder.is_dir()
    importlib.import_module("worker.inductor_ahead")  # takes a second that must not count as compile time
    redirect_caches(folder)
    return cached


def redirect_caches(folder: Path) -> None:
    """Let Inductor and Triton read and write their caches in `folder` only. Imports neither."""
    for variable, name in _CACHES.items():
        os.environ[variable] = str(folder / name)
    _redirect_headers(folder)


def _redirect_headers(folder: Path) -> None:
    """Keep precompiled headers in `folder`. Torch shares them between all processes: 8 s of a cold compilation.

    Their place is known when Inductor is imported. If it is not, code that compiles itself goes without such headers.
    """
    codecache = sys.modules.get("torch._inductor.codecache")
    config: Any = sys.modules.get("torch._inductor.config")
    if codecache is not None:
        headers = folder / "headers"
        vars(codecache).update(_HEADER_DIR=str(headers), _HEADER_LOCK_DIR=str(headers / "locks"))
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = str(int(codecache is not None))
    if config is not None:
        config.cpp_cache_precompile_headers = codecache is not None


def use_workers() -> None:
    """Let a pool of processes, one for each core, compile kernels. The start of the pool pays off for models only."""
    config: Any = sys.modules["torch._inductor.config"]
    config.compile_threads = config.decide_compile_threads()


def graphs() -> int:
    """Return the number of graphs that TorchDynamo has made in this process."""
    if "torch._dynamo" not in sys.modules:
        return 0
    return int(sys.modules["torch._dynamo"].utils.counters["stats"]["unique_graphs"])


def measured_ms() -> float:
    """Return the milliseconds that TorchDynamo and its backend took to compile everything so far."""
    metrics = sys.modules["torch._dynamo"].utils.get_compilation_metrics()
    return sum(one.duration_us or 0 for one in metrics) / 1e3


def _replayed(call: Callable[[], object]) -> torch.Tensor:
    """Return the output values that measured calls have: those of the last of _REPLAYED calls."""
    for _ in range(_REPLAYED - 1):
        call()
    return _values(call())


def _values(returned: object) -> torch.Tensor:
    """All floating-point outputs as one vector of doubles on the host."""
    tensors = [one for one in outputs.tensors(returned) if one.is_floating_point()]
    return torch.cat([one.detach().double().cpu().flatten() for one in tensors]) if tensors else torch.empty(0)


def _is_same(one: torch.Tensor, other: torch.Tensor, *, training: bool) -> bool:
    """Whether two eager calls agree within rounding.

    Random numbers change outputs by much more than rounding in bf16 does, and a loss by more than rounding in fp32.
    """
    limit = 1e-4 if training else 1e-2
    return one.shape == other.shape and output_errors(one, other).get("relative_error", 0.0) <= limit


def output_errors(expected: torch.Tensor, found: torch.Tensor) -> dict[str, float]:
    """Return the errors of `found` by their fields of Compilation. Raises UnsuitableModelError if the sizes differ.

    Returns {} for outputs without numbers. Equal infinities are no error, because a model may mask with them. Another
    infinity or NaN counts as the largest error there is.
    """
    if expected.shape != found.shape:
        raise UnsuitableModelError(
            f"the compiled model returns {len(found)} numbers, the eager one {len(expected)}. Measure it with "
            "--compile eager"
        )
    if not expected.numel():
        return {}
    absolute = _finite(torch.where(found == expected, 0.0, (found - expected).abs()).max().item())
    largest = torch.where(expected.isfinite(), expected.abs(), 0.0).max().item()
    both = expected.isfinite() & found.isfinite()
    similarity = torch.nn.functional.cosine_similarity(expected[both], found[both], dim=0).item()
    return {
        "absolute_error": absolute,
        "relative_error": _finite(absolute / largest) if largest else absolute,
        "cosine_distance": max(1 - similarity, 0.0),
    }


def _finite(error: float) -> float:
    """Return the error, or the largest float for infinity and NaN, because a result cannot hold these."""
    return error if error <= sys.float_info.max else sys.float_info.max


class Log(logging.Handler):
    """Counts graph breaks and recompilations in TorchDynamo's log, by the user's line and the reason.

    limited: TorchDynamo reached its limit of compiled variants of a function, and runs further variants eager.
    """

    def __init__(self) -> None:
        super().__init__()
        self.graph_breaks: Counter[str] = Counter()
        self.recompilations: Counter[str] = Counter()
        self.limited = False

    def attach(self) -> None:
        """Listen to TorchDynamo's log from now on."""
        set_logs(graph_breaks=True, recompiles=True)
        for logger in _loggers():
            logger.addHandler(self)

    def detach(self) -> None:
        """Stop listening to TorchDynamo's log."""
        for logger in _loggers():
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one message of TorchDynamo's log, and note a reached limit."""
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
    """Return the line of a log message that has the reason: the second, if any, because the first is general."""
    return (lines[1:] or lines or ["unknown"])[0].removeprefix("- ")[:300]
