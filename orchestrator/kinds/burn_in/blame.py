"""Attribute bits that went wrong on the way between devices to one of these devices. Pure.

    numbers of a device wrong before it sent them ──────▶ that device; wrong copies of these numbers are consequences
    another wrong result of one device, in any launch ──▶ that device; it also explains wrong copies from or to it
    device proven faulty by another check ──────────────▶ that device; it also explains wrong copies from or to it
    copies between one device and several others wrong ─▶ that device explains them all
    copies between two devices wrong, not explained ────▶ their link: either device, or the path between them
    a sum wrong on one device, no copy wrong ───────────▶ that device, or the path to it (in a ring: the last hop)
    a sum wrong on several devices, no copy wrong ──────▶ unknown: each sum contains numbers of every device
    a sum and a copy wrong in the same launch ──────────▶ unknown: the wrong copy may have caused the wrong sum
    a sum wrong, and another device is to blame ────────▶ probably that other device
    a sum wrong in a launch that was cut off ───────────▶ unknown: other devices may not have checked their sums

An intermittent fault hits another copy in each launch, so the copies of the whole burn-in are combined.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from protocol.verification import BEFORE_SENT, WARMING_UP, Mismatch, Verification

_Pairs = frozenset[frozenset[str]]  # Pairs of devices with a wrong copy, in either direction


@dataclass(frozen=True)
class Blamed:
    """A mismatch that counts against `device`.

    ends: (sender, receiver) of a wrong copy; None if it is no copy. link: either end or the path between is at fault,
    so the mismatch counts against both. doubtful: it may follow from another device's fault. culprit: the device that
    is probably at fault; None if unknown.
    """

    device: str
    mismatch: Mismatch
    ends: tuple[str, str] | None = None
    link: bool = False
    doubtful: bool = False
    culprit: str | None = None


def culprits(launches: Sequence[Mapping[str, Verification]], proven: Collection[str] = ()) -> dict[str, int]:
    """Return device that explains wrong copies → number of devices with which its copies were wrong.

    The number is 0 for a device proven faulty by its own wrong numbers or by another check. Such a device explains all
    its wrong copies. The remaining wrong copies are explained by the smallest set of devices that has the sender or
    receiver of each; if there are several such sets, by nothing. This is decided for each group of devices that wrong
    copies connect. launches: for each check of links, device → what it verified. proven: devices that other checks
    proved faulty. Devices are UUIDs.
    """
    own = {device for seen in launches for device, one in seen.items() if any(_own(device, one))} | {*proven}
    wrong = frozenset(frozenset(pair) for seen in launches for pair in _copies(seen))
    found = {device for together in _connected(wrong) for device in _beside(own, together)} - own
    return {device: sum(device in pair for pair in wrong if device in found) for device in sorted(found | own)}


def blamed(seen: Mapping[str, Verification], culprits: Collection[str], *, cut_off: bool = False) -> list[Blamed]:
    """Return the mismatches of a launch on several devices, each with the device that it counts against.

    A wrong copy is returned twice, for its sender and its receiver; `doubtful` marks the end that is probably not at
    fault. Omitted are mismatches without details, copies of numbers that were wrong before they were sent, and wrong
    sums of a device that another mismatch counts against without doubt. seen: device → what it verified. culprits:
    devices that explain wrong copies. cut_off: the launch ended before its result, so some sums may not have been
    checked.
    """
    found = [Blamed(device, one) for device, verification in seen.items() for one in _own(device, verification)]
    for ends, wrong in _copies(seen).items():
        found += [one for mismatch in wrong for one in _of_copy(mismatch, ends, culprits)]
    for_sure = {one.device for one in found if not one.doubtful}
    own = [device for device, verification in seen.items() if any(_own(device, verification))]
    known = [device for device in seen if device in culprits]
    found_sums: list[Blamed] = []
    counted = sum(one.mismatches > 0 for one in seen.values())  # a mismatch without details may be a sum too
    for device, verification in seen.items():
        others = own or ([] if device in culprits else known)
        doubtful = bool(found or others) or counted > 1 or cut_off
        culprit = others[0] if len(others) == 1 else None
        if device not in for_sure:
            sums = (one for one in verification.kept if one.of_all)
            found_sums += [Blamed(device, one, doubtful=doubtful, culprit=culprit) for one in sums]
    return found + found_sums


def _own(device: str, verification: Verification) -> Iterator[Mismatch]:
    return (one for one in verification.kept if not one.of_all and one.sender in {None, device})


def _copies(seen: Mapping[str, Verification]) -> dict[tuple[str, str], list[Mismatch]]:
    """Return (sender, receiver) → wrong copies. Copies of numbers that were wrong before they were sent are omitted.

    seen: device UUID → what it verified in one launch. The receiver of a copy verifies it.
    """
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
    """Whether the numbers of a wrong copy were wrong before they were sent. sent: what their sender verified.

    The sender keeps details of only its first mismatches. If it had more, all its later numbers count as wrong.
    """
    wrong = [_when(one) for one in sent.kept if one.what.startswith(BEFORE_SENT)]
    more = bool(wrong) and sent.mismatches > len(sent.kept)
    return _when(copy) in wrong or (more and _when(copy) > _when(sent.kept[-1]))


def _when(one: Mismatch) -> tuple[bool, int]:
    return not one.what.endswith(WARMING_UP), one.iteration


def _of_copy(mismatch: Mismatch, ends: tuple[str, str], culprits: Collection[str]) -> Iterator[Blamed]:
    known = [end for end in ends if end in culprits]
    for end in ends:
        if len(known) == 1:
            yield Blamed(end, mismatch, ends, doubtful=end not in known, culprit=known[0])
        else:
            yield Blamed(end, mismatch, ends, link=True)


def _connected(wrong: _Pairs) -> Iterator[_Pairs]:
    left = set(wrong)
    while left:
        together = {left.pop()}
        while near := {pair for pair in left if any(pair & other for other in together)}:
            together |= near
            left -= near
        yield frozenset(together)


def _beside(known: Collection[str], together: _Pairs) -> Iterator[str]:
    """Yield the fewest devices that, together with `known`, explain all wrong copies; none if that is ambiguous.

    known: devices that are faulty for certain. together: pairs of devices with a wrong copy.
    """
    left = frozenset(pair for pair in together if pair.isdisjoint(known))
    for part in _connected(left):
        yield from _explaining(part) or _explaining(together) & frozenset[str]().union(*part)


def _explaining(wrong: _Pairs) -> frozenset[str]:
    """Return the smallest set that contains a device of each pair. Empty if several sets are equally small."""
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
    """Yield sets of at most `most` devices that contain a device of each pair. All the smallest sets are among them."""
    if not wrong:
        yield frozenset()
        return
    devices = frozenset[str]().union(*wrong)
    counts = {device: sum(device in pair for pair in wrong) for device in sorted(devices)}
    busiest = max(counts, key=lambda device: counts[device])
    if most * counts[busiest] < len(wrong):
        return  # even `most` devices with as many pairs as the busiest cannot cover all
    others = frozenset[str]().union(*(pair for pair in wrong if busiest in pair)) - {busiest}
    for taken in (frozenset({busiest}), others):
        if len(taken) <= most:
            left = frozenset(pair for pair in wrong if not pair & taken)
            yield from (taken | more for more in _in_all(left, most - len(taken)))
