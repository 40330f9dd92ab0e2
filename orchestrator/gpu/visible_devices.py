"""The GPUs that CUDA_VISIBLE_DEVICES leaves visible, by the rules of CUDA and torch. Pure.

An entry is an index, or the first characters of the UUID of exactly one GPU or MIG slice. An unknown entry hides itself
and all after it. A repeated entry, or an empty value, hides everything. Slices that are named all count, although a
CUDA process sees one: each gets a process of its own.

Indices are in NVML's order with CUDA_DEVICE_ORDER=PCI_BUS_ID, or if all GPUs are identical. Otherwise they are refused.
"""

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.errors import DeviceError
from protocol.cell import Device

_INDEX: Final = re.compile(r"\s*\+?(\d+)")
_BUS_ORDER: Final = "PCI_BUS_ID"


def visible_gpus(
    gpus: Sequence[Device | None], visible: str | None, order: str | None, slices: Sequence[Device] = ()
) -> tuple[Device | None, ...]:
    """Return the GPUs and slices that CUDA_VISIBLE_DEVICES names, in its order. All `gpus` if it is None (unset).

    visible: CUDA_VISIBLE_DEVICES. gpus: all, in NVML's order. One that cannot be opened is None, also in the result.
    order: CUDA_DEVICE_ORDER, None if unset. slices: all MIG slices. Raises DeviceError if `visible` has indices in an
    order that only CUDA knows.
    """
    if visible is None:
        return tuple(gpus)
    everything = (*gpus, *slices)
    chosen: list[int] = []
    for entry in visible.split(","):
        place = _place(gpus, everything, entry.strip(), visible, order)
        if place is None:
            break
        if place in chosen:
            return ()
        chosen.append(place)
    return tuple(everything[place] for place in chosen)


def _place(
    gpus: Sequence[Device | None], everything: Sequence[Device | None], entry: str, visible: str, order: str | None
) -> int | None:
    """Return the index in `everything` of the device that an entry of `visible` names; None if none or several match.

    entry: index, or start of a UUID. gpus: all GPUs, in NVML's order. everything: `gpus`, then MIG slices. An index
    names only GPUs. visible: CUDA_VISIBLE_DEVICES. order: CUDA_DEVICE_ORDER, None if unset. Raises DeviceError for an
    index in an order that only CUDA knows.
    """
    number = _INDEX.match(entry)
    if number is None:
        places = [place for place, gpu in enumerate(everything) if gpu and entry and gpu.uuid.startswith(entry)]
        return places[0] if len(places) == 1 else None
    index = int(number[1])
    if index >= len(gpus):
        return None
    _require_known_order(gpus, visible, order)
    return index


def _require_known_order(gpus: Sequence[Device | None], visible: str, order: str | None) -> None:
    names = sorted({gpu.name for gpu in gpus if gpu})
    if len(names) > 1 and order != _BUS_ORDER:
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={visible} is ambiguous: CUDA counts the fastest GPU first, and this machine has "
            f"different models ({', '.join(names)}). Set CUDA_DEVICE_ORDER=PCI_BUS_ID to count like nvidia-smi, or use "
            "UUIDs."
        )
