"""Whose fault wrong bits are that were found on the way from one device to another. Pure.

    a device's own numbers were wrong before it sent them ──▶ that device, and whatever others received of them follows
    wrong wherever one device sent to ──────────────────────▶ the sender
    wrong from wherever one device received ────────────────▶ the receiver
    wrong between two of them alone ────────────────────────▶ their link: either of the two, or what lies between
    a sum that is wrong on one device, and no copy ─────────▶ that device, or the way to it: in a ring the last hop
    a sum that is wrong on several, and no copy ────────────▶ nobody knows: what one of them gave is in all of them
    a sum that is wrong, and copies of others too ──────────▶ nobody knows: it may follow from them, or be its own
    a sum that is wrong, and the launch was cut off ────────▶ nobody knows: others may not have come to look at theirs

With two devices there is nobody to hold them against, so that a wrong copy is always their link's.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from protocol.verification import Mismatch, Verification


@dataclass(frozen=True)
class Blamed:
    """A mismatch that counts against `device`.

    ends: of a copy, sender and receiver. link: it may be either of them, or what lies between, and counts against both.
    doubtful: it may follow from what counts against others.
    """

    device: str
    mismatch: Mismatch
    ends: tuple[str, str] | None = None
    link: bool = False
    doubtful: bool = False


def blamed(seen: Mapping[str, Verification], *, cut_off: bool = False) -> list[Blamed]:
    """What counts against whom in one launch. seen: device → what it has found. cut_off: it ended before its result."""
    found: list[Blamed] = []
    pairs: dict[tuple[str, str], list[Mismatch]] = defaultdict(list)
    sums: dict[str, list[Mismatch]] = defaultdict(list)
    for device, verification in seen.items():
        for mismatch in verification.kept:
            if mismatch.of_all:
                sums[device].append(mismatch)
            elif mismatch.sender is not None:
                pairs[mismatch.sender, device].append(mismatch)
            else:
                found.append(Blamed(device, mismatch))
    culprits = {one.device for one in found}
    found += _of_copies({pair: wrong for pair, wrong in pairs.items() if pair[0] not in culprits}, len(seen) - 1)
    blamed_already = {one.device for one in found}
    counted = sum(one.mismatches > 0 for one in seen.values())  # what was not kept may be a sum too
    return found + [
        Blamed(device, mismatch, doubtful=bool(found) or counted > 1 or cut_off)
        for device, wrong in sums.items()
        if device not in blamed_already
        for mismatch in wrong
    ]


def _of_copies(pairs: Mapping[tuple[str, str], list[Mismatch]], others: int) -> list[Blamed]:
    """others: how many devices each one sends to, and receives from."""
    found: list[Blamed] = []
    to: dict[str, set[str]] = defaultdict(set)
    origins: dict[str, set[str]] = defaultdict(set)
    for sender, receiver in pairs:
        to[sender].add(receiver)
        origins[receiver].add(sender)
    senders = {one for one, reached in to.items() if len(reached) == others > 1}
    receivers = {one for one, heard in origins.items() if len(heard) == others > 1}
    for (sender, receiver), wrong in pairs.items():
        for mismatch in wrong:
            if sender in senders:
                found.append(Blamed(sender, mismatch, (sender, receiver)))
            elif receiver in receivers:
                found.append(Blamed(receiver, mismatch, (sender, receiver)))
            else:
                found += [Blamed(end, mismatch, (sender, receiver), link=True) for end in (sender, receiver)]
    return found
