"""Climate of a GPU in each ten-second window: clock, temperature, share at the power limit. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median

from orchestrator.gpu.telemetry.clock_events import POWER_CAP
from orchestrator.stats.windows import WINDOW_NS
from protocol.messages import Sample


@dataclass(frozen=True)
class Climate:
    """Median temperature (degrees Celsius) and median SM clock of a GPU in a ten-second window. None if not read.

    number: index of the window; window 0 begins at zero of the monotonic clock. capped: share of samples at the power
    limit, 0 to 1.
    """

    number: int
    temperature_c: float | None = None
    clock_mhz: float | None = None
    capped: float | None = None


def climates(samples: Iterable[Sample]) -> tuple[Climate, ...]:
    """Return one Climate for each window that has samples, in order of time. samples: of one GPU in one boot."""
    windows: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        windows[sample.at_ns // WINDOW_NS].append(sample)
    return tuple(_climate(number, inside) for number, inside in sorted(windows.items()))


def _climate(number: int, samples: list[Sample]) -> Climate:
    temperatures = [sample.temperature_c for sample in samples if sample.temperature_c is not None]
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    capped = [bool(sample.reasons & POWER_CAP) for sample in samples if sample.reasons is not None]
    return Climate(
        number=number,
        temperature_c=median(temperatures) if temperatures else None,
        clock_mhz=median(clocks) if clocks else None,
        capped=fmean(capped) if capped else None,
    )
