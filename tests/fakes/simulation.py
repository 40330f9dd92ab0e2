"""The real measuring loop (worker/measure.py) in simulated time: iterations take the values of a seeded series."""

import functools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from protocol.messages import Measurement
from protocol.result import MeasuredIterations, WarmUp
from tests.fakes.assignments import ROOT, Listener
from worker import measure
from worker.measure import Work
from worker.timing import TimedBlock

LEVEL_MS = 10.0
"""What an iteration takes, before anything is added to it."""

Series = Callable[[random.Random], Iterator[float]]
"""Times in milliseconds, in the order of the iterations."""


def autocorrelated(deviation: float, correlation: float) -> Series:
    """Each iteration resembles the one before it."""

    def times(source: random.Random) -> Iterator[float]:
        state = source.gauss(0, deviation)
        while True:
            yield LEVEL_MS * (1 + state)
            state = correlation * state + source.gauss(0, deviation * math.sqrt(1 - correlation**2))

    return times


def spikes(share: float, height: float, deviation: float = 0.005) -> Series:
    """Now and then an iteration takes longer by `height`; the mean is as it would be without."""

    def times(source: random.Random) -> Iterator[float]:
        while True:
            spike = height if source.random() < share else 0.0
            yield LEVEL_MS * (1 + spike - share * height + source.gauss(0, deviation))

    return times


def changing(level: Callable[[float], float], deviation: float = 0.005) -> Series:
    """Times whose level depends on the seconds so far."""

    def times(source: random.Random) -> Iterator[float]:
        now_s = 0.0
        while True:
            value = LEVEL_MS * level(now_s) * (1 + source.gauss(0, deviation))
            now_s += value / 1e3
            yield value

    return times


def white(deviation: float) -> Series:
    """Each iteration deviates on its own, by so large a share."""
    return changing(lambda _: 1.0, deviation)


def ramp(each_s: float) -> Series:
    """Times that grow by so large a share in every second, as on a GPU that is getting hotter."""
    return changing(lambda now_s: 1 + each_s * now_s)


def settling(excess: float, constant_s: float) -> Series:
    """Times that begin longer by `excess` and come down to their level with a time constant."""
    return changing(lambda now_s: 1 + excess * math.exp(-now_s / constant_s))


def falling(loss: float, constant_s: float, deviation: float) -> Series:
    """Times of a clock that begins faster by `loss` than where it settles, with a time constant."""
    return changing(lambda now_s: 1 / (1 + loss * math.exp(-now_s / constant_s)), deviation)


def step(at_s: float, height: float) -> Series:
    """Times that are longer by `height` from one moment on, as when a clock drops."""
    return changing(lambda now_s: 1 + (height if now_s >= at_s else 0.0))


@functools.cache
def profile(name: str) -> Measurement:
    profiles = yaml.safe_load(Path(ROOT, "configs", "profiles.yaml").read_text(encoding="utf-8"))
    return Measurement(**{key: value for key, value in profiles[name].items() if key in Measurement.__struct_fields__})


class SimulatedClock:
    """A clock of a GPU, never waiting for the host, whose time passes only while a simulated iteration runs."""

    shortest_span_ms = 0.0
    ahead_of_device = True

    def __init__(self, times_ms: Iterator[float]) -> None:
        self._times_ms = times_ms
        self.now_ms = 0.0
        self._marks: list[float] = []
        self._start_ms = 0.0

    def monotonic(self) -> float:
        return self.now_ms / 1e3

    def work(self) -> None:
        self.now_ms += next(self._times_ms)

    def begin(self, marks: int) -> None:
        self._marks, self._start_ms = [], self.now_ms

    def mark(self) -> None:
        self._marks.append(self.now_ms)

    def finish(self) -> TimedBlock:
        spans = [after - before for before, after in zip(self._marks, self._marks[1:], strict=False)]
        start_ns, end_ns = int(self._start_ms * 1e6), int(self.now_ms * 1e6)
        return TimedBlock(start_ns, start_ns, end_ns, spans)


def measured(
    series: Series, seed: int, how: Measurement, monkeypatch: pytest.MonkeyPatch
) -> tuple[WarmUp, MeasuredIterations]:
    """Warm-up and measurement of a device that takes these times."""
    clock = SimulatedClock(series(random.Random(seed)))
    monkeypatch.setattr(measure, "time", clock)
    work, stage = Work({"forward": clock.work}), Listener().stage
    facts, iteration_ms = measure.warm_up(work, clock, how, stage)
    return facts, measure.measured(work, clock, how, stage, iteration_ms)
