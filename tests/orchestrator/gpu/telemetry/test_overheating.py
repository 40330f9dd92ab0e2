"""gpu/telemetry/overheating.py: which GPU is too hot to go on; and the sampler that says so, on an NVML of our own."""

from pathlib import Path

import pytest

from orchestrator.gpu.telemetry.client import Telemetry, read_samples
from orchestrator.gpu.telemetry.overheating import TemperatureStop, Thermometer
from protocol.messages import Digest, FromSampler, TooHot
from protocol.paths import RunPaths
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import hear

SECOND_NS = 1_000_000_000
Reading = tuple[int | None, int | None]
HOT: Reading = (90, 0)
COOL: Reading = (60, 30)


def said(*readings: Reading, celsius: int | None = None) -> list[str]:
    """What is said of a GPU that is read once a second: temperature, and degrees left."""
    thermometer = Thermometer(TemperatureStop(celsius=celsius))
    return [thermometer.too_hot("a", at * SECOND_NS, *reading) for at, reading in enumerate(readings)]


def test_a_gpu_at_its_limit_for_ten_seconds_is_stopped() -> None:
    """Not before, and said once."""
    found = said(*[HOT] * 15)
    assert [at for at, words in enumerate(found) if words] == [10]
    assert found[10].startswith("too hot: for 10 s at the limit at which it slows itself down, 90 degrees C")


@pytest.mark.parametrize("reading", [(90, 1), (None, None), (120, None), (95, 5)])
def test_a_gpu_below_its_limit_goes_on(reading: Reading) -> None:
    """However hot it is, where that is what its makers allow; and what cannot be read proves nothing."""
    assert not any(said(*[reading] * 20))


@pytest.mark.parametrize("break_", [COOL, (None, None)])
def test_the_ten_seconds_begin_anew(break_: Reading) -> None:
    """A GPU that holds its temperature at the limit touches it for a moment at a time."""
    found = said(*[HOT] * 10, break_, *[HOT] * 11)
    assert [at for at, words in enumerate(found) if words] == [21]


def test_the_limit_that_a_person_asked_for() -> None:
    """Holds beside the GPU's own, from that very degree on."""
    found = said(*[(80, 20)] * 12, celsius=80)
    assert found[10].startswith("too hot: for 10 s at the 80 degrees C of --max-temperature, 80 degrees C")
    assert not any(said(*[(79, 20)] * 12, celsius=80))
    assert any(said(*[(79, 0)] * 12, celsius=80))
    assert any(said(*[(None, 0)] * 12, celsius=80))


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
    """Two GPUs at 31 degrees, 53 below their limit."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.install(monkeypatch)
    return fake


def heard(folder: Path, *, celsius: int | None = None, injected: int | None = None) -> TooHot | None:
    """What is said of two GPUs within four digests, a second apart, where a second is enough to be too hot."""
    stop = TemperatureStop(celsius=celsius, held_s=1.0)
    telemetry = Telemetry.start(map(uuid, (0, 1)), folder, 20, stop, {} if injected is None else {uuid(1): injected})
    digests = []

    def wanted(message: FromSampler) -> bool:
        digests.extend([message] if isinstance(message, Digest) else [])
        return isinstance(message, TooHot) or len(digests) >= 4

    try:
        found = hear(telemetry, wanted)
    finally:
        telemetry.stop()
    return found if isinstance(found, TooHot) else None


def test_the_sampler_says_which_gpu_is_too_hot(nvml: FakeNvml, tmp_path: Path) -> None:
    """By the margin that NVML tells, on a board that has one; the other GPU has not reached its limit."""
    nvml.set({"gpu.1.margin_c": -2, "gpu.1.temperature_c": 88})
    found = heard(tmp_path)
    assert found is not None
    assert (found.uuid, "the limit at which it slows itself down, 88 degrees C" in found.reason) == (uuid(1), True)


def test_the_sampler_keeps_to_the_limit_that_was_asked_for(nvml: FakeNvml, tmp_path: Path) -> None:
    """A GPU is stopped there, far below its own."""
    nvml.set({"gpu.0.temperature_c": 75})
    found = heard(tmp_path, celsius=70)
    assert found is not None
    assert (found.uuid, "70 degrees C of --max-temperature" in found.reason) == (uuid(0), True)


def test_cool_gpus_are_left_alone(nvml: FakeNvml, tmp_path: Path) -> None:
    """Also where NVML does not tell what is left, and where it loses one: that is no heat."""
    nvml.set({"gpu.0.margin_c": None, "gpu.0.temperature_c": None})
    nvml.vanish(1)
    assert heard(tmp_path, celsius=70) is None


@pytest.mark.parametrize(("degrees", "stops"), [(95, True), (84, True), (80, False)])
def test_an_injected_heat_is_read_as_if_it_were_real(nvml: FakeNvml, tmp_path: Path, degrees: int, stops: bool) -> None:
    """In the samples, and by the margin: 53 degrees above the 31 that it really has, the GPU is at its limit."""
    found = heard(tmp_path, injected=degrees)
    assert (found is not None) is stops
    samples = {gpu: read_samples(RunPaths(tmp_path).samples(uuid(gpu))) for gpu in (0, 1)}
    assert {one.temperature_c for one in samples[1]} == {degrees}
    assert {one.temperature_c for one in samples[0]} == {31}
