"""Verification of every matrix product of a burn-in launch. Within a block, nothing waits for the device.

    block:    make product 0 → verify it → make product 1 → verify it → …     each has an output tensor of its own
    between:  read the verdict of each product (one number, products.py), and examine wrong outputs

The next block writes to the same outputs. Before that, a wrong output is read again where it was written. An output
never gets the same product twice in a row, because a write that did not happen would look right.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import Final

import msgspec
import torch

from protocol.failure import Phase
from protocol.messages import Assign
from protocol.verification import WARMING_UP, Verification
from worker import timing
from worker.measure import Work
from worker.stage import Stage
from worker.timing import Clock, TimedBlock
from worker.verify import evidence
from worker.verify.flips import Flips
from worker.verify.kept import Kept
from worker.verify.products import Products, flops, outputs_for

_BEFORE: Final = ", before warming up"
_COSTED: Final = 5
"""Number of products that are timed before the warm-up; fewer if there are fewer outputs."""


@dataclass(frozen=True)
class _Made:
    """A product of the current block. number: index in the launch. pair: of operands. iteration: index in the phase."""

    number: int
    pair: int
    iteration: int


class Watch:
    """Multiplies matrices, verifies the products, and keeps the mismatches. outputs: tensors for a block's products."""

    def __init__(self, products: Products, assign: Assign, stage: Stage) -> None:
        self._products, self._assign, self._stage = products, assign, stage
        first = products.empty()
        count = outputs_for(first.nbytes, first.device)
        self.outputs = [first, *(products.empty() for _ in range(count - 1))]
        self._verdicts = torch.zeros(count, dtype=torch.int64, device=first.device)
        self._held: list[int | None] = [None] * count
        self._flips = Flips(assign, first)
        self._strike_at: int | None = None
        self._made: list[_Made] = []
        self._number = 0
        self._done = {Phase.WARM_UP: 0, Phase.MEASURE: 0}
        self._measuring_since: float | None = None
        self._kept = Kept(stage)
        for pair, verdict, output in products.odd:
            self._wrong(_Made(0, pair, 0), output, verdict=verdict, when=_BEFORE)

    def begin(self, iterations: int) -> None:
        """Start a block of `iterations` products. Raises ValueError if these are more than there are `outputs`.

        A requested fault hits the middle product of the first block that ends in the measurement's second half.
        """
        if iterations > len(self.outputs):
            raise ValueError(f"a block of {iterations} products, with {len(self.outputs)} outputs to keep them in")
        self._verdicts.zero_()
        self._made = []
        self._strike_at = iterations // 2 if self._flips.wanted and self._is_middle(iterations) else None

    def step(self) -> None:
        """Make one product and enqueue its verification, which `look` reads. Does not wait for the device."""
        self._make()
        self._judge()

    def look(self) -> None:
        """Read the verdicts of the finished block, and count its mismatches. Waits for the device.

        The first KEPT_MISMATCHES of a launch are also examined and kept.
        """
        phase = self._stage.phase
        for slot, verdict in enumerate(self._verdicts[: len(self._made)].tolist()):
            made = self._made[slot]
            if verdict != self._products.verdict(made.pair):
                when = WARMING_UP if phase is Phase.WARM_UP else ""
                self._wrong(made, self.outputs[slot], verdict=verdict, when=when)
        self._done[phase] += len(self._made)

    def end(self) -> None:
        """After the last block: if a requested fault was not injected yet, make and verify one more product with it."""
        if self._flips.wanted:
            self.begin(1)
            self.step()
            self.look()

    def verification(self, key: tuple[str, ...], method: str) -> Verification:
        """Return digests, counts (`checks`: all products) and kept mismatches. key, method: fields of Verification."""
        return Verification(
            key=key,
            digests=self._products.digests,
            method=method,
            checks=self._number,
            operations=self._number * flops(self._products.side),
            mismatches=self._kept.count,
            kept=self._kept.all,
            not_tested=self._products.not_tested,
        )

    def cost(self, clock: Clock) -> float:
        """Time a few products. Returns verification's share of the median time to make and verify one, 0 to 1."""
        self._timed(clock, 1)  # the first product loads libraries
        spans_ms = self._timed(clock, min(_COSTED, len(self.outputs))).spans_ms
        make_ms, judge_ms = median(spans_ms[::2]), median(spans_ms[1::2])
        return judge_ms / (make_ms + judge_ms)

    def _timed(self, clock: Clock, products: int) -> TimedBlock:
        self.begin(products)
        block = timing.time_block(clock, (self._make, self._judge), products)
        self.look()
        return block

    def _make(self) -> None:
        slot = len(self._made)
        pair = self._number % self._products.pairs
        if pair == self._held[slot]:
            pair = (pair + 1) % self._products.pairs
        output = self.outputs[slot]
        self._products.make(pair, output)
        if self._flips.stuck or slot == self._strike_at:
            self._flips.strike(output)
        self._held[slot] = pair
        self._made.append(_Made(self._number, pair, self._done[self._stage.phase] + slot))
        self._number += 1

    def _judge(self) -> None:
        slot, made = len(self._made) - 1, self._made[-1]
        self._products.judge(made.number, made.pair, self.outputs[slot], self._verdicts, slot)

    def _is_middle(self, iterations: int) -> bool:
        limits = self._assign.measurement
        if self._stage.phase is not Phase.MEASURE:
            return False
        if limits.iterations is not None:
            return 2 * (self._done[Phase.MEASURE] + iterations) >= limits.iterations
        now = time.monotonic()
        self._measuring_since = self._measuring_since or now
        return 2 * (now - self._measuring_since + limits.block_s) >= limits.max_s

    def _wrong(self, made: _Made, output: torch.Tensor, *, verdict: int, when: str) -> None:
        at = self._kept.seen(self._products.what + when, made.iteration)
        if at is None:
            return
        mismatch = evidence.examine(
            self._products,
            number=made.number,
            pair=made.pair,
            output=output,
            verdict=verdict,
            iteration=made.iteration,
            strike=self._strike_again,
        )
        self._kept.examined(at, msgspec.structs.replace(mismatch, what=mismatch.what + when))

    def _strike_again(self, output: torch.Tensor) -> None:
        if self._flips.stuck:
            self._flips.strike(output)


@dataclass(frozen=True, kw_only=True)
class WatchedWork(Work):
    """Work whose products `watch` verifies. A block has at most len(watch.outputs) products.

    grouped: False, so that each product is timed alone.
    """

    watch: Watch
    grouped: bool = False

    def block(self, clock: Clock, iterations: int, group: int = 1) -> TimedBlock:
        """Run one timed block, then read its verdicts (Watch.look), untimed. Wrong products do not raise.

        group: iterations that are timed together. Raises ValueError if `iterations` is more than the number of outputs.
        """
        self.watch.begin(iterations)
        block = super().block(clock, iterations, group)
        self.watch.look()
        return block

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        """Return the number of iterations of a block that lasts `duration_s`, at most the number of `watch.outputs`.

        iteration_ms: expected time of an iteration. group: below that limit, the result is a multiple of it.
        """
        return min(super().size(duration_s, iteration_ms, group), len(self.watch.outputs))
