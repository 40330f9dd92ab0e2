"""Choose launches (measurements) to add while results leave a GPU SUSPECT (perhaps too slow) or undecided. Pure.

    all planned launches are done ──▶ which GPUs are SUSPECT, in which cells? (analysis/standings.py)
             ▲                          │ none: stop                          │ some
             └── launched and judged ◀──┴── one more round of these cells, on every GPU that has them

All identical GPUs get these launches, so that their median becomes more precise and drift affects all alike.
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
from orchestrator.stats.stragglers import LEAST_GPUS, MOST_LAUNCHES
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode


@dataclass(frozen=True)
class Doubt:
    """A GPU that is in doubt, and the cells to measure once more to settle the doubt.

    gpu: UUID. cells: ids of these cells, on one or several devices. Their launches are added next to one another.
    """

    gpu: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """Doubts about GPUs after the launches so far. word: the doubt, for messages ("SUSPECT", "undecided").

    most: maximum number of launches of a cell, planned ones included. warning: text about doubts that more launches
    will not settle, or "". advice: what to do about those doubts, or "".
    """

    doubts: tuple[Doubt, ...] = ()
    most: int = MOST_LAUNCHES
    word: str = "SUSPECT"
    warning: str = ""
    advice: str = ""


def applies(configuration: Configuration, devices: Iterable[Device]) -> bool:
    """Whether launches may be added: if allowed, in no burn-in, and only if some GPU can become SUSPECT (`judged`)."""
    return configuration.cell_s is None and configuration.adds_launches and bool(judged(devices))


def judged(devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return the GPUs that can become SUSPECT: whole ones (no MIG slices), LEAST_GPUS or more of them identical.

    Identical GPUs have the same name and amount of memory.
    """
    whole = [device for device in devices if device.kind is DeviceKind.CUDA and device.slice_of is None]
    kinds = Counter((device.name, device.memory_total_bytes) for device in whole)
    return tuple(device for device in whole if kinds[device.name, device.memory_total_bytes] >= LEAST_GPUS)


def at_most(cells: Iterable[Cell], launches: int, devices: Sequence[Device]) -> int:
    """Return how many launches may be added to a run at most, in all cells together.

    launches: number of planned launches of each cell. devices: all devices of the run. Each cell may get launches until
    it has MOST_LAUNCHES. Cells of batch size AUTO, or whose GPUs cannot become SUSPECT, get none.
    """
    among = {device.uuid for device in judged(devices)}
    several = [cell for cell in cells if cell.devices[0] in among and WORKLOADS[cell.workload].sibling_verdict]
    return sum(cell.batch_size != AUTO for cell in several) * max(MOST_LAUNCHES - launches, 0)


def decide(
    state: RunState,
    doubts: Iterable[Doubt],
    *,
    seed: int,
    most: int = MOST_LAUNCHES,
    left_s: float = math.inf,
    expected_s: Callable[[Cell], float] = lambda _: 0.0,
) -> tuple[Slot, ...]:
    """Return one more round of the cells in `doubts`, as (cell id, round), in the order in which they should run.

    most: maximum number of launches of a cell, planned ones included; cells that have so many are omitted. So are cells
    of batch size AUTO, skipped ones, and those without a result or with a quarantined device. seed: of the run; decides
    the order. left_s: seconds in which launches may still run; a mode (solo, loaded) whose launches do not all fit is
    omitted. expected_s: returns the estimated seconds of one launch of a cell.
    """
    several = sorted({doubt.cells for doubt in doubts})
    chosen: list[Slot] = []
    for mode in state.modes:
        mine = [cells for cells in several if state.cells[cells[0]].mode is mode]
        more = _round(state, mine, seed, most)
        needed_s = _lasts_s([state.cells[cell] for cell, _ in more], mode, expected_s)
        if needed_s <= left_s:
            left_s -= needed_s
            chosen += more
    return tuple(sorted(chosen, key=lambda slot: turns.of(state, slot)))


def added(state: RunState, slots: Iterable[Slot]) -> RunState:
    """Return the state with these launches at the end of the queues of their devices. Known slots are ignored."""
    for slot in slots:
        if slot in state.slots:
            continue
        cell = state.cells[slot[0]]
        waits = SlotState(batch_size=cell.batch_size)
        tally = {**state.tally, SlotStatus.WAITING: state.tally[SlotStatus.WAITING] + 1}
        state = msgspec.structs.replace(state, slots=state.slots.but(slot, waits), tally=tally)
        state = gangs.into(state, slot, {uuid: len(state.devices[uuid].queue) for uuid in cell.devices})
    return msgspec.structs.replace(state, in_vain=wait_in_vain(state)) if state.skipped else state


def _round(state: RunState, several: Iterable[tuple[str, ...]], seed: int, limit: int) -> list[Slot]:
    made: list[tuple[int, list[str]]] = []
    for ids in several:
        useful = [cell for cell in ids if _is_useful(state, state.cells[cell])]
        most = max((rounds(state, cell) for cell in useful), default=limit)
        if most < limit:
            made.append((most, useful))
    random.Random(f"{seed}/{sum(state.tally.values())}").shuffle(made)
    last = state.launches[max(state.launches)][0] if state.launches else ""
    if made and last in made[0][1]:
        made.append(made.pop(0))  # avoid two launches of a cell in a row
    return [(cell, number) for number, ids in made for cell in ids]


def _is_useful(state: RunState, cell: Cell) -> bool:
    if cell.batch_size == AUTO or is_skipped(state, cell):
        return False
    out = any(state.devices[uuid].quarantined for uuid in cell.devices)
    made = (state.slots.get((cell.id, number)) for number in range(rounds(state, cell.id)))
    return not out and any(slot is not None and slot.status is SlotStatus.MEASURED for slot in made)


def _lasts_s(cells: Iterable[Cell], mode: Mode, expected_s: Callable[[Cell], float]) -> float:
    lasts: dict[str, float] = defaultdict(float)
    for cell in cells:
        lasts[cell.devices[0]] += expected_s(cell)
    return sum(lasts.values()) if mode is Mode.SOLO else max(lasts.values(), default=0.0)
