"""What CUDA_VISIBLE_DEVICES leaves of a machine's GPUs. Pure; follows CUDA and torch, without asking either.

An entry is an index, or the beginning of a UUID that fits one GPU alone. The first entry that names no GPU hides
itself and all after it; an entry that names a GPU again hides everything; an empty value hides everything.

An index counts in CUDA's order. That is NVML's order (by PCI address) with CUDA_DEVICE_ORDER=PCI_BUS_ID and on a node
of identical GPUs. Otherwise CUDA sorts by its own guess of speed, which NVML cannot know: then indices are refused,
because measuring another GPU than was meant is worse than asking.
"""

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.errors import DeviceError
from protocol.cell import Device

_INDEX: Final = re.compile(r"\s*\+?(\d+)")
_BUS_ORDER: Final = "PCI_BUS_ID"


def visible_gpus(gpus: Sequence[Device | None], visible: str | None, order: str | None) -> tuple[Device | None, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; all of them where it is not set.

    gpus: in NVML's order, None for one that cannot be opened. order: CUDA_DEVICE_ORDER, None where it is not set.
    Raises DeviceError for MIG slices, and for indices whose order only CUDA knows.
    """
    if visible is None:
        return tuple(gpus)
    chosen: list[int] = []
    for entry in visible.split(","):
        index = _place(gpus, entry.strip(), visible, order)
        if index is None:
            break
        if index in chosen:
            return ()
        chosen.append(index)
    return tuple(gpus[index] for index in chosen)


def _place(gpus: Sequence[Device | None], entry: str, visible: str, order: str | None) -> int | None:
    """Place in `gpus` of what an entry names, None when it names no GPU, or more than one."""
    if entry.startswith("MIG-"):
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={visible} names a MIG slice; those are not supported yet. Name whole GPUs in it."
        )
    number = _INDEX.match(entry)
    if number is None:
        places = [place for place, gpu in enumerate(gpus) if gpu and entry and gpu.uuid.startswith(entry)]
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
            f"CUDA_VISIBLE_DEVICES={visible} counts GPUs in CUDA's order, fastest first, and this machine has "
            f"different ones ({', '.join(names)}). Set CUDA_DEVICE_ORDER=PCI_BUS_ID to count as nvidia-smi does, or "
            "put UUIDs into CUDA_VISIBLE_DEVICES."
        )
