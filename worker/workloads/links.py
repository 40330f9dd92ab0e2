"""Burn-in of links: verified copies and sums between devices, and copies to the host and back.

    each iteration:  make what is sent ─▶ all-reduce ─▶ copies to every other device ─▶ to the host and back ─▶ verify

Each device has a process (worker/gang.py). All numbers come from the seed, so that each device makes the numbers it
must receive and compares every word. Sums are of whole numbers, exact in any order, even if NVSwitches do the sums.
After sending, each device also checks the numbers that it sent. If these are wrong, this device is at fault. If they
are right and a copy is wrong, the fault is in the sender, the link or the receiver. The leader (rank 0) decides the
number of iterations. After a kept mismatch (verify/kept.py) all processes repeat the iteration with the same bits.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import msgspec
import torch

from protocol.cell import Cell
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result, StopReason
from protocol.verification import BEFORE_SENT, WARMING_UP, Verification
from worker import devices
from worker.gang import Gang
from worker.measure import Work
from worker.stage import Stage
from worker.timing import Step
from worker.verify import bits, seeded
from worker.verify.exact import LARGEST
from worker.verify.flips import Flips
from worker.verify.kept import Kept
from worker.verify.key import key
from worker.workloads import common

REPETITIONS: Final = 10
_SHIFTS: Final = 4
"""Iteration i adds i modulo this number to all terms of its sum, so that successive sums differ."""
_WORD_BYTES: Final = 8
_MIB: Final = 1 << 20
_OWN, _ADDED, _KEYS = 0, 1 << 16, 1 << 20
"""Numbers of streams (verify/seeded.py): rank 0's numbers to send, rank 0's terms of sums, and the iterations' keys.

Other ranks have the streams after that of rank 0. A key changes all numbers to send in an iteration (exclusive or)."""
_NO_LINKS: Final = {"NVLink and PCIe": "a CPU device has none, because its transfers go through host memory"}


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Test the links until the measurement ends. Mismatches are part of the result, not failures.

    isolation: "fork" or "exec", for the result. Raises ValueError for several devices unless the number of warm-up
    iterations is fixed.
    """
    if assign.gang is not None and not assign.measurement.fixed(Phase.WARM_UP):
        raise ValueError(f"{assign.cell.id}: several devices warm up together, by a fixed number of iterations")
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    with stage.timed("build"):
        gang = Gang(assign, device)
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("warm_up"):
            test = LinksTest(assign, gang, device, stage)
            devices.synchronize(device)
        work = _LinksWork(test.steps(), waits=True, test=test, gang=gang)
        measurements = common.warm_up_and_measure(work, assign, stage, device)
    return Result(
        **common.fields(measurements, common.holding(test.tensors()), assign, stage, isolation=isolation, items=1),
        bytes_per_iteration=test.bytes_moved(),
        verification=test.verification(key(assign.device, device)),
    )


