"""Trials of a model with changing input sizes, compiled static, dynamic and padded.

    for each way (ShapeWay):  empty caches │ compile │ call with each size _CALLS times, in one random order

A trial ends in a ShapeTrial (protocol/result.py): size and time of each call and whether it compiled, or an error. If
the eager model fails with one of the sizes, nothing is compiled, and each of the three results has that error.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from msgspec.structs import replace

from protocol.failure import Phase
from protocol.messages import Assign, ChangingShapes
from protocol.result import ShapeCall, ShapeTrial, ShapeWay
from worker import compiler, devices, memory
from worker.exception_categories import one_line
from worker.models.base import Batch
from worker.stage import Stage

_CALLS: Final = 4
"""Number of calls with each size. The first of them may compile."""


class Trials:
    """Trials of one launch: the model `module` is compiled in each ShapeWay and called with inputs of each size.

    batch_of: makes inputs of a given size (ChangingShapes.sizes). forward: calls `module`, compiled or not.
    """

    def __init__(
        self,
        assign: Assign,
        stage: Stage,
        module: torch.nn.Module,
        batch_of: Callable[[int], Batch],
        forward: Callable[[Batch], object],
    ) -> None:
        self._assign, self._stage, self._module = assign, stage, module
        self._batch_of, self._forward = batch_of, forward
        self._device = torch.device(assign.device.kind)

    def run(self, shapes: ChangingShapes) -> tuple[ShapeTrial, ...]:
        """Compile and call the model in each ShapeWay. Returns one ShapeTrial for each way, in the order of ShapeWay.

        An error of the model is text in its ShapeTrial. CUDA errors of the device are raised.
        """
        with self._stage.timed("compile"):
            self._stage.enter(Phase.COMPILE)
            refusal = self._refusal(shapes)
            devices.synchronize(self._device)  # an error of the device is no refusal of the model
            if refusal:
                return tuple(ShapeTrial(way=way, error=refusal) for way in ShapeWay)
            return tuple(self._trial(way, shapes) for way in ShapeWay)

    def _refusal(self, shapes: ChangingShapes) -> str:
        """Return why these sizes cannot be tried, such as "size 8: ValueError: …", from eager calls; "" if they can."""
        found = set()
        for size in shapes.sizes:
            try:
                batch = self._batch_of(size)
                with torch.compiler.set_stance("force_eager"):
                    self._forward(batch)
            except Exception as error:  # noqa: BLE001 - a model may refuse a size by any exception
                return f"size {size}: {one_line(error)}"
            found.add(tuple(tensor.shape for tensor in batch.values()))
        return "" if len(found) == len(shapes.sizes) else "the inputs of this model have one size"

    def _trial(self, way: ShapeWay, shapes: ChangingShapes) -> ShapeTrial:
        memory.release_cached(self._device)
        torch.compiler.reset()
        compiler.use_caches(Path(self._assign.compiler_caches) / way, cold=True)
        self._module.compile(mode=self._assign.cell.compile_mode.value, dynamic=way is ShapeWay.DYNAMIC)
        log = compiler.Log()
        log.attach()
        try:
            trial = self._met(way, shapes)
        except Exception as error:  # noqa: BLE001 - the measurement and the other ways stand
            trial = ShapeTrial(way=way, error=one_line(error))
        finally:
            log.detach()
        devices.synchronize(self._device)  # an error of the device is not the model's
        return replace(
            trial,
            recompilations=sum(log.recompilations.values()),
            reasons=tuple(log.recompilations)[: compiler.MOST],
            limited=log.limited,
        )

    def _met(self, way: ShapeWay, shapes: ChangingShapes) -> ShapeTrial:
        bucket = shapes.bucket if way is ShapeWay.PADDED else 1
        batches = {size: self._batch_of(size) for size in shapes.sizes}
        padded = {size: self._batch_of(-(-size // bucket) * bucket) for size in shapes.sizes}
        order = list(shapes.sizes) * _CALLS
        random.Random(self._assign.cell.seed).shuffle(order)
        calls: list[ShapeCall] = []
        for size in order:
            if all(call.size != size for call in calls):
                self._stage.enter(Phase.COMPILE)  # it may compile, within a deadline of its own
            calls.append(self._call(size, batches[size], padded[size]))
        return ShapeTrial(
            way=way,
            calls=tuple(calls),
            elements=sum(_elements(batches[size]) for size in order),
            padded_elements=sum(_elements(padded[size]) for size in order),
        )

    def _call(self, size: int, batch: Batch, padded: Batch) -> ShapeCall:
        graphs = compiler.graphs()
        devices.synchronize(self._device)
        begin_ns = time.monotonic_ns()
        self._forward({name: _padded(tensor, padded[name].shape) for name, tensor in batch.items()})
        devices.synchronize(self._device)
        ms = (time.monotonic_ns() - begin_ns) / 1e6
        return ShapeCall(size=size, ms=ms, compiled=compiler.graphs() > graphs)


def _padded(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return the tensor padded to `shape` with zeros at the end of each dimension."""
    if tensor.shape == shape:
        return tensor
    widths = [(0, wanted - length) for length, wanted in zip(tensor.shape, shape, strict=True)]
    return torch.nn.functional.pad(tensor, [width for both in reversed(widths) for width in both])


def _elements(batch: Batch) -> int:
    return sum(tensor.numel() for tensor in batch.values())
