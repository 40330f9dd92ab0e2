"""torch.compile as a phase of a launch: caches of the cell, compile time, and errors of the outputs.

    eager calls │ set the caches │ first compiled call, whose compile time counts │ WARM_UP │ MEASURE │ random outputs

Every launch of a cell in round 0 starts with empty caches (cold); later rounds use the caches that it filled (cached).
Compiled outputs are compared with eager ones. Random outputs, such as losses with dropout, are compared at the end, and
only in round 0, because their comparison needs another compilation.
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
"""Number of the call that first replays a CUDA graph. With reduce-overhead, call 1 warms up and call 2 records."""
MOST: Final = 20
"""Largest number of graph breaks, and of recompilations, in a result. The first ones are kept."""


class Compiler:
    """Compiles a launch's model. Its constructor enters Phase.COMPILE, or Phase.WARM_UP in an eager cell."""

    def __init__(self, assign: Assign, stage: Stage, device: torch.device) -> None:
        self._assign, self._stage, self._device = assign, stage, device
        self._compiles = assign.cell.compiles
        self._log = Log()
        self._random = False
        self._facts = Compilation()
        stage.enter(Phase.COMPILE if self._compiles else Phase.WARM_UP)

    def compile(self, module: torch.nn.Module, call: Callable[[], object]) -> None:
        """Compile the module in place, then enter Phase.WARM_UP. Does nothing in an eager cell.

        call: runs one iteration with the module and returns outputs or losses. It is called several times, first eager.
        Raises UnsuitableModelError if nothing can be compiled, or if compiled and eager outputs differ in size.
        """
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
        """Return facts of all compilations so far; None if an eager cell's model has not compiled anything itself."""
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
        self, result: Compilation | None, module: torch.nn.Module, call: Callable[[], object]
    ) -> Compilation | None:
        """Return `result`, which `compilation` returned, with the differences of random outputs from eager ones.

        call: as in `compile`. Compiles once more, in a mode in which compiled and eager calls draw the same random
        numbers. Returns `result` unchanged if it is None, in later rounds of the cell, if outputs are not random, or
        if eager calls with equal seeds differ.
        """
        if result is None or not self._random or self._assign.round:
            return result

        def seeded() -> object:
            torch.manual_seed(self._assign.cell.seed)
            return call()

        self._stage.enter(Phase.COMPILE)
        with self._stage.timed("compile"):
            torch.compiler.reset()
            with torch.compiler.set_stance("force_eager"):
                expected, again = _values(seeded()), _values(seeded())
            if not _is_same(expected, again, training=module.training):
                return result
            with sys.modules["torch._inductor"].config.patch(fallback_random=True):
                self._compile(module)
                return msgspec.structs.replace(result, **output_errors(expected, _replayed(seeded)))

    def _compile(self, module: torch.nn.Module) -> None:
        cell = self._assign.cell
        module.compile(mode=cell.compile_mode.value, dynamic=cell.dynamic_shapes or None)


def use_caches(folder: Path, *, cold: bool) -> bool:
    """Direct all caches of the compiler to `folder`. Returns True if the folder existed already (cached).

    cold: delete the folder first, which makes the result False. Imports Inductor, which then compiles kernels in this
    process unless use_workers is called.
    """
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    cached = folder.is_dir()
    importlib.import_module("worker.inductor_ahead")  # takes a second that must not count as compile time
    redirect_caches(folder)
    return cached


def redirect_caches(folder: Path) -> None:
    """Let Inductor and Triton keep their caches in `folder` only, by environment variables. Imports neither of them."""
    for variable, name in _CACHES.items():
        os.environ[variable] = str(folder / name)
    _redirect_headers(folder)


def _redirect_headers(folder: Path) -> None:
    """Keep Inductor's precompiled C++ headers in `folder`, or disable them if Inductor is not imported yet."""
    codecache = sys.modules.get("torch._inductor.codecache")
    config: Any = sys.modules.get("torch._inductor.config")
    if codecache is not None:
        headers = folder / "headers"
        vars(codecache).update(_HEADER_DIR=str(headers), _HEADER_LOCK_DIR=str(headers / "locks"))
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = str(int(codecache is not None))
    if config is not None:
        config.cpp_cache_precompile_headers = codecache is not None


