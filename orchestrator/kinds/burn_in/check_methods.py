"""How the launches of a check on one device compared outputs: each way once, and where they did not agree. Pure.

A digest is tried in each process, and replaced where it fails the trial (worker/verify/digest.py). On one device, with
the same libraries, it fails always or never: once is a sign of a fault.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from protocol.verification import Verification

_SHARE: Final = re.compile(r"[\d.]+ % of the time")
"""What comparing took, which differs from launch to launch."""


def joined(launches: Sequence[Verification]) -> str:
    """Every way once, as the first launch has it that went it; empty without a launch."""
    found: dict[str, str] = {}
    for one in launches:
        found.setdefault(_way(one), one.method)
    return "; ".join(found.values())


def not_tested(cells: Mapping[str, Sequence[Verification]]) -> dict[str, str]:
    """What → why, for cells of one device whose launches compared in several ways. cells: by name."""
    found = {}
    for name, launches in cells.items():
        ways = Counter(map(_way, launches))
        if len(ways) > 1:
            (_, most), *others = ways.most_common()
            told = ", ".join(f"{way} in {count}" for way, count in others)
            found[f"{name} in one way all night"] = (
                f"{told} of {most + sum(count for _, count in others)} launches; the same way is right always or never "
                "on a sound GPU, so test it again"
            )
    return found


def _way(one: Verification) -> str:
    return _SHARE.sub("", one.method).rstrip(", ")
