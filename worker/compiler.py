"""torch.compile as a phase of a launch: private caches, what was compiled, and how far the outputs are from eager.

    eager call │ caches of this cell │ first compiled call: the time to compile │ WARM_UP

The first launch of a cell finds its caches empty (cold); the later ones use what it filled (cached).
"""

import importlib
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

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
_LOGS: Final = ("__graph_breaks", "__recompiles")
_PLACE: Final = re.compile(r"in user code at (\S+:\d+)|Recompiling function \S+ in (\S+:\d+)")
_MOST: Final = 20
"""Graph breaks and recompilations that a result keeps."""


class Compiler:
    """Compilation of a launch's model; does nothing for an eager cell. Enters Phase.WARM_UP at its end, or at once."""

    def __init__(self, assign: Assign, stage: Stage, device: torch.device) -> None:
        self._assign, self._stage, self._device = assign, stage, device
        self._compiles = assign.cell.compiles
        self._log = _Log()
        self._facts = Compilation()
        stage.enter(Phase.COMPILE if self._compiles else Phase.WARM_UP)

    def compile(self, module: torch.nn.Module, call: Callable[[], object]) -> None:
        """Compile the module in place by its first `call`, which returns outputs.

        Raises UnsuitableModelError where torch.compile finds nothing to compile.
        """
        if not self._compiles:
            return
        cell = self._assign.cell
        with self._stage.timed("compile"):
            expected = _values(call())
            cached = use_caches(Path(self._assign.compiler_caches), cold=self._assign.round == 0)
            use_workers()
            self._log.attach()
            module.compile(mode=cell.compile_mode.value, dynamic=cell.dynamic_shapes or None)
            begin_ns = time.monotonic_ns()
            returned = call()
            devices.synchronize(self._device)
            first_call_ms = (time.monotonic_ns() - begin_ns) / 1e6
            if not _graphs():
                raise UnsuitableModelError(
                    f"torch.compile found nothing to compile in {self._assign.model.name}. Its loss may call parts of "
                    "the model instead of the model. Measure it with --compile eager"
                )
            compile_ms = measured_ms()
            random = module.training and _drops(module)
            errors = _Errors() if random else _errors(expected, _values(returned))
        self._facts = Compilation(
            cached=cached,
            compile_ms=compile_ms,
            first_call_ms=first_call_ms,
            absolute_error=errors.absolute,
            relative_error=errors.relative,
            cosine_distance=errors.cosine,
        )
        self._stage.enter(Phase.WARM_UP)

    def compilation(self) -> Compilation | None:
        """What was compiled until now; of an eager cell, what the model's own code has compiled, None for nothing."""
        graphs = _graphs()
        if not self._compiles and not graphs:
            return None
        return msgspec.structs.replace(
            self._facts,
            own=not self._compiles,
            graphs=graphs,
            graph_breaks=tuple(self._log.graph_breaks)[:_MOST],
            recompilations=tuple(self._log.recompilations)[:_MOST],
        )


def use_caches(folder: Path, *, cold: bool) -> bool:
    """Direct all caches of the compiler to `folder`, emptied first if cold. Returns whether it holds anything.

    Kernels are compiled in this process (use_workers).
    """
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    cached = folder.is_dir()
    for variable, name in _CACHES.items():
        os.environ[variable] = str(folder / name)
    importlib.import_module("worker.inductor_ahead")  # takes a second, which is no time to compile
    return cached


def use_workers() -> None:
    """Have a pool of processes compile kernels, one a core: worth its start for a model, not for an operator."""
    config: Any = sys.modules["torch._inductor.config"]
    config.compile_threads = config.decide_compile_threads()


def _graphs() -> int:
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


def _drops(module: torch.nn.Module) -> bool:
    """Whether dropout makes the outputs random."""
    return any(isinstance(one, torch.nn.modules.dropout._DropoutNd) and one.p > 0 for one in module.modules())


class _Errors(NamedTuple):
    """Errors as in Compilation; None where there is nothing to compare."""

    absolute: float | None = None
    relative: float | None = None
    cosine: float | None = None


def _errors(expected: torch.Tensor, found: torch.Tensor) -> _Errors:
    if not expected.numel() or expected.shape != found.shape:
        return _Errors()
    absolute, largest = (found - expected).abs().max().item(), expected.abs().max().item()
    similarity = torch.nn.functional.cosine_similarity(expected, found, dim=0).item()
    return _Errors(absolute, absolute / largest if largest else absolute, max(1 - similarity, 0.0))


class _Log(logging.Handler):
    """Graph breaks and recompilations that TorchDynamo logs, each once, with the user's line and the reason."""

    def __init__(self) -> None:
        super().__init__()
        self.graph_breaks: dict[str, None] = {}
        self.recompilations: dict[str, None] = {}

    def attach(self) -> None:
        """Listen from now on."""
        set_logs(graph_breaks=True, recompiles=True)
        for name in tuple(logging.root.manager.loggerDict):
            if name.endswith(_LOGS):
                logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message of TorchDynamo's log."""
        lines = [line.strip() for line in record.getMessage().splitlines() if line.strip()]
        place = _PLACE.search(lines[0]) if lines else None
        if place is None:
            return
        into = self.recompilations if record.name.endswith("__recompiles") else self.graph_breaks
        into[f"{place[1] or place[2]}: {_reason(lines[1:])}"] = None


def _reason(lines: list[str]) -> str:
    """The line that says why: behind the general sentence of a graph break, or the first failed guard."""
    return (lines[1:] or lines or ["unknown"])[0].removeprefix("- ")[:300]
