"""Verification in a launch of a burn-in: the checks that it made, and the mismatches that it found.

The first KEPT_MISMATCHES are also written to a file (lines: Seen), which remains if the process dies.
"""

from typing import Final

import msgspec

KEPT_MISMATCHES: Final = 16
"""Number of mismatches of a launch that are kept in detail. All are counted."""
KEPT_ELEMENTS: Final = 16
REPLAY_STEPS: Final = 8  # training steps of one replay
BEFORE_SENT: Final = "its own numbers, before they were sent"
"""Mismatch.what of numbers that were wrong before their device sent them. They explain mismatches of the receivers in
the same iteration."""
WARMING_UP: Final = ", while warming up"
"""Suffix of Mismatch.what in the warm-up. Its iterations are counted from 0, separately."""
LEAST_REPLAYS: Final = 2  # the second can be compared with the first


class Injection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fault that a launch must cause in its own work, to prove that verification finds it.

    flip_bits: number of random bits to flip in one output; 0: none. stuck: flip the same bits in every later output
    too. slow_percent: delay added to each block, in percent of its time.
    """

    flip_bits: int = 0
    stuck: bool = False
    slow_percent: float = 0.0


class Element(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One element that differed: offset in elements, and the expected and found bits in hexadecimal.

    Elements are numbers of a product or sum, 32-bit halves of copied numbers, 64-bit words of memory, or the gradients
    of a replay, with digests instead of bits.
    """

    offset: int
    expected: str
    found: str


class Mismatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wrong output, and the findings of its examination.

    what: name of the check that failed. at_ns: monotonic. iteration: in the measurement, or in the warm-up if `what`
    ends with WARMING_UP, from 0; 0 before the warm-up. elements, bits: number that differ. Both are 0 before the
    examination, and if a product or transfer was right when read again; bits is always 0 in the check `replay` of
    training steps. first: up to KEPT_ELEMENTS that differ. same_when_read_again: False if another reading gave other
    bits. True before the examination. repeated: number of repetitions. wrong_again: number of repetitions that were
    wrong too. Both are 0 if the process ended before them. beyond_rounding: True if elements of a product differ by
    more than rounding from an fp64 computation on the CPU. None for other outputs, and if no element differed when read
    again. sender: UUID of the device that sent the copy; None if no device sent it. of_all: the output is a sum over
    all devices of the cell.
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
    """Line of a launch's file `mismatches`. at: index of the mismatch. The last line with this index is valid."""

    at: int
    mismatch: Mismatch


class MemoryShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of a memory test. covered: tested. taken: allocated for the test.

    whole: free memory of a GPU before that allocation. On a CPU device it equals `taken`.
    """

    covered: int
    taken: int
    whole: int


class Verification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Verification of the outputs of one launch.

    key: device, architecture, driver, libraries, MIG; digests are compared only between launches with equal keys.
    digests: of the outputs that every launch must reproduce, by pair of operands or by training step. losses: of these
    steps, as hexadecimal floats. patterns: pattern of a memory test → number of complete passes. share: bytes of memory
    that were tested, allocated and free; memory tests only. method: how outputs were compared, in words. checks: number
    of comparisons. operations: number of verified floating-point operations. verified_bytes: bytes of memory or
    transfers. mismatches: number of all mismatches; kept: details of the first KEPT_MISMATCHES. not_tested: check that
    was omitted → reason.
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
