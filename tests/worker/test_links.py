"""worker/workloads/links.py and worker/gang.py: transfers between devices, verified to the last bit."""

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from protocol.cell import Device, DeviceKind, Precision
from protocol.failure import Category, Phase
from protocol.messages import Assign, Gang, Measurement
from protocol.verification import Injection, Verification
from tests.fakes.assignments import Listener, assignment, failure_of, result_of, verified
from tests.fakes.faults import model
from tests.fakes.gangs import gang
from tests.worker.fresh import Fresh
from worker import gang as room
from worker.verify.exact import LARGEST
from worker.workloads import links
from worker.workloads.links import LinksTest

MEASUREMENT = Measurement(
    relative_half_width=0.0, block_s=0.02, warm_up_cap_s=1, min_s=0.3, max_s=0.3, warm_up_iterations=1
)
NAMES = ("cpu:0", "cpu:1", "cpu:2")


def assigned(folder: Path, rank: int, size: int, *, seed: int = 1, precision: Precision = Precision.FP32) -> Assign:
    device = Device(uuid=NAMES[rank], gpu_id=rank, kind=DeviceKind.CPU, name="a CPU")
    cell = gang(*NAMES[:size], seed=seed, precision=precision)
    made = assignment(model("peers"), cell.workload, folder, device=device, measurement=MEASUREMENT)
    place = Gang(rank=rank, meeting=str(folder / "meeting"), steps=str(folder / "steps")) if size > 1 else None
    return msgspec.structs.replace(made, cell=cell, gang=place)


@pytest.mark.parametrize(
    "precision",
    [
        Precision.FP32,
        pytest.param(Precision.BF16, marks=pytest.mark.slow),
        pytest.param(Precision.FP16, marks=pytest.mark.slow),
    ],
)
def test_healthy_devices_verify_every_word(fresh: Fresh, tmp_path: Path, precision: Precision) -> None:
    """With as many iterations on each; copies and sums have their bytes and times."""
    outcomes = fresh.launch_gang([assigned(tmp_path, rank, 2, precision=precision) for rank in range(2)])
    one, other = map(verified, outcomes)
    assert (one.checks, one.mismatches, one.kept) == (other.checks, 0, ())
    assert one.checks >= 6
    assert one.verified_bytes == one.checks << 20
    assert "gloo" in one.method
    result = result_of(outcomes[0])
    assert result.bytes_per_iteration == {"all_reduce": 1 << 20, "copies": 1 << 20}
    iterations = sum(block.iterations for block in result.blocks)
    for series in ("iteration", "all_reduce", "copies", "verify"):
        assert len(result.times_ms(series)) == iterations
    one_steps, other_steps = struct.unpack("=2q", (tmp_path / "steps").read_bytes())
    assert one_steps == other_steps > iterations


def test_flipped_bits_are_found_by_sender_and_receiver(fresh: Fresh, tmp_path: Path) -> None:
    """The device finds its own numbers wrong, once; the other one its copy. Neither comes back."""
    assigns = [assigned(tmp_path, rank, 2) for rank in range(2)]
    assigns[1] = msgspec.structs.replace(assigns[1], injection=Injection(flip_bits=2))
    receiver, culprit = map(verified, fresh.launch_gang(assigns))
    own = [one for one in culprit.kept if one.sender is None and not one.of_all]
    assert [(one.bits, one.repeated, one.wrong_again) for one in own] == [(2, 10, 0)] * 2
    assert all(one.same_when_read_again for one in own)
    (copy,) = [one for one in receiver.kept if one.sender is not None]
    assert (copy.sender, copy.bits, copy.repeated, copy.wrong_again) == ("cpu:1", 2, 10, 0)
    assert any(one.of_all for one in receiver.kept)


@pytest.mark.slow
def test_a_fault_that_stays_comes_back_every_time(fresh: Fresh, tmp_path: Path) -> None:
    """Stuck bits are wrong in all ten repetitions."""
    assigns = [assigned(tmp_path, rank, 2) for rank in range(2)]
    assigns[0] = msgspec.structs.replace(assigns[0], injection=Injection(flip_bits=1, stuck=True))
    first, second = map(verified, fresh.launch_gang(assigns))
    assert first.kept
    assert second.kept
    assert all(one.wrong_again == one.repeated == 10 for one in (*first.kept, *second.kept))


@pytest.mark.slow
def test_silent_peer_is_a_communication_failure(fresh: Fresh, tmp_path: Path) -> None:
    """A process whose peer fails before the first transfer reports that the connection broke."""
    good, bad = (assigned(tmp_path, rank, 2) for rank in range(2))
    bad = msgspec.structs.replace(bad, cell=msgspec.structs.replace(bad.cell, input_size=None))
    categories = [failure_of(one).category for one in fresh.launch_gang([good, bad])]
    assert categories == [Category.COMMUNICATION, Category.EXCEPTION]


