"""Replay: a launch repeats the same training steps and compares them bit for bit.

    restore weights, optimizer, random numbers ──▶ step 0 ──▶ step 1 ──▶ … ──▶ step 7 ──▶ compare      one replay
                                                     └─────────┴─ its loss, and a digest of every gradient

An iteration is a step, and a block is a replay. What is compared: the losses, and 64-bit digests (verify/digest.py) of
the gradients. The reference is the first replay. The launch compares its later replays with it, and the orchestrator
compares the references of different GPUs. A first replay with a loss that is not finite is repeated. If the repetition
is the same, the model diverges. If not, the first replay was wrong. A part is one loss of a step with its optimizer
(training.Part). Most models have one.

After a wrong step, the rest of its replay starts with other weights and is not compared. In a Mismatch, each element is
a gradient: `offset` is the index of its parameter, and the values are digests. `bits` is 0, because the number of wrong
bits is unknown. `same_when_read_again` is always True, because gradients cannot be read again.

A model with an operator that has no deterministic implementation still runs as load. Its steps are not compared, and
the model is reported as not tested. torch must raise an error for such operators: with a mere warning it would use a
nondeterministic attention.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch

from protocol.cell import Precision
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from protocol.verification import KEPT_ELEMENTS, LEAST_REPLAYS, REPLAY_STEPS, WARMING_UP, Mismatch, Verification
from worker import devices, finite, flops
from worker.errors import UnsuitableModelError
from worker.measure import Work
from worker.stage import Stage
from worker.timing import Clock, TimedBlock
from worker.verify.gradients import GradientFault, Outcome, Recorder
from worker.verify.kept import Kept
from worker.verify.key import key
from worker.verify.slow import slowed
from worker.workloads import common
from worker.workloads.training import Part, SplitStep, parts_of

REPETITIONS: Final = 10
_REFUSED: Final = "does not have a deterministic implementation"
_METHOD: Final = f"loss and 64-bit digests of all gradients of {REPLAY_STEPS} training steps, replayed"


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Replay training steps of the cell. Mismatches are part of the result, not failures.

    isolation: how the worker was started, "fork" or "exec". Raises UnsuitableModelError if the precision is fp16, or if
    the model is a user's own (in any precision), and NotFiniteError if a reference loss is not finite.
    """
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read with the first product: the same bits each time
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(assign.cache_folder) / "triton"))
    family = common.family_of(assign, stage)
    if assign.cell.precision is Precision.FP16 or hasattr(family, "train_step"):
        raise UnsuitableModelError(
            f"{assign.model.name} cannot be replayed in {assign.cell.precision}: a replay needs a step of forward, "
            "backward and optimizer, in fp32, tf32 or bf16"
        )
    with deterministic():
        device, module = common.opened(family, assign, stage, training=True)
        with stage.timed("build"):
            parts = parts_of(family, module, assign, device)
            devices.synchronize(device)
        stage.enter(Phase.WARM_UP)
        with stage.timed("build"):
            dtype = devices.weights_type(assign.cell.precision, training=True)
            batch = common.make_batch(family, assign, device, dtype)
        step = SplitStep(parts, module, batch, partial(devices.autocast, device, assign.cell.precision))
        with devices.training_kernels(device, assign.cell.precision):
            with stage.timed("warm_up"):
                replays = Replays(module, parts, step.work(), assign, stage)
                refused = _refused(step)
            work = slowed(step.work() if refused else replays.work(), assign)
            measurements = common.warm_up_and_measure(work, assign, stage, device)
            with stage.timed("count"):
                operations = flops.count(step.gradients, measurements.iteration_ms)
        return Result(
            **common.fields(
                measurements, module, assign, stage, isolation=isolation, items=common.items(family, assign, batch)
            ),
            flops_per_iteration=operations,
            loss=finite.total(step.losses()) if refused else replays.loss,
            verification=replays.verification(
                key(assign.device, device), operations or 0.0, {assign.model.name: refused} if refused else {}
            ),
        )