class LinksTest:
    """One device's part of a test of links: verified copies to and from other devices and the host, and a sum over all.

    Raises ValueError if the input size (MiB to send) is None.
    """

    def __init__(self, assign: Assign, gang: Gang, device: torch.device, stage: Stage) -> None:
        cell = assign.cell
        if cell.input_size is None:
            raise ValueError(f"{cell.id}: a cell of links needs an input size, the MiB that are sent")
        self._gang, self._device, self._stage, self._seed = gang, device, stage, cell.seed
        count = cell.input_size * _MIB // _WORD_BYTES
        self._sent = [seeded.bits(cell.seed, _OWN + rank, count, device) for rank in range(gang.size)]
        self._outgoing = torch.empty_like(self._sent[0])
        self._incoming = {rank: torch.empty_like(self._outgoing) for rank in range(gang.size) if rank != gang.rank}
        self._added, self._total = _whole_numbers(cell, gang, device)
        self._adding, self._sum = torch.empty_like(self._added), torch.empty_like(self._added)
        pinned = device.type == "cuda"
        self._host = torch.empty(count, dtype=torch.int64, pin_memory=True) if pinned else None
        self._back = torch.empty_like(self._outgoing) if pinned else None
        self._flips = [Flips(assign, _as_integers(tensor)) for tensor in (self._outgoing, self._adding)]
        self._number = 0
        self._done: Counter[Phase] = Counter()
        self._checks = self._verified_bytes = 0
        self._kept = Kept(stage)
        self._fresh: dict[int, tuple[int, str]] = {}
        self._again: Counter[str] | None = None

    def steps(self) -> dict[str, Step]:
        """Return the steps of one iteration, in order: name of their series of times → step."""
        between: dict[str, Step] = {"all_reduce": self._add_up, "copies": self._copy} if self._gang.size > 1 else {}
        host: dict[str, Step] = {"to_host": self._to_host, "to_device": self._to_device}
        return {
            "prepare": self._prepare,
            **between,
            **(host if self._host is not None else {}),
            "verify": self._verify,
        }

    def bytes_moved(self) -> dict[str, int]:
        """Return step → bytes that it moves for this device in an iteration. Only steps that transfer data.

        all_reduce: size of the vector that this device adds to the sum.
        """
        each = self._outgoing.nbytes
        moved = {"all_reduce": self._sum.nbytes, "copies": each * len(self._incoming), "to_host": each}
        return {name: size for name, size in (moved | {"to_device": each}).items() if name in self.steps()}

    @property
    def wrong(self) -> int:
        """Number (from 1) of the last iteration with a kept mismatch and no call of `repeat` since then; 0 if none."""
        return max((number for number, _ in self._fresh.values()), default=0)

    def repeat(self, number: int) -> None:
        """Repeat iteration `number` ten times with the same bits, and store how often each new mismatch recurs."""
        last, self._number, self._again = self._number, number, Counter()
        for _ in range(REPETITIONS):
            for received in (*self._incoming.values(), self._host, self._back):
                if received is not None:
                    received.zero_()  # the same bits are sent again, and what was not written must be wrong
            for step in self.steps().values():
                step()
        for at, (_, what) in self._fresh.items():
            wrong = self._again[what]
            repeated = msgspec.structs.replace(self._kept[at], repeated=REPETITIONS, wrong_again=wrong)
            self._kept.examined(at, repeated)
        self._number, self._fresh, self._again = last, {}, None

    def verification(self, key_: tuple[str, ...]) -> Verification:
        """Return the counts of the launch and its kept mismatches. key_: result of verify.key.key.

        `checks` counts compared transfers (copies and sums), `verified_bytes` their bytes. Neither counts repetitions.
        """
        return Verification(
            key=key_,
            method=f"every word of every transfer is compared; transfers by {self._gang.describe()}",
            checks=self._checks,
            verified_bytes=self._verified_bytes,
            mismatches=self._kept.count,
            kept=self._kept.all,
            not_tested=_NO_LINKS if self._device.type == "cpu" else {},
        )

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return all tensors of the test on the device."""
        back = () if self._back is None else (self._back,)
        copied = (*self._sent, self._outgoing, *self._incoming.values(), *back)
        return (*copied, self._added, self._total, self._adding, self._sum)

    # ── one iteration ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        if self._again is None:
            self._number += 1
        self._key = int(seeded.bits(self._seed, _KEYS, 1, torch.device("cpu"), start=self._number))
        torch.bitwise_xor(self._sent[self._gang.rank], self._key, out=self._outgoing)
        torch.add(self._added, self._number % _SHIFTS, out=self._adding)
        for flips, tensor in zip(self._flips, (self._outgoing, self._adding), strict=True):
            if flips.stuck or (flips.wanted and self._stage.phase is Phase.MEASURE):
                flips.strike(_as_integers(tensor))
        self._sum.copy_(self._adding)
        self._gang.align()  # else a process that verifies faster would wait inside the next span

    def _add_up(self) -> None:
        self._gang.add_up(self._sum)

    def _copy(self) -> None:
        for by in range(1, self._gang.size):
            self._gang.pass_on(by, self._outgoing, self._incoming[(self._gang.rank - by) % self._gang.size])

    def _to_host(self) -> None:
        assert self._host is not None
        self._host.copy_(self._outgoing, non_blocking=True)

    def _to_device(self) -> None:
        assert self._host is not None
        assert self._back is not None
        self._back.copy_(self._host, non_blocking=True)

    def _verify(self) -> None:
        gang, size = self._gang, self._gang.size
        own = self._sent[gang.rank] ^ self._key
        shift = self._number % _SHIFTS
        self._check(BEFORE_SENT, self._outgoing, own)
        self._check("its own numbers, before they were added", self._adding, self._added + shift)
        for rank, incoming in self._incoming.items():
            sender = gang.devices[rank]
            self._arrived(f"copy from {sender}", incoming, self._sent[rank] ^ self._key, sender=sender)
        if size > 1:
            self._arrived("sum over all devices", self._sum, self._total + size * shift, of_all=True)
        if self._back is not None:
            self._arrived("copy to the host and back", self._back, self._outgoing)
        if self._again is None:
            self._done[self._stage.phase] += 1

    def _arrived(
        self, what: str, found: torch.Tensor, expected: torch.Tensor, *, sender: str | None = None, of_all: bool = False
    ) -> None:
        if self._again is None:
            self._checks += 1
            self._verified_bytes += found.nbytes
        self._check(what, found, expected, sender=sender, of_all=of_all)

    def _check(
        self, what: str, found: torch.Tensor, expected: torch.Tensor, *, sender: str | None = None, of_all: bool = False
    ) -> None:
        if torch.equal(_as_integers(found), _as_integers(expected)):
            return
        if self._again is not None:
            self._again[what] += 1
            return
        check = what if self._stage.phase is Phase.MEASURE else f"{what}{WARMING_UP}"
        at = self._kept.seen(check, self._done[self._stage.phase], sender=sender, of_all=of_all)
        if at is None:
            return
        self._fresh[at] = self._number, what
        differences = bits.differences(_as_integers(found), _as_integers(expected))
        again = bits.differences(_as_integers(found), _as_integers(expected))
        closer = msgspec.structs.replace(
            self._kept[at],
            elements=differences.elements,
            bits=differences.bits,
            first=differences.first,
            same_when_read_again=again == differences,
        )
        self._kept.examined(at, closer)


@dataclass(frozen=True, kw_only=True)
class _LinksWork(Work):
    """Work of LinksTest. The leader decides the number of iterations; that of the warm-up must be fixed.

    grouped: False, so that each iteration is timed alone.
    """

    test: LinksTest
    gang: Gang
    grouped: bool = False

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        own = super().size(duration_s, iteration_ms, group)
        return self.gang.largest(own if self.gang.leads else 0)[0]

    def agreed(self, reason: StopReason | None) -> StopReason | None:
        """Return the leader's reason to stop, or None to continue. reason: of this process, used only by the leader.

        Each process must call this. If LinksTest.wrong is above 0 in any process, all processes first repeat one
        iteration: the one with the highest of these numbers.
        """
        reasons: tuple[StopReason | None, ...] = (None, *StopReason)
        wrong, decided = self.gang.largest(self.test.wrong, reasons.index(reason) if self.gang.leads else 0)
        if wrong:
            self.test.repeat(wrong)
        return reasons[decided]


def _as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of the tensor as integers: of 32 bits for int64 (copied numbers), else as wide as its type."""
    return tensor.view(torch.int32) if tensor.dtype is torch.int64 else bits.integers(tensor)


def _whole_numbers(cell: Cell, gang: Gang, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two vectors of the cell's type: this rank's whole numbers to add up, and their right sum over all ranks.

    Each rank has `cell.input_size` MiB of numbers. A shift that depends on the iteration is added later.
    """
    dtype = devices.weights_type(cell.precision, training=False)
    count = (cell.input_size or 0) * _MIB // dtype.itemsize
    most = LARGEST[dtype] // gang.size - _SHIFTS
    total = torch.zeros(count, dtype=torch.int64, device=device)
    own = total
    for rank in range(gang.size):
        numbers = seeded.whole(seeded.bits(cell.seed, _ADDED + rank, count, device), most)
        total.add_(numbers)
        own = numbers if rank == gang.rank else own
    return own.to(dtype), total.to(dtype)
