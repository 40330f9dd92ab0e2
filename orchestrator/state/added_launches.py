"""Which launches are added because those so far leave a GPU SUSPECT. Pure.

    all that was planned is done ──▶ who is SUSPECT, and in which cells? (analysis/stragglers.py)
              ▲                          │ in none: no more                     │ in some
              └── done, and looked at ◀──┴── one more round of these cells, on every GPU that has them

A round at a time, so that it ends as soon as nobody is SUSPECT, and at the latest with MOST_LAUNCHES of a cell. It is a
round like those of the plan: in random order by the stored seed, the same on every GPU, each mode by itself (turns.py).
All identical GPUs make it, the sound ones too: who is suspected is held against their median, which is known no better
than the least launched of them; what is measured loaded needs them at work; and all then drift alike. For that a GPU
that was out of the run for a while does not catch up: it would make loaded launches beside idle siblings.

The journal has each round (records.Added) before its first launch, so that a resumed run makes the same ones.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.config.run_configuration import Configuration, Slot
from orchestrator.config.workloads import WORKLOADS
from orchestrator.state import gangs, turns
from orchestrator.state.slots import RunState, SlotState, SlotStatus, is_skipped, rounds, wait_in_vain
from orchestrator.stats.siblings import LEAST_GPUS, MOST_LAUNCHES
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode


@dataclass(frozen=True)
class Doubt:
    """A cell that leaves a GPU SUSPECT. cells: its ids, on every identical GPU of the run."""

    gpu: str
    cells: tuple[str, ...]


def applies(configuration: Configuration, devices: Iterable[Device]) -> bool:
    """Whether anything may be added at all: never where cells have a length, and go on for a time."""
    return configuration.cell_s is None and configuration.adds_launches and bool(judged(devices))


def judged(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The GPUs of which there are enough that are identical for one of them to be SUSPECT."""
    whole = [device for device in devices if device.kind is DeviceKind.CUDA and device.slice_of is None]
    kinds = Counter((device.name, device.memory_total_bytes) for device in whole)
    return tuple(device for device in whole if kinds[device.name, device.memory_total_bytes] >= LEAST_GPUS)


def at_most(cells: Iterable[Cell], launches: int, devices: Sequence[Device]) -> int:
    """How many launches of these planned cells may be added, each of which has so many in the plan; of loads none."""
    among = {device.uuid for device in judged(devices)}
    several = [cell for cell in cells if cell.devices[0] in among and WORKLOADS[cell.workload].sibling_verdict]
    return sum(cell.batch_size != AUTO for cell in several) * max(MOST_LAUNCHES - launches, 0)


def decide(
    state: RunState,
    doubts: Iterable[Doubt],
    *,
    seed: int,
    left_s: float = math.inf,
    expected_s: Callable[[Cell], float] = lambda _: 0.0,
) -> tuple[Slot, ...]:
    """The launches to add, in the order in which each device makes its own; none where nothing is, or may be, settled.

    left_s: until the time of the run is up. expected_s: what a launch will take. A mode for which there is no time as a
    whole is left out, for half a round settles nothing: solo launches take as long as all GPUs one after the other.
    """
    several = sorted({doubt.cells for doubt in doubts})
    found: list[Slot] = []
    for mode in state.modes:
        mine = [cells for cells in several if state.cells[cells[0]].mode is mode]
        more = _round(state, mine, seed)
        needed_s = _lasts_s([state.cells[cell] for cell, _ in more], mode, expected_s)
        if needed_s <= left_s:
            left_s -= needed_s
            found += more
    return tuple(sorted(found, key=lambda slot: turns.of(state, slot)))


def added(state: RunState, slots: Iterable[Slot]) -> RunState:
    """The state with more launches of planned cells, each behind what waits on its device."""
    for slot in slots:
        if slot in state.slots:
            continue
        cell = state.cells[slot[0]]
        waits = SlotState(batch_size=cell.batch_size)
        tally = {**state.tally, SlotStatus.WAITING: state.tally[SlotStatus.WAITING] + 1}
        state = msgspec.structs.replace(state, slots=state.slots.but(slot, waits), tally=tally)
        state = gangs.into(state, slot, {uuid: len(state.devices[uuid].queue) for uuid in cell.devices})
    return msgspec.structs.replace(state, in_vain=wait_in_vain(state)) if state.skipped else state


def _round(state: RunState, several: Iterable[tuple[str, ...]], seed: int) -> list[Slot]:
    """One more round of each of these cells, given by their ids on all GPUs, that has not had all it may have."""
    made: list[tuple[int, list[str]]] = []
    for ids in several:
        useful = [one for one in ids if _is_useful(state, state.cells[one])]
        most = max((rounds(state, one) for one in useful), default=MOST_LAUNCHES)
        if most < MOST_LAUNCHES:
            made.append((most, useful))
    random.Random(f"{seed}/{sum(state.tally.values())}").shuffle(made)
    last = state.launches[max(state.launches)][0] if state.launches else ""
    if made and last in made[0][1]:
        made.append(made.pop(0))  # no two launches of a cell in a row, where there is another one
    return [(one, number) for number, ids in made for one in ids]


def _is_useful(state: RunState, cell: Cell) -> bool:
    """Whether a launch of it would tell something: not where none has so far, and a scan is made of many already."""
    if cell.batch_size == AUTO or is_skipped(state, cell):
        return False
    out = any(state.devices[uuid].quarantined for uuid in cell.devices)
    made = (state.slots.get((cell.id, number)) for number in range(rounds(state, cell.id)))
    return not out and any(slot is not None and slot.status is SlotStatus.MEASURED for slot in made)


def _lasts_s(cells: Iterable[Cell], mode: Mode, expected_s: Callable[[Cell], float]) -> float:
    """Seconds for these launches of one mode: side by side, or one after the other."""
    lasts: dict[str, float] = defaultdict(float)
    for cell in cells:
        lasts[cell.devices[0]] += expected_s(cell)
    return sum(lasts.values()) if mode is Mode.SOLO else max(lasts.values(), default=0.0)
