"""What launches of a burn-in found wrong, made up."""

import msgspec

from protocol.verification import Mismatch

_ONE = Mismatch(
    what="product",
    at_ns=1,
    iteration=0,
    elements=1,
    bits=1,
    first=(),
    same_when_read_again=True,
    repeated=10,
    wrong_again=0,
)


def mismatch(**changes: object) -> Mismatch:
    """One wrong bit of one element, seen once: never again in ten repetitions."""
    return msgspec.structs.replace(_ONE, **changes)
