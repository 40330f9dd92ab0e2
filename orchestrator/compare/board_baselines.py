"""Judge each GPU by a baseline of its board (GPU model and power limit), which also shows that all siblings are slow.

Pure. With the same torch, CUDA and cuDNN, the baseline decides about each GPU:

    verdict among siblings    slower by more than the margin      within the margin     inconclusive
    STRAGGLER                 STRAGGLER                           STRAGGLER             STRAGGLER
    SPLIT or none             BELOW BASELINE                      OK                    unchanged
    any other                 BELOW BASELINE                      unchanged             unchanged
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.compare import baselines
from orchestrator.compare.run_figures import Side, SideDevice
from orchestrator.config import margins
from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.comparisons import Standing
from orchestrator.stats import beside_baseline
from orchestrator.stats.beside_baseline import BaselineEffect
from orchestrator.stats.stragglers import ALPHA, SiblingVerdict, holm

_SOFTWARE: Final = ("torch", "CUDA", "cuDNN")
"""Versions that must be equal: another torch alone moved a benchmark by 16 %, for which no GPU is called slow."""
NEXT_STEP: Final = "look at its power limit, clocks and cooling, then at its health: --burn-in 1h"
_ALIKE: Final = "all GPUs of this node are: look at what they share first: cooling, power, clocks, the host"


def judge(standings: Sequence[Standing], run: Side, sides: Iterable[Side]) -> tuple[Standing, ...]:
    """Return `standings`, the comparisons with siblings, each changed by the first baseline of the GPU's board, if any.

    sides: baselines, the user's first. Those of other software, made of this run, or with fewer than four cells
    to judge by are ignored.
    """
    usable = [one for one in sides if not one.run_ids & run.run_ids and _software(one) == _software(run)]
    found: dict[str, tuple[Side, BaselineEffect]] = {}
    for side in usable:
        ratios = _ratios(run, side)
        for device in run.devices:
            effect = beside_baseline.effect(ratios.get(device.gpu_uuid, ()), margins.load().baseline.share)
            if effect is not None and _has(side, device):
                found.setdefault(device.gpu_uuid, (side, effect))
    slow = {uuid for uuid, p in holm({uuid: effect.p for uuid, (_, effect) in found.items()}).items() if p <= ALPHA}
    alike = len(slow) > 1 and len(slow) == len(standings)
    return tuple(
        _standing(standing, *found[standing.gpu_uuid], is_slow=standing.gpu_uuid in slow, alike=alike)
        if standing.gpu_uuid in found
        else standing
        for standing in standings
    )


def _software(side: Side) -> list[str | None]:
    return [side.stack.get(name) for name in _SOFTWARE]


def _has(side: Side, device: SideDevice) -> bool:
    board = (device.gpu_name, device.power_limit_w)
    return any((one.gpu_name, one.power_limit_w) == board for one in side.devices)


def _ratios(run: Side, side: Side) -> Mapping[str, list[float]]:
    """Return UUID → for each cell by which the GPU can be judged: rate in `run` / rate in the baseline `side`.

    Cells are excluded that are host-bound, or whose workload has no verdict among siblings.
    """
    ratios: dict[str, list[float]] = {}
    of_host = {(cell.gpu_uuid, cell.key) for cell in run.cells if cell.host_bound}
    for (uuid, key), ratio in baselines.hold(run, side).by_device.items():
        if WORKLOADS[key.phase].sibling_verdict and (uuid, key) not in of_host:
            ratios.setdefault(uuid, []).append(ratio)
    return ratios


def _standing(standing: Standing, side: Side, effect: BaselineEffect, *, is_slow: bool, alike: bool) -> Standing:
    margin = margins.load().baseline
    standing = replace(
        standing,
        baseline=side.name,
        baseline_percent=effect.ratio * 100,
        baseline_low_percent=effect.low * 100,
        baseline_high_percent=effect.high * 100,
    )
    rate = f"{effect.ratio:.1%} of the baseline {side.name} ({effect.low:.1%} to {effect.high:.1%})"
    if is_slow and standing.verdict is not SiblingVerdict.STRAGGLER:
        why = f"{rate}: slower by more than {margin.percent:g}%"
        step = _ALIKE if alike else NEXT_STEP
        return replace(standing, verdict=SiblingVerdict.BELOW_BASELINE, why=why, next_step=standing.next_step or step)
    within = effect.low > 1 - margin.share
    if within and standing.verdict in (SiblingVerdict.SPLIT, SiblingVerdict.NONE):
        if standing.verdict is SiblingVerdict.SPLIT:  # the reason is why it seemed slow; else heat or power slowed it
            standing = replace(standing, reason=None, reason_text="")
        return replace(standing, verdict=SiblingVerdict.OK, why=f"{rate}: within {margin.percent:g}%", next_step="")
    return standing
