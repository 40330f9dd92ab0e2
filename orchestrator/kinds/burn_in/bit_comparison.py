"""Whether launches that had to give the same bits gave the same bits: between rounds, and between GPUs. Pure.

    launches of one cell with the same key ──▶ what each GPU gave most often ──▶ what most GPUs gave
                                                     │ a launch that differs: this GPU, this round
                                                     └ a GPU that differs: this GPU, or nobody knows which

The key names everything that may change the bits of a correct product: the model of the GPU, the driver, the libraries,
and the batch size.
Launches are compared within a key alone, so that another algorithm is no fault. Where no output is given by more than
half of the GPUs of a key, somebody is wrong and comparing cannot tell who: nothing is claimed of any of them. But a GPU
that has no usual bits contradicts itself: where all others usually give the same, and more than half of all GPUs gave
it at least once, that is right. So whoever always gives the same is only ever outvoted by more than half of all GPUs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Digests = tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """What one launch gave. cell: the same for all devices. key: see protocol.verification.Verification.

    begun: when the launch began, by the calendar.
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
    """A launch that gave other bits than it had to.

    at: position of the first digest that differs. against: how many launches, or GPUs, gave the same other bits.
    of: how many were compared. between_gpus: other GPUs say so; else other rounds of the same GPU.
    """

    sample: Sample
    at: int
    against: int
    of: int
    between_gpus: bool


@dataclass(frozen=True)
class Comparison:
    """deviations: of launches, the earliest first. undecided: cell and key → devices that disagree without a
    majority.

    compared: device → launches of it that were compared with another one's bits. alone: device → cells that no other
    device did with the same key.
    """

    deviations: tuple[Deviation, ...]
    undecided: Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]]
    compared: Mapping[str, int]
    alone: Mapping[str, tuple[str, ...]]


def compare(samples: Sequence[Sample]) -> Comparison:
    """Hold every launch against the others of its cell and key. Samples without digests say nothing."""
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
    """Cells of a device in which nobody can say what is right, and why not."""
    for (cell, _), devices in compared.undecided.items():
        if devices == (device,):
            yield f"{cell}: its rounds disagree, and no majority of them says which is right"
        elif device in devices:
            yield f"{cell}: GPUs of one kind disagree, and no majority says which is right"


def not_tested(device: str, compared: Comparison, cells: int) -> dict[str, str]:
    """What → why: bits of a device that no other one's were held against. cells: that it gave bits of.

    Wrong alike in every round is then found by the check of truth alone.
    """
    alone = dict.fromkeys(compared.alone.get(device, ()))
    if not alone:
        return {}
    which = "" if len(alone) == cells else f"{', '.join(alone)}: "
    rounds = "" if compared.compared.get(device) else ", and its own in one round alone"
    why = f"{which}no other one has its model, driver, libraries and batch size here{rounds}"
    return {"bits against other devices'": why}


def _by_device(group: Sequence[Sample]) -> dict[str, list[Digests]]:
    found: dict[str, list[Digests]] = defaultdict(list)
    for sample in group:
        found[sample.device].append(sample.digests)
    return found


def _most(given: Sequence[Digests]) -> Digests | None:
    """What a device gave in more than half of its launches; None where it gave nothing that often."""
    digests, times = Counter(given).most_common(1)[0]
    return digests if times * 2 > len(given) else None


def _majority(group: Sequence[Sample], usual: Mapping[str, Digests | None]) -> tuple[Digests | None, int]:
    """What more than half of the devices usually give, and how many do. One device is its own majority.

    Else what all give that have usual bits, where more than half of the devices gave it at least once; and how many
    did. It speaks against none that always gives the same.
    """
    known = Counter(digests for digests in usual.values() if digests is not None)
    for digests, votes in known.most_common(1):
        if votes * 2 > len(usual):
            return digests, votes
        gave = len({sample.device for sample in group if sample.digests == digests})
        if len(known) == 1 and gave * 2 > len(usual):
            return digests, gave
    return None, 0


def _deviations(
    group: Sequence[Sample], usual: Mapping[str, Digests | None], right: Digests | None, votes: int
) -> Iterator[Deviation]:
    """Launches that gave other bits than most GPUs, or, without a majority of GPUs, than their own GPU usually does."""
    for sample in group:
        expected = usual[sample.device] if right is None else right
        if expected is None or sample.digests == expected:
            continue
        between = right is not None and len(usual) > 1
        own = [one for one in group if one.device == sample.device]
        yield Deviation(
            sample=sample,
            at=_first_difference(sample.digests, expected),
            against=votes if between else sum(one.digests == expected for one in own),
            of=len(usual) if between else len(own),
            between_gpus=between,
        )


def _first_difference(found: Digests, expected: Digests) -> int:
    """Position of the first digest that differs; that of the first one missing where one is shorter."""
    return next(at for at, (one, other) in enumerate(zip_longest(found, expected)) if one != other)