@contextmanager
def deterministic() -> Iterator[None]:
    """Make torch use only deterministic operators in the `with` body. Others raise RuntimeError there."""
    cudnn, memory = torch.backends.cudnn, cast("Any", torch.utils.deterministic)  # torch declares not all of it
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    fills = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(mode=True)
    cudnn.deterministic, cudnn.benchmark = True, False
    memory.fill_uninitialized_memory = False  # it would write all memory that a step takes once more
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]
        memory.fill_uninitialized_memory = fills


def _refused(step: SplitStep) -> str | None:
    """Run `step`. Return None, or torch's message on a nondeterministic operator; such operators are then allowed."""
    try:
        step.gradients()
    except RuntimeError as error:
        reason = str(error).partition(", but you set")[0]
        if _REFUSED not in reason:
            raise
        torch.use_deterministic_algorithms(mode=False)
        return reason
    return None


class _Start:
    """Start state of every replay: weights, buffers, optimizers without state, and the seed."""

    def __init__(self, module: torch.nn.Module, parts: Sequence[Part], seed: int) -> None:
        tensors = (*module.parameters(), *module.buffers())
        self._kept = [(tensor, tensor.detach().clone()) for tensor in tensors]
        self._parts = parts
        self._seed = seed

    def restore(self) -> None:
        with torch.no_grad():
            for tensor, kept in self._kept:
                tensor.copy_(kept)
        for part in self._parts:
            part.optimizer.state.clear()
            part.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(self._seed)


