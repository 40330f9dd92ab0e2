"""Whose fault wrong bits are that were found on the way from one device to another. Pure.

    a device's own numbers were wrong before it sent them ──▶ that device, and what others received of these follows
    it had anything else wrong by itself ───────────────────▶ that device: it explains its copies; the others are open
    copies between that device and others, in any launch ───▶ that device: it explains them too; the others are open
    the same of one that another check has proven faulty ───▶ likewise
    copies between one device and several others ───────────▶ that device: it explains them all; the others are open
    copies between two devices, which nothing else explains ▶ their link: either of the two, or what lies between
    a sum that is wrong on one device, and no copy ─────────▶ that device, or the way to it: in a ring the last hop
    a sum that is wrong on several, and no copy ────────────▶ nobody knows: what one of them gave is in all of them
    a sum that is wrong, and copies of others too ──────────▶ nobody knows: it may follow from them, or be its own
    a sum that is wrong, and another one is to blame ───────▶ probably that one: what it gave is in the sums of all
    a sum that is wrong, and the launch was cut off ────────▶ nobody knows: others may not have come to look at theirs

A fault that comes and goes shows in one copy of a launch, and in another one of the next: so the copies of the whole
night are looked at together. With two devices there is nobody to hold them against: a wrong copy is their link's.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from protocol.verification import BEFORE_SENT, WARMING_UP, Mismatch, Verification

_Pairs = frozenset[frozenset[str]]
"""Two devices each, between which a copy was wrong, whichever of them sent it."""


@dataclass(frozen=True)
class Blamed:
    """A mismatch that counts against `device`.

    ends: of a copy, sender and receiver. link: it may be either of them, or what lies between, and counts against both.
    doubtful: it may follow from what counts against others. culprit: the device whose fault it probably is;
    of a sum, another one.
    """

    device: str
    mismatch: Mismatch
    ends: tuple[str, str] | None = None
    link: bool = False
    doubtful: bool = False
    culprit: str | None = None


def culprits(launches: Sequence[Mapping[str, Verification]], proven: Collection[str] = ()) -> dict[str, int]:
    """Devices that explain the wrong copies of a night → with how many others they had such; 0: its own were wrong.

    launches: what each device has found in each of them, of links alone. proven: devices that other checks of the
    night have proven faulty.
    A device that had its own numbers wrong, in a transfer or elsewhere, explains all of its copies. Copies that have no
    device in common are looked at each for themselves. Of what is left of those that have, the fewest devices that are
    in all of them are to blame, where no others are as few; each of these has two others at least, or the one other
    would do as well. Where others are as few, those that would be to blame if nothing were known of any device.
    """
    own = {device for seen in launches for device, one in seen.items() if any(_own(device, one))} | {*proven}
    wrong = frozenset(frozenset(pair) for seen in launches for pair in _copies(seen))
    found = {device for together in _connected(wrong) for device in _beside(own, together)} - own
    return {device: sum(device in pair for pair in wrong if device in found) for device in sorted(found | own)}


def blamed(seen: Mapping[str, Verification], culprits: Collection[str], *, cut_off: bool = False) -> list[Blamed]:
    """What counts against whom in one launch. seen: device → what it has found. culprits: of its whole night.

    cut_off: it ended before its result.
    """
    found = [Blamed(device, one) for device, verification in seen.items() for one in _own(device, verification)]
    for ends, wrong in _copies(seen).items():
        found += [one for mismatch in wrong for one in _of_copy(mismatch, ends, culprits)]
    for_sure = {one.device for one in found if not one.doubtful}
    own = [device for device, verification in seen.items() if any(_own(device, verification))]
    known = [device for device in seen if device in culprits]
    found_sums: list[Blamed] = []
    counted = sum(one.mismatches > 0 for one in seen.values())  # what was not kept may be a sum too
    for device, verification in seen.items():
        others = own or ([] if device in culprits else known)
        doubtful = bool(found or others) or counted > 1 or cut_off
        culprit = others[0] if len(others) == 1 else None
        if device not in for_sure:
            sums = (one for one in verification.kept if one.of_all)
            found_sums += [Blamed(device, one, doubtful=doubtful, culprit=culprit) for one in sums]
    return found + found_sums


def _own(device: str, verification: Verification) -> Iterator[Mismatch]:
    """What a device had wrong without any other."""
    return (one for one in verification.kept if not one.of_all and one.sender in {None, device})


def _copies(seen: Mapping[str, Verification]) -> dict[tuple[str, str], list[Mismatch]]:
    """Sender and receiver → what was wrong, and had not been before it was sent."""
    found: dict[tuple[str, str], list[Mismatch]] = defaultdict(list)
    for receiver, verification in seen.items():
        for one in verification.kept:
            sender = one.sender
            if one.of_all or sender is None or sender == receiver:
                continue
            if sender not in seen or not _was_wrong_before(seen[sender], one):
                found[sender, receiver].append(one)
    return found


def _was_wrong_before(sent: Verification, copy: Mismatch) -> bool:
    """Whether a device's numbers were wrong before it sent them, in the iteration of a copy.

    Of one that errs so often that not all details are kept, those behind the last of them are taken for more of it.
    """
    wrong = [_when(one) for one in sent.kept if one.what.startswith(BEFORE_SENT)]
    more = bool(wrong) and sent.mismatches > len(sent.kept)
    return _when(copy) in wrong or (more and _when(copy) > _when(sent.kept[-1]))


def _when(one: Mismatch) -> tuple[bool, int]:
    """Whether it was measured by then, and the iteration: in order of time."""
    return not one.what.endswith(WARMING_UP), one.iteration


def _of_copy(mismatch: Mismatch, ends: tuple[str, str], culprits: Collection[str]) -> Iterator[Blamed]:
    known = [end for end in ends if end in culprits]
    for end in ends:
        if len(known) == 1:
            yield Blamed(end, mismatch, ends, doubtful=end not in known, culprit=known[0])
        else:
            yield Blamed(end, mismatch, ends, link=True)


def _connected(wrong: _Pairs) -> Iterator[_Pairs]:
    """The pairs, those together that have devices in common."""
    left = set(wrong)
    while left:
        together = {left.pop()}
        while near := {pair for pair in left if any(pair & other for other in together)}:
            together |= near
            left -= near
        yield frozenset(together)


def _beside(known: Collection[str], together: _Pairs) -> Iterator[str]:
    """The fewest devices that explain what those that are known do not; where others are as few, as if none were."""
    left = frozenset(pair for pair in together if pair.isdisjoint(known))
    for part in _connected(left):
        yield from _explaining(part) or _explaining(together) & frozenset[str]().union(*part)


def _explaining(wrong: _Pairs) -> frozenset[str]:
    """The fewest devices of which every pair has one; none where others are as few."""
    for most in range(1, len(wrong) + 1):
        match list(islice(_in_all(wrong, most), 2)):
            case []:
                continue
            case [only]:
                return only
            case _:
                break
    return frozenset()


def _in_all(wrong: _Pairs, most: int) -> Iterator[frozenset[str]]:
    """Every choice of at most so many devices of which each pair has one: the busiest, or all it had such with."""
    if not wrong:
        yield frozenset()
        return
    devices = frozenset[str]().union(*wrong)
    counts = {device: sum(device in pair for pair in wrong) for device in sorted(devices)}
    busiest = max(counts, key=lambda device: counts[device])
    if most * counts[busiest] < len(wrong):
        return  # even as many as the busiest each would not do
    others = frozenset[str]().union(*(pair for pair in wrong if busiest in pair)) - {busiest}
    for taken in (frozenset({busiest}), others):
        if len(taken) <= most:
            left = frozenset(pair for pair in wrong if not pair & taken)
            yield from (taken | more for more in _in_all(left, most - len(taken)))
