"""What a burn-in launch verified: sums for the report, digests to compare, and every mismatch with what came of it.

A launch that found a mismatch still has a result: what it found is the result. The verdict is the parent's. Where the
process dies before that, its file of mismatches holds what was found (Seen).
"""

from typing import Final

import msgspec

KEPT_MISMATCHES: Final = 16
"""Of a launch, with their details; all are counted."""
KEPT_ELEMENTS: Final = 16
"""Of a mismatch, with their bits."""
REPLAY_STEPS: Final = 8
"""Training steps of one replay."""
BEFORE_SENT: Final = "its own numbers, before they were sent"
"""What is wrong already there explains what others receive of it in the same iteration."""
WARMING_UP: Final = ", while warming up"
"""Ends what is said of a mismatch that was seen before the measurement: iterations of both count from 0."""
LEAST_REPLAYS: Final = 2
"""Of a launch, however long they take: the second can be compared with the first. Estimates of time count them too."""


class Injection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that a launch must bring about itself, to prove that it is found.

    flip_bits: how many random bits of one output to flip, 0 for none. stuck: flip them whenever that output is made,
    not once. slow_percent: how much longer each block is to take.
    """

    flip_bits: int = 0
    stuck: bool = False
    slow_percent: float = 0.0


class Element(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One place that differed: its offset in elements, and the bits that were expected and found, in hexadecimal."""

    offset: int
    expected: str
    found: str


class Mismatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One output that was not what it had to be, and what was found out about it.

    what: the check, in words. at_ns: monotonic, when it was seen. iteration: of the measurement, counted from 0.
    elements: how many differ; bits: how many bits in all. first: some of them.
    same_when_read_again: False is an error of reading. wrong_again: how many of `repeated` repetitions were wrong too;
    of 0 where the process ended before that was looked at, and the numbers before are 0 where it ended at once.
    beyond_rounding: whether the elements differ from a computation on the CPU in fp64 by more than rounding explains;
    None where there is nothing to compute (memory, a copy).
    sender: UUID of the other device from which it was copied; of_all: it was added up over all devices of the cell.
    """

    what: str
    at_ns: int
    iteration: int
    elements: int
    bits: int
    first: tuple[Element, ...]
    same_when_read_again: bool
    repeated: int
    wrong_again: int
    beyond_rounding: bool | None = None
    sender: str | None = None
    of_all: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the file `mismatches` of a launch. at: place among those that are kept; later lines know more of it."""

    at: int
    mismatch: Mismatch


class MemoryShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a test of memory came, in bytes. covered: checked at least once. taken: could be had for the test.

    whole: what the test is to cover its share of: on a GPU what was free when it began, else the size that was planned.
    """

    covered: int
    taken: int
    whole: int


class Verification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was verified while the launch measured.

    key: what must agree before digests are compared: name of the device, number of its multiprocessors, architecture,
    driver, torch, its libraries, MIG. digests: of the outputs that every launch of the cell must reproduce, in order.
    losses: of each step of training, as the hexadecimal form of the float, in order; empty for everything else.
    patterns: of a test of memory → how often each was marched from end to end, 0 for never; empty for everything else.
    share: of a test of memory alone.
    method: how outputs were compared, in words. checks: comparisons made; operations: floating-point operations whose
    result was compared; verified_bytes: of memory or transfers. mismatches: all of them; kept: the first, in detail.
    not_tested: what could not be → why.
    """

    key: tuple[str, ...]
    digests: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    patterns: dict[str, int] = {}
    share: MemoryShare | None = None
    method: str
    checks: int
    operations: float = 0.0
    verified_bytes: int = 0
    mismatches: int = 0
    kept: tuple[Mismatch, ...] = ()
    not_tested: dict[str, str] = {}