class Replays:
    """Repeats the same training steps, compares each repetition (replay) with the first, and keeps the mismatches."""

    def __init__(
        self, module: torch.nn.Module, parts: Sequence[Part], work: Work, assign: Assign, stage: Stage
    ) -> None:
        self._assign, self._stage = assign, stage
        self._start = _Start(module, parts, assign.cell.seed)
        self._recorder = Recorder(module, REPLAY_STEPS, len(parts), assign.cell.seed)
        self._parts, self._backward = parts, work.steps["backward"]
        self._steps = work.steps | {"backward": self._recorded}
        self._fault = GradientFault(assign, REPLAY_STEPS)
        self._expected: list[Outcome] = []
        self._phase, self._done = Phase.WARM_UP, 0
        self._checks = 0
        self._kept = Kept(stage)
        phase_s = min(assign.deadlines.warm_up, assign.deadlines.measure)
        self._left_s = min(phase_s / 2, assign.measurement.max_s)
        """Remaining seconds for repetitions of wrong replays: at most `max_s`, at most half of a phase's extra time.

        Extra time is what Deadlines allows in addition to the planned duration of the phase. A launch that
        takes three times as long when the run ends counts as hung (kinds/burn_in/lost_launches.py)."""

    def work(self) -> Work:
        """Return the Work to measure: at least LEAST_REPLAYS replays, because the first is the reference."""
        least = LEAST_REPLAYS * REPLAY_STEPS
        return _ReplayedWork(self._steps, passes=len(self._parts), least=least, begin=self.begin, end=self.end)

    def begin(self) -> None:
        """Start a replay: restore weights, buffers, optimizers and seed to their start state."""
        self._start.restore()
        self._recorder.begin()
        self._fault.begin(possible=len(self._expected) == REPLAY_STEPS and self._stage.phase is Phase.MEASURE)

    def end(self) -> None:
        """Compare the replay that has just ended with the reference. Its first different step counts as a mismatch.

        Later steps are not compared. The first replays may have fewer steps than the others. If no step differs, and
        this replay has more steps than the reference, the further steps are added to the reference. Raises
        NotFiniteError if a loss of the reference is NaN or infinite.
        """
        if self._stage.phase is not self._phase:
            self._phase, self._done = self._stage.phase, 0
        outcomes = self._recorder.outcomes()
        compared = min(len(outcomes), len(self._expected))
        wrong = self._differs(outcomes)
        if wrong is None and len(outcomes) > compared:
            self._expected += self._first(outcomes)[compared:]
            wrong = self._differs(outcomes)
        if wrong is None:
            self._checks += compared
        else:
            self._checks += wrong + 1
            phase = "" if self._phase is Phase.MEASURE else WARMING_UP
            at = self._kept.seen(f"step {wrong} of a replay{phase}", self._done + wrong)
            if at is not None:
                self._kept.examined(at, self._examined(wrong, outcomes[wrong], phase))
        finite.total({f"step {at}": outcome.loss for at, outcome in enumerate(self._expected)})
        self._done += len(outcomes)

    def verification(self, key: tuple[str, ...], operations: float, not_tested: dict[str, str]) -> Verification:
        """Return the digests and losses of the reference, and the kept mismatches. `checks` counts compared steps.

        operations: number of floating-point operations in a step. key, not_tested: fields of Verification.
        """
        return Verification(
            key=key,
            digests=tuple(outcome.digest for outcome in self._expected),
            losses=tuple(outcome.loss.hex() for outcome in self._expected),
            method=_METHOD,
            checks=self._checks,
            operations=self._checks * operations,
            mismatches=self._kept.count,
            kept=self._kept.all,
            not_tested=not_tested,
        )

    @property
    def loss(self) -> float:
        """Loss of the last step of the first replay: the sum over the parts of the model."""
        return self._expected[-1].loss

    def _first(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Return the outcomes with which to extend the reference: `outcomes`, or those of a repetition of the replay.

        The replay is repeated if a loss is not finite in a step that the reference does not have yet.
        """
        new = outcomes[len(self._expected) :]
        return outcomes if all(math.isfinite(outcome.loss) for outcome in new) else self._made_again(len(outcomes))

    def _differs(self, outcomes: list[Outcome]) -> int | None:
        compared = min(len(outcomes), len(self._expected))
        pairs = zip(outcomes[:compared], self._expected[:compared], strict=True)
        return next((at for at, (found, expected) in enumerate(pairs) if found != expected), None)

    def _recorded(self) -> None:
        self._backward()
        self._fault.strike(self._recorder.step, self._recorder.having())
        self._recorder.record(self._parts[self._recorder.part].loss.detach())

    def _examined(self, step: int, outcome: Outcome, phase: str) -> Mismatch:
        at_ns, expected = time.monotonic_ns(), self._expected[step]
        differing = outcome.differing(expected)
        wrong = self._repeated(step)
        loss = "the same loss"
        if outcome.losses != expected.losses:
            loss = f"a loss of {outcome.loss}, not {expected.loss}"
        share = f"{len(differing)} of {len(outcome.gradients)} gradients differ"
        return Mismatch(
            what=f"step {step} of a replay: {share}, {loss}{phase}",
            at_ns=at_ns,
            iteration=self._done + step,
            elements=len(differing),
            bits=0,
            first=tuple(outcome.element(at, expected) for at in differing[:KEPT_ELEMENTS]),
            same_when_read_again=True,
            repeated=len(wrong),
            wrong_again=sum(wrong),
        )

    def _repeated(self, step: int) -> list[bool]:
        """Repeat steps 0 to `step` up to ten times. Returns for each repetition whether it was wrong.

        Stops early, but not before the first, if the launch has no seconds for repetitions left (`_left_s`).
        """
        wrong: list[bool] = []
        while len(wrong) < REPETITIONS and (self._left_s > 0 or not wrong):
            begin = time.monotonic()
            wrong.append(self._made_again(step + 1) != self._expected[: step + 1])
            self._left_s -= time.monotonic() - begin
        return wrong

    def _made_again(self, steps: int) -> list[Outcome]:
        self.begin()
        for _ in range(steps * len(self._parts)):
            for step in self._steps.values():
                step()
        return self._recorder.outcomes()


@dataclass(frozen=True, kw_only=True)
class _ReplayedWork(Work):
    """Work whose blocks are replays. begin, end: called before and after each block, untimed.

    grouped: False, so that each step is timed alone.
    """

    begin: Callable[[], None]
    end: Callable[[], None]
    grouped: bool = False

    def block(self, clock: Clock, iterations: int, group: int = 1) -> TimedBlock:
        self.begin()
        block = super().block(clock, iterations, group)
        self.end()
        return block

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        return REPLAY_STEPS