# ── one process that plays all ranks ──────────────────────────────────────────────────────────────────────────────────


class Wired(room.Gang):
    """One of several ranks of the same process, connected by nothing but their tensors. spoil: what a wire does."""

    def __init__(self, assign: Assign, rank: int, peers: list[LinksTest], spoil: Callable[[int, int], int]) -> None:
        super().__init__(msgspec.structs.replace(assign, gang=None), torch.device("cpu"))
        self.rank, self._peers, self._spoil = rank, peers, spoil

    def align(self) -> None:
        """Nobody is ahead of the others."""

    def add_up(self, tensor: torch.Tensor) -> None:
        tensor.copy_(torch.stack([peer._adding for peer in self._peers]).sum(dim=0))

    def pass_on(self, by: int, outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        origin = (self.rank - by) % self.size
        incoming.copy_(self._peers[origin]._outgoing)
        incoming[7] ^= self._spoil(origin, self.rank)


def wired(
    tmp_path: Path, size: int, spoil: Callable[[int, int], int] = lambda *_: 0, *, seed: int = 1
) -> list[LinksTest]:
    """So many ranks after one iteration, in the phase of measuring."""
    peers: list[LinksTest] = []
    for rank in range(size):
        assign = assigned(tmp_path, rank, size, seed=seed)
        stage = Listener(Phase.MEASURE).stage
        peers.append(LinksTest(assign, Wired(assign, rank, peers, spoil), torch.device("cpu"), stage))
    iterate(peers)
    return peers


def iterate(peers: list[LinksTest], times: int = 1) -> None:
    """Iterations in which every rank does a step before any does the next."""
    for name in [*peers[0].steps()] * times:
        for peer in peers:
            peer.steps()[name]()


def test_bad_wire_is_seen_by_its_receiver(tmp_path: Path) -> None:
    """The numbers are right at the sender, and wrong in that copy alone."""
    peers = wired(tmp_path, 3, lambda sender, receiver: 1 << 40 if (sender, receiver) == (2, 0) else 0)
    found = [peer.verification(()) for peer in peers]
    assert [one.mismatches for one in found] == [1, 0, 0]
    (wrong,) = found[0].kept
    assert (wrong.sender, wrong.elements, wrong.bits) == ("cpu:2", 1, 1)
    assert wrong.first[0].offset == 15  # in words of 32 bits


def test_every_transfer_sends_other_bits(tmp_path: Path) -> None:
    """A copy that is not made leaves what came before, and that is wrong; so is a sum that is not."""
    (first, second) = wired(tmp_path, 2)
    before, total = first._incoming[1].clone(), first._sum.clone()
    iterate([first, second])
    assert not torch.equal(before, first._incoming[1])
    assert not torch.equal(total, first._sum)
    first._incoming[1].copy_(before)
    first._sum.copy_(total)
    first._verify()
    assert [one.what.split()[0] for one in first.verification(()).kept] == ["copy", "sum"]


@pytest.mark.parametrize(("size", "precision"), [(2, Precision.FP32), (5, Precision.BF16)])
def test_sums_are_exact_whatever_their_order(tmp_path: Path, size: int, precision: Precision) -> None:
    """The largest possible sum is a whole number of the type, and so is every partial sum."""
    device = Device(uuid="0", gpu_id=0, kind=DeviceKind.CPU, name="a CPU")
    cell = gang(*map(str, range(size)), precision=precision)
    assign = msgspec.structs.replace(assigned(tmp_path, 0, 1), cell=cell, device=device)
    numbers, totals = [], []
    for rank in range(size):
        alone = Wired(assign, rank, [], lambda *_: 0)
        own, total = links._whole_numbers(cell, alone, torch.device("cpu"))
        numbers.append(own.double())
        totals.append(total.double())
    exact = torch.stack(numbers).sum(dim=0)
    limit = LARGEST[own.dtype]
    assert all(torch.equal(exact, total) for total in totals)
    assert sum(one.abs().max() for one in numbers) + size * links._SHIFTS <= limit
    assert torch.stack(numbers).abs().max() >= limit / size / 2


@pytest.mark.parametrize(("value", "words"), [(None, "left to NCCL"), ("0", "set by NCCL_NVLS_ENABLE=0")])
def test_multicast_is_left_as_the_environment_has_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
) -> None:
    """The method says which."""
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    if value is not None:
        monkeypatch.setenv("NCCL_NVLS_ENABLE", value)
    assert room.multicast() == words


def test_single_device_has_no_transfer(tmp_path: Path) -> None:
    """No sum and no copy: on a GPU only the way to the host and back remains."""
    (alone,) = wired(tmp_path, 1)
    assert set(alone.steps()) == {"prepare", "verify"}
    assert isinstance(alone.verification(()), Verification)
