"""Compare launches that had to give the same bits, between rounds and between GPUs. Pure.

A key names what may change correct bits: GPU model, driver, libraries, batch size. A GPU usually gives the bits that
more than half of its launches gave. Bits are right if more than half of the GPUs with the same key usually give them.
They are also right if more than half gave them at least once, some GPU usually gives them, and no GPU usually gives
other bits.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Digests = tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """Digests (hashes) of one launch's outputs. device: UUID. cell: name without the device. round: from 0.

    key: facts that may change correct bits, such as GPU model, driver, libraries and batch size. Only samples with the
    same cell and key are compared. launch: its number in the run. begun: its start, ISO 8601 in UTC.
    """

    device: str
    cell: str
    round: int
    launch: int
    key: tuple[str, ...]
    digests: Digests
    begun: str = ""


@dataclass(frozen=True)
class Deviation:
    """A launch with unexpected bits. Expected are the right bits or, if unknown, the usual bits of its device.

    at: index of the first digest that differs. between_gpus: True if devices were compared, False if only the launches
    of this device were. of: number of these devices or launches. against: how many of them gave the expected bits.
    """

    sample: Sample
    at: int
    against: int
    of: int
    between_gpus: bool


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison of all launches. Devices are UUIDs.

    undecided: (cell, key) whose right bits are unknown, because no majority agrees → all devices that ran it. The key
    has facts that may change correct bits, such as GPU model and driver. compared: device → number of its launches for
    which there was another launch to compare. alone: device → cells that no other device ran with the same key.
    """

    deviations: tuple[Deviation, ...]  # in order of launches
    undecided: Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]]
    compared: Mapping[str, int]
    alone: Mapping[str, tuple[str, ...]]


def compare(samples: Sequence[Sample]) -> Comparison:
    """Compare every launch with the others of its cell and key. Samples without digests are ignored."""
    groups: dict[tuple[str, tuple[str, ...]], list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.digests:
            groups[sample.cell, sample.key].append(sample)
    deviations: list[Deviation] = []
    undecided: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    compared: Counter[str] = Counter()
    alone: dict[str, list[str]] = defaultdict(list)
    for (cell, key), group in sorted(groups.items()):
        if len(group) > 1:
            compared.update(sample.device for sample in group)
        usual = {device: _most(own) for device, own in _by_device(group).items()}
        if len(usual) == 1:
            alone[group[0].device].append(cell)
        right, votes = _majority(group, usual)
        if right is None:
            undecided[cell, key] = tuple(sorted(usual))
        deviations.extend(_deviations(group, usual, right, votes))
    deviations.sort(key=lambda one: one.sample.launch)
    return Comparison(
        tuple(deviations), undecided, dict(compared), {device: tuple(own) for device, own in alone.items()}
    )


def undecided(device: str, compared: Comparison) -> Iterator[str]:
    """Yield "<cell>: reason" for each cell of a device (UUID) whose right bits are unknown for want of a majority."""
    for (cell, _), devices in compared.undecided.items():
        if devices == (device,):
            yield f"{cell}: the bits of its rounds differ, and no majority shows which are right"
        elif device in devices:
            yield f"{cell}: the bits of sibling GPUs differ, and no majority shows which are right"


def not_tested(device: str, compared: Comparison, cells: int) -> dict[str, str]:
    """Return {"bits compared with other devices": reason} if at least one cell had no other device to compare, else {}.

    That is a cell of `device` (UUID) that no other device ran with the same GPU model, driver, libraries and batch
    size. cells: number of the device's cells with digests. The reason names such cells, unless they are all of them.
    """
    alone = dict.fromkeys(compared.alone.get(device, ()))
    if not alone:
        return {}
    which = "" if len(alone) == cells else f"{', '.join(alone)}: "
    rounds = "" if compared.compared.get(device) else ", and only one round of its own has bits"
    why = f"{which}no other device of this run has the same model, driver, libraries and batch size{rounds}"
    return {"bits compared with other devices": why}


def _by_device(group: Sequence[Sample]) -> dict[str, list[Digests]]:
    by_device: dict[str, list[Digests]] = defaultdict(list)
    for sample in group:
        by_device[sample.device].append(sample.digests)
    return by_device


def _most(digests_of_launches: Sequence[Digests]) -> Digests | None:
    digests, times = Counter(digests_of_launches).most_common(1)[0]
    return digests if times * 2 > len(digests_of_launches) else None


def _majority(group: Sequence[Sample], usual: Mapping[str, Digests | None]) -> tuple[Digests | None, int]:
    """Return (right digests of a cell, number of devices in their favour); (None, 0) if the right ones are unknown.

    group: all samples of one cell and key. usual: device → the digests that more than half of its launches gave; None
    without such digests. Digests are right if more than half of the devices usually give them. Then these devices are
    counted. Digests are also right if more than half of the devices gave them at least once, some device usually gives
    them, and no device usually gives others. Then the devices that gave them at least once are counted.
    """
    usual_counts = Counter(digests for digests in usual.values() if digests is not None)
    for digests, votes in usual_counts.most_common(1):
        if votes * 2 > len(usual):
            return digests, votes
        gave = len({sample.device for sample in group if sample.digests == digests})
        if len(usual_counts) == 1 and gave * 2 > len(usual):
            return digests, gave
    return None, 0


def _deviations(
    group: Sequence[Sample], usual: Mapping[str, Digests | None], right: Digests | None, votes: int
) -> Iterator[Deviation]:
    for sample in group:
        expected = usual[sample.device] if right is None else right
        if expected is None or sample.digests == expected:
            continue
        between = right is not None and len(usual) > 1
        own = [one for one in group if one.device == sample.device]
        yield Deviation(
            sample=sample,
            at=next(at for at, (one, other) in enumerate(zip_longest(sample.digests, expected)) if one != other),
            against=votes if between else sum(one.digests == expected for one in own),
            of=len(usual) if between else len(own),
            between_gpus=between,
        )