def use_workers() -> None:
    """Compile kernels in a pool of processes: one a core, at most 32. Its start takes long. Call use_caches first."""
    config: Any = sys.modules["torch._inductor.config"]
    config.compile_threads = config.decide_compile_threads()


def graphs() -> int:
    """Return the number of graphs that TorchDynamo has compiled in this process; 0 if it is not imported."""
    if "torch._dynamo" not in sys.modules:
        return 0
    return int(sys.modules["torch._dynamo"].utils.counters["stats"]["unique_graphs"])


def measured_ms() -> float:
    """Return the compile time in ms of TorchDynamo and its backend so far. TorchDynamo must be imported already."""
    metrics = sys.modules["torch._dynamo"].utils.get_compilation_metrics()
    return sum(one.duration_us or 0 for one in metrics) / 1e3


def _replayed(call: Callable[[], object]) -> torch.Tensor:
    """Run `call` _REPLAYED times, so that CUDA graphs replay. Returns the last outputs as one vector (see _values)."""
    for _ in range(_REPLAYED - 1):
        call()
    return _values(call())


def _values(returned: object) -> torch.Tensor:
    """Return all floating-point outputs as one vector of doubles on the host. returned: outputs in any nesting."""
    tensors = [one for one in outputs.tensors(returned) if one.is_floating_point()]
    return torch.cat([one.detach().double().cpu().flatten() for one in tensors]) if tensors else torch.empty(0)


def _is_same(one: torch.Tensor, other: torch.Tensor, *, training: bool) -> bool:
    """Whether shapes are equal and `other` differs from `one` by at most 1e-2 of the largest absolute value in `one`.

    training: both are losses, for which the limit is 1e-4. Rounding errors of outputs in bf16 and of losses in fp32 are
    below these limits. Random numbers differ by more.
    """
    limit = 1e-4 if training else 1e-2
    return one.shape == other.shape and output_errors(one, other).get("relative_error", 0.0) <= limit


def output_errors(expected: torch.Tensor, actual: torch.Tensor) -> dict[str, float]:
    """Compare the vector `actual` with `expected`. Returns fields of Compilation by name; {} for empty vectors.

    absolute_error: largest difference. relative_error: this, divided by the largest finite absolute value in `expected`
    unless that is 0. cosine_distance: 1 - cosine similarity. Equal infinities are no error; any other infinity or NaN
    makes absolute_error the largest float. Raises UnsuitableModelError if the lengths differ.
    """
    if expected.shape != actual.shape:
        raise UnsuitableModelError(
            f"the compiled model returns {len(actual)} numbers, the eager one {len(expected)}. Measure it with "
            "--compile eager"
        )
    if not expected.numel():
        return {}
    absolute = _finite(torch.where(actual == expected, 0.0, (actual - expected).abs()).max().item())
    largest = torch.where(expected.isfinite(), expected.abs(), 0.0).max().item()
    both = expected.isfinite() & actual.isfinite()
    similarity = torch.nn.functional.cosine_similarity(expected[both], actual[both], dim=0).item()
    return {
        "absolute_error": absolute,
        "relative_error": _finite(absolute / largest) if largest else absolute,
        "cosine_distance": max(1 - similarity, 0.0) if absolute else 0.0,  # without a direction, as zeros, it is 1
    }


def _finite(error: float) -> float:
    """Return the error, or the largest float in place of infinity and NaN, which no result can hold."""
    return error if error <= sys.float_info.max else sys.float_info.max


class Log(logging.Handler):
    """Handler of TorchDynamo's log that counts graph breaks and recompilations.

    graph_breaks, recompilations: "file:line: reason" → number of messages. limited: TorchDynamo reached its limit of
    compiled variants of a function, and runs calls that need another one in eager mode.
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
        """Count the graph break or recompilation that a message reports. Other messages are ignored.

        A message that TorchDynamo reached its limit of compiled variants sets `limited`.
        """
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
    """Return why TorchDynamo broke the graph or recompiled; "unknown" without lines. lines: its message from line 2."""
    return (lines[1:] or lines or ["unknown"])[0].removeprefix("- ")[:300]
