"""Greedy generation of text after a prompt, token by token, with a KV cache.

    prompt ── prefill ──▶ token ── decode ──▶ token ── decode ──▶ … new_tokens of them
           first_token         inter_token         inter_token

Every token is read back to the host before the next is requested, as in streaming, so that the host's clock times it.
An iteration is the whole text. End-of-text tokens are ignored, so that all texts are equally long.
"""

from itertools import pairwise
from time import perf_counter_ns  # bound before a model's code can replace it
from typing import cast

import torch

from protocol.cell import Cell
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from worker import devices, outputs
from worker.errors import UnsuitableModelError
from worker.measure import Work
from worker.models.base import Writer
from worker.stage import Stage
from worker.timing import HostClock
from worker.workloads import common


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell.

    isolation: "fork" or "exec", for the result. Raises UnsuitableModelError if the model cannot generate text,
    NotFiniteError if the last logits contain NaN or infinity, and ValueError for less than one new token.
    """
    family = common.family_of(assign, stage)
    if not hasattr(family, "prefill"):
        raise UnsuitableModelError(
            f"model {assign.model.name!r} cannot generate: family {assign.model.family!r} has no prefill and decode"
        )
    device, module = common.opened(family, assign, stage, training=False)
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("build"):
            dtype = devices.weights_type(assign.cell.precision, training=False)
            batch = common.make_batch(family, assign, device, dtype)
        author = _Author(cast(Writer, family), module, batch[assign.model.inputs[0].name], assign.cell)
        work = Work({"iteration": author.write})
        measurements = common.warm_up_and_measure(work, assign, stage, device, HostClock())
    assert author.logits is not None
    with stage.timed("count"):
        outputs.require_finite(author.logits, infinite=False)
    texts, tokens = author.measured(measurements)
    return Result(
        **common.fields(
            measurements,
            module,
            assign,
            stage,
            isolation=isolation,
            items=assign.cell.batch_size,
            series={
                "first_token": [(text[1] - text[0]) / 1e6 for text in texts],
                "inter_token": [(after - before) / 1e6 for text in texts for before, after in pairwise(text[1:])],
            },
        ),
        generated_tokens=tokens,
    )


class _Author:
    """Generator of one batch of texts, again and again. tokens: number in each batch. logits: of the last token."""

    def __init__(self, writer: Writer, module: torch.nn.Module, prompt: torch.Tensor, cell: Cell) -> None:
        if cell.new_tokens is None or cell.new_tokens < 1:
            raise ValueError(f"cell {cell.id}: generation needs at least one new token, got {cell.new_tokens}")
        self._writer = writer
        self._module = module
        self._prompt = prompt
        self._further = range(cell.new_tokens - 1)
        self._texts_ns: list[list[int]] = []
        self.tokens: list[int] = []
        self.logits: torch.Tensor | None = None

    def write(self) -> None:
        self.logits = None
        self.tokens.append(0)
        self._texts_ns.append([perf_counter_ns()])
        logits, cache = self._writer.prefill(self._module, self._prompt)
        tokens = self._read(logits)
        for _ in self._further:
            logits, cache = self._writer.decode(self._module, tokens, cache)
            tokens = self._read(logits)
        self.logits = logits

    def _read(self, logits: torch.Tensor) -> torch.Tensor:
        tokens = logits.argmax(-1, keepdim=True)  # (batch, 1), read on the host
        self.tokens[-1] += len(tokens.tolist())
        self._texts_ns[-1].append(perf_counter_ns())
        return tokens

    def measured(self, measurements: common.Measurements) -> tuple[list[list[int]], int]:
        """Return the times of each measured batch, and the number of all tokens in these batches.

        The times are points in nanoseconds of the host's perf_counter_ns: the start of the batch, then the arrival of
        each token. measurements: how many iterations were measured, and how many followed in the load window. They
        select the measured batches, because an iteration writes one batch.
        """
        end = len(self.tokens) - (measurements.load.iterations if measurements.load else 0)
        begin = end - sum(block.iterations for block in measurements.measured.blocks)
        return self._texts_ns[begin:end], sum(self.tokens[begin:end])
