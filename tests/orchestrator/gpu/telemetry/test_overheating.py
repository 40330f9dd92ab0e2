"""gpu/telemetry/overheating.py: which GPU is too hot to continue, and the sampler's message on a fake NVML."""

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.gpu.telemetry.overheating import TemperatureStop, Thermometer
from orchestrator.gpu.telemetry.samples import read_samples
from protocol.messages import Digest, TooHot
from protocol.paths import RunPaths
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import hear

SECOND_NS = 1_000_000_000
Reading = tuple[int | None, int | None]
HOT: Reading = (90, 0)
COOL: Reading = (60, 30)
NOTHING: Mapping[str, int] = {}


def reasons(*readings: Reading, celsius: int | None = None) -> list[str]:
    """The reasons for a GPU that is read once a second: temperature, and degrees left."""
    thermometer = Thermometer(TemperatureStop(celsius=celsius))
    return [thermometer.too_hot("a", at * SECOND_NS, *reading) for at, reading in enumerate(readings)]


def test_a_gpu_at_its_limit_for_ten_seconds_is_stopped() -> None:
    """Not before, and with one message."""
    found = reasons(*[HOT] * 15)
    assert [at for at, words in enumerate(found) if words] == [10]
    assert re.match("too hot: .* 10 s .*90 °C", found[10])


@pytest.mark.parametrize("reading", [(90, 1), (None, None), (120, None), (95, 5)])
def test_a_gpu_below_its_limit_goes_on(reading: Reading) -> None:
    """However hot it is within its own limit; and an unreadable temperature proves nothing."""
    assert not any(reasons(*[reading] * 20))


@pytest.mark.parametrize("break_", [COOL, (None, None)])
def test_the_ten_seconds_begin_anew(break_: Reading) -> None:
    """A GPU that holds its temperature at the limit touches it for a moment at a time."""
    found = reasons(*[HOT] * 10, break_, *[HOT] * 11)
    assert [at for at, words in enumerate(found) if words] == [21]


def test_the_requested_limit() -> None:
    """Holds besides the GPU's own, from that very degree on."""
    found = reasons(*[(80, 20)] * 12, celsius=80)
    assert re.match("too hot: .* 10 s .*80 °C .*--max-temperature", found[10])
    assert not any(reasons(*[(79, 20)] * 12, celsius=80))
    assert any(reasons(*[(79, 0)] * 12, celsius=80))
    assert any(reasons(*[(None, 0)] * 12, celsius=80))


def test_each_gpu_by_itself() -> None:
    """One that is hot for a while does not shorten another's time."""
    thermometer = Thermometer(TemperatureStop())
    found = []
    for at in range(13):
        for gpu, hot in (("a", True), ("b", at >= 2)):
            if thermometer.too_hot(gpu, at * SECOND_NS, *(HOT if hot else COOL)):
                found.append((gpu, at))
    assert found == [("a", 10), ("b", 12)]


# ── the sampler ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Three GPUs at 31 degrees, 53 below their limit."""
    fake = FakeNvml(tmp_path, gpus=3)
    fake.install(monkeypatch)
    return fake


def heard(folder: Path, *, celsius: int | None = None, injected: Mapping[str, int] = NOTHING) -> TooHot | None:
    """The message on three GPUs within four digests, a second apart, where a second is enough to be too hot."""
    stop = TemperatureStop(celsius=celsius, held_s=1.0)
    telemetry = Telemetry.start(map(uuid, (0, 1, 2)), folder, 20, stop, injected)
    digests = count(1)
    try:
        found = hear(telemetry, TooHot | Digest, lambda one: isinstance(one, TooHot) or next(digests) >= 4)
    finally:
        telemetry.stop()
    return found if isinstance(found, TooHot) else None


@pytest.mark.parametrize(
    ("changes", "celsius", "words"),
    [
        ({"gpu.1.margin_c": -2, "gpu.1.temperature_c": 88}, None, "88 °C"),
        ({"gpu.1.temperature_c": 75}, 70, "70 °C of --max-temperature"),
    ],
)
def test_the_sampler_reports_which_gpu_is_too_hot(
    nvml: FakeNvml, tmp_path: Path, changes: dict[str, object], celsius: int | None, words: str
) -> None:
    """By the margin that NVML has, or at the requested temperature, far below the GPU's own limit."""
    nvml.set(changes)
    found = heard(tmp_path, celsius=celsius)
    assert found.uuid == uuid(1)
    assert words in found.reason


def test_cool_gpus_continue(nvml: FakeNvml, tmp_path: Path) -> None:
    """Also where NVML has no margin, and where it loses a GPU."""
    nvml.set({"gpu.0.margin_c": None, "gpu.0.temperature_c": None})
    nvml.vanish(1)
    assert heard(tmp_path, celsius=70) is None


def test_an_injected_heat_is_read_as_if_it_were_real(nvml: FakeNvml, tmp_path: Path) -> None:
    """In the samples, and by the margin: 53 degrees above its real 31, a GPU is at its limit, and 49 above it not."""
    found = heard(tmp_path, injected={uuid(1): 80, uuid(2): 84})
    assert found.uuid == uuid(2)
    for gpu, degrees in enumerate((31, 80, 84)):
        samples = read_samples(RunPaths(tmp_path).samples(uuid(gpu)))
        assert {one.temperature_c for one in samples} == {degrees}
