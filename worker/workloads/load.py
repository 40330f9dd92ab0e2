"""Load: the time until a model is ready on its device.

    instantiate: build the module on the CPU, in the cell's precision, a user's own model with its initial weights,
                 others without random weights (worker/blank.py)
    weights:     read its weights from a safetensors file
    to_device:   copy it to the device, in the cell's memory format, and wait for the device

The file exists before the clock starts and is read from the page cache, so that no disk is measured. The first load of
the process is the warm-up's first iteration and the ledger's `load`. The series hold at least three repetitions (one
if the profile has `give_up`). `-i` and `-w` have no effect.
"""

import gc
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import msgspec
import torch
from safetensors.torch import load_model, save_model

from protocol.cell import slug
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result, SteadyState, WarmUp
from worker import devices, measure, memory
from worker.blank import Blank
from worker.errors import NotBuiltError, UnsuitableModelError
from worker.measure import Work
from worker.models import registry
from worker.models.base import Family
from worker.stage import Stage
from worker.stopping import LEAST_ITERATIONS
from worker.timing import HostClock
from worker.workloads import common

_LEAST_IN_HASTE: Final = 1  # repetitions in a profile that gives up early
_BUILDERS: Final = Path(registry.__file__).parent
# Errors that explain themselves.
_NOT_OF_WEIGHTS: Final = (NotBuiltError, UnsuitableModelError, MemoryError, torch.cuda.OutOfMemoryError, OSError)


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the load time of the cell's model.

    isolation: "fork" or "exec", for the result. Raises UnsuitableModelError if the weights of the user's own model
    cannot be saved to a file and loaded from it.
    """
    with stage.timed("import"):
        family = registry.family(assign.model)
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    with stage.timed("build"):
        with _loading_alone(assign):
            loading = _Loading(family, assign, device)
            loading.make_file()
        loading.drop()  # the cold load finds the device's memory empty, whether or not the file was there
    memory.reset_peaks(device)
    memory.reset_resident()
    work = Work(
        {"instantiate": loading.instantiate, "weights": loading.weights, "to_device": loading.to_device},
        prepare=loading.drop,
        one_by_one=True,
        least=_LEAST_IN_HASTE if assign.measurement.give_up else LEAST_ITERATIONS,
    )
    clock = HostClock()
    stage.enter(Phase.WARM_UP)
    with stage.timed("load"), _loading_alone(assign):
        first_ms = work.block(clock, 1).wall_ms
    cold = memory.peaks(device)
    memory.reset_peaks(device)
    repeated = msgspec.structs.replace(assign.measurement, iterations=None)
    measured = measure.measured(work, clock, repeated, stage, first_ms)
    warm_up = WarmUp(
        steady_state=SteadyState.NOT_SOUGHT, iterations=1, first_iteration_ms=first_ms, second_iteration_ms=None
    )
    measurements = common.Measurements(warm_up, measured, cold, memory.peaks(device), memory.resident_peak())
    return Result(**common.fields(measurements, loading.module, assign, stage, isolation=isolation, items=1))


@contextmanager
def _loading_alone(assign: Assign) -> Iterator[None]:
    """Convert errors of saving or loading in the `with` body to UnsuitableModelError if the model is the user's own."""
    try:
        yield
    except Exception as error:
        if assign.model.own is None or isinstance(error, _NOT_OF_WEIGHTS):
            raise
        lines = str(error).strip().splitlines() or [""]
        raise UnsuitableModelError(
            f"the weights of {assign.model.name} cannot be saved to a safetensors file and loaded from it "
            f"({type(error).__name__}: {lines[0]}). Measure its other phases with --phases inference,training"
        ) from error


class _Loading:
    def __init__(self, family: Family, assign: Assign, device: torch.device) -> None:
        self._family = family
        self._spec = assign.model
        self._cell = assign.cell
        self._device = device
        self._dtype = devices.weights_type(assign.cell.precision, training=False)
        structure = getattr(family, "structure", None)
        self._file = Path(assign.cache_folder) / weights_name(assign, "" if structure is None else structure())
        self.module: torch.nn.Module = torch.nn.Identity()

    def make_file(self) -> None:
        """Write the file of weights, unless it exists. If several launches write it at once, the last one remains."""
        if self._file.exists():
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}.tmp")
        try:
            # On a GPU torch lays an LSTM's weights out as views of one buffer, which safetensors refuses to save.
            save_model(self._built(self._device).cpu(), str(temporary))
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(self._file)
        finally:
            temporary.unlink(missing_ok=True)

    def instantiate(self) -> None:
        with nullcontext() if self._spec.own else Blank():
            self.module = self._built(torch.device("cpu"))

    def _built(self, device: torch.device) -> torch.nn.Module:
        return common.cast(common.serving(self._family)(self._spec, device, self._cell.input_size), self._dtype)

    def weights(self) -> None:
        load_model(self.module, self._file)

    def to_device(self) -> None:
        common.placed(self.module, self._cell, self._device)
        devices.synchronize(self._device)

    def drop(self) -> None:
        self.module = torch.nn.Identity()
        gc.collect()
        memory.release_cached(self._device)


def weights_name(assign: Assign, structure: str) -> str:
    """Return the file name of the weights: the model's name, and a hash of what decides their names, shapes and types.

    The hash covers the ModelSpec, `structure`, the Python files of worker/models, the input size, the precision, and
    the versions of torch, torchvision and transformers. It does not cover the seed. structure: result of Own.structure
    for the user's own model, otherwise "".
    """
    versions = (str(torch.__version__), devices.installed("torchvision"), devices.installed("transformers"))
    code = hashlib.sha256(b"".join(module.read_bytes() for module in sorted(_BUILDERS.glob("*.py")))).hexdigest()
    cell = assign.cell
    identity = msgspec.json.encode((assign.model, structure, code, cell.input_size, cell.precision, versions))
    return f"{slug(assign.model.name)}-{hashlib.sha256(identity).hexdigest()[:16]}.safetensors"
