"""Compare the speed of each GPU with the median of identical GPUs, over the cells that can show a difference.

Of two GPUs, the slower is compared with the faster one: the median of two would halve the difference.

A cell can show a difference if, on every GPU of the group, its result shows the GPU's own speed, throttled or not
(Quality.judges_gpu).
"""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final, NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.device_labels import Group, groups
from orchestrator.report.lines import Line, lines
from protocol.cell import Workload

EQUAL_PERCENT: Final = 1.0
"""Differences.range_percent up to which GPUs are called equal: the interval target of the standard profile."""

LAG_PERCENT: Final = 5.0
"""Loss from which a GPU lags in a cell. Steady GPU-bound cells of healthy H200s differ by 2 % at most."""


class Lag(NamedTuple):
    """Cells in which a GPU is over LAG_PERCENT slower than the median. percent: largest loss. cells: their number."""

    percent: float
    cells: int


class Differences(NamedTuple):
    """Comparison of the speeds of identical GPUs. cells: number of cells that all of them measured.

    judging: number of these cells that can show a difference. percent: UUID → how much faster this GPU is than the
    median GPU, in percent (negative: slower), as the median over the `judging` cells. Of two GPUs, the faster one takes
    the place of the median GPU. Empty if no cell can show a difference. lagging: UUID → cells in which this GPU lags.
    It has only GPUs that lag.
    """

    group: Group
    percent: Mapping[str, float]
    judging: int
    cells: int
    lagging: Mapping[str, Lag]

    @property
    def are_equal(self) -> bool:
        """Whether the GPUs were compared, differ by EQUAL_PERCENT at most, and none lags in any cell."""
        return bool(self.percent) and self.range_percent <= EQUAL_PERCENT and not self.lagging

    @property
    def range_percent(self) -> float:
        """Difference between the fastest GPU and the slowest, in percentage points of `percent`; 0 if that is empty."""
        return max(self.percent.values()) - min(self.percent.values()) if self.percent else 0.0


def differences(report: Report) -> Iterator[Differences]:
    """Yield the comparison of each group of two or more identical devices.

    A device with less than half as many results as another of its group, such as a lost GPU, is not compared. It is
    not in Differences.group.
    """
    found: dict[str, dict[tuple[object, ...], Line]] = {}
    for line in lines(report):
        if line.entry.workload != Workload.LOAD and line.value is not None:
            found.setdefault(line.entry.gpu_uuid, {})[line.cell] = line
    for group in groups(report):
        numbers = {device.gpu_uuid: len(found.get(device.gpu_uuid, {})) for device in group.devices}
        devices = tuple(one for one in group.devices if 2 * numbers[one.gpu_uuid] >= max(numbers.values()))
        if len(devices) > 1:
            whole = group._replace(devices=devices)
            yield _of_group(whole, {one.gpu_uuid: found.get(one.gpu_uuid, {}) for one in devices})


def _of_group(group: Group, found: Mapping[str, Mapping[tuple[object, ...], Line]]) -> Differences:
    common = set.intersection(*({*cells} for cells in found.values()))
    ratios: dict[str, list[float]] = {uuid: [] for uuid in found}
    judging = 0
    for cell in common:
        of_cell = {uuid: cells[cell] for uuid, cells in found.items()}
        rates = {uuid: one.value for uuid, one in of_cell.items() if one.quality.judges_gpu and one.value}
        if len(rates) == len(found):
            judging += 1
            usual = max(rates.values()) if len(rates) == 2 else median(rates.values())
            for uuid, rate in rates.items():
                ratios[uuid].append(rate / usual)
    percent = {uuid: (median(each) - 1) * 100 for uuid, each in ratios.items() if each}
    losses = {uuid: [(1 - ratio) * 100 for ratio in each] for uuid, each in ratios.items()}
    lagging = {
        uuid: Lag(max(each), sum(loss > LAG_PERCENT for loss in each))
        for uuid, each in losses.items()
        if each and max(each) > LAG_PERCENT
    }
    return Differences(group, percent, judging, len(common), lagging)
