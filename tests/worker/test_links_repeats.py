"""worker/workloads/links.py: an iteration is repeated with its own bits, and counts once."""

from pathlib import Path

import msgspec
import pytest
import torch

from protocol.cell import Precision
from protocol.failure import Phase
from tests.fakes.assignments import Listener
from tests.worker.test_links import Wired, assigned, iterate, wired
from worker.workloads import links
from worker.workloads.links import LinksTest


class Flaky(Wired):
    """One rank whose sums come out wrong in some iterations of its test, or are not made."""

    wrong: frozenset[int] = frozenset()
    skips = False
    calls: list[str]
    sent: list[torch.Tensor]

    def add_up(self, tensor: torch.Tensor) -> None:
        self.calls.append("add_up")
        self.sent.append(tensor.clone())
        tensor.copy_(self._peers[0]._total + self.size * (self._peers[0]._number % 4))
        if self._peers[0]._number in self.wrong:
            tensor[5] += 1

    def pass_on(self, by: int, outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        if not self.skips:
            incoming.copy_(self._peers[0]._sent[1] ^ self._peers[0]._key)

    def align(self) -> None:
        self.calls.append("align")


def alone(folder: Path, *wrong: int, precision: Precision = Precision.FP32) -> tuple[LinksTest, Flaky]:
    assign = assigned(folder, 0, 2, precision=precision)
    peers: list[LinksTest] = []
    flaky = Flaky(assign, 0, peers, lambda *_: 0)
    flaky.wrong, flaky.calls, flaky.sent = frozenset(wrong), [], []
    peers.append(LinksTest(assign, flaky, torch.device("cpu"), Listener(Phase.MEASURE).stage))
    return peers[0], flaky


def test_wrong_iteration_is_repeated_with_its_own_bits(tmp_path: Path) -> None:
    """Also where others followed it in the block; the next iteration is new."""
    test, flaky = alone(tmp_path, 2)
    iterate([test], 3)
    assert test.wrong == 2
    test.repeat(test.wrong)
    assert len(flaky.sent) == 3 + links.REPETITIONS
    assert all(torch.equal(sent, flaky.sent[1]) for sent in flaky.sent[3:])
    (wrong,) = test.verification(()).kept
    assert (wrong.repeated, wrong.wrong_again) == (links.REPETITIONS, links.REPETITIONS)
    assert test.wrong == 0
    iterate([test], 1)
    assert test._number == 4


def test_repetitions_are_not_counted(tmp_path: Path) -> None:
    """Neither as transfers that were verified nor in the number of an iteration."""
    test, _ = alone(tmp_path, 1, 3)
    iterate([test], 2)
    before = test.verification(())
    test.repeat(test.wrong)
    after = test.verification(())
    assert (after.checks, after.verified_bytes) == (before.checks, before.verified_bytes) == (4, 4 << 20)
    iterate([test], 1)
    assert [one.iteration for one in test.verification(()).kept] == [0, 2]


def test_a_copy_that_is_not_made_is_wrong_in_repetitions_too(tmp_path: Path) -> None:
    """The same bits are there from before."""
    test, flaky = alone(tmp_path)
    iterate([test], 1)
    flaky.skips = True
    iterate([test], 1)
    flaky.skips = False
    again = iter([False] * 4 + [True] * 6)
    honest = flaky.pass_on

    def fails_later(by: int, outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        flaky.skips = next(again)
        honest(by, outgoing, incoming)

    flaky.pass_on = fails_later  # type: ignore[method-assign]  # of this one alone
    test.repeat(test.wrong)
    (wrong,) = test.verification(()).kept
    assert (wrong.sender, wrong.wrong_again) == ("cpu:1", 6)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_wrong_sum_has_the_elements_of_its_type(tmp_path: Path, precision: Precision) -> None:
    """Not pairs of those of two bytes."""
    test, _ = alone(tmp_path, 1, precision=precision)
    iterate([test], 1)
    (wrong,) = test.verification(()).kept
    assert (wrong.elements, wrong.first[0].offset) == (1, 5)
    assert len(wrong.first[0].found) == (8 if precision is Precision.FP32 else 4)


def test_ranks_start_transfers_together(tmp_path: Path) -> None:
    """A faster rank would wait within the time of a transfer. The warm-up has a fixed number of iterations."""
    assign = assigned(tmp_path, 0, 2)
    adaptive = msgspec.structs.replace(assign.measurement, warm_up_iterations=None)
    with pytest.raises(ValueError, match="fixed number"):
        links.run(msgspec.structs.replace(assign, measurement=adaptive), Listener().stage, "none")
    test, flaky = alone(tmp_path)
    test.steps()["prepare"]()
    assert flaky.calls == ["align"]
    iterate([test])
    assert flaky.calls == ["align", "align", "add_up"]


def test_healthy_ranks_have_nothing_to_repeat(tmp_path: Path) -> None:
    """Their number of a wrong iteration is 0."""
    assert [peer.wrong for peer in wired(tmp_path, 2)] == [0, 0]
