"""Faults that a burn-in injects into itself to prove that they are found (`--inject`). Pure.

    flip:<gpu>:<round>[:bits]    flips so many bits (default 1) once in every check of that round on that GPU
    slow:<gpu>:<percent>         slows down everything that this GPU does by itself
    hot:<gpu>:<celsius>          replaces the measured temperature of the GPU (gpu/telemetry/sampler.py)

Rounds count from 1. The run is tainted: it proves the detectors, not the GPUs.
"""

from collections import Counter
from collections.abc import Sequence

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Asked
from orchestrator.config.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from protocol.cell import Device, Workload
from protocol.verification import Injection

FAULTS = ("flip", "slow", "hot")
FORMS = "flip:<gpu>:<round>[:bits], slow:<gpu>:<percent> or hot:<gpu>:<celsius>"
MOST_BITS = 64
SLOWEST_PERCENT = 1000
HOTTEST_READ_C = 200
"""Beyond the limit of any board, so that every board can be made to fail."""


def parse(text: str, devices: Sequence[Device], origin: str = "--inject") -> Asked:
    """Parse a fault. <gpu>: number or UUID of a device of the run. Raises ConfigError."""
    kind, *words = text.split(":")
    if kind not in FAULTS:
        raise ConfigError(
            f"{origin} {text}: there is no fault '{kind}'.{did_you_mean(kind, FAULTS)} There is "
            f"{listed(FAULTS, 'and')}; the forms are {FORMS}"
        )
    which, rest = _device(words, devices) if words else (None, [])
    if which is None:
        names = ", ".join(device.label for device in devices)
        raise ConfigError(f"{origin} {text}: it names no device of this run ({names}); the forms are {FORMS}")
    match kind, [_number(word) for word in rest]:
        case ["flip", [int() as number]] if number >= 1:
            return Asked(device=which, round=number - 1, flip_bits=1)
        case ["flip", [int() as number, int() as bits]] if number >= 1 and 1 <= bits <= MOST_BITS:
            return Asked(device=which, round=number - 1, flip_bits=bits)
        case ["slow", [int() | float() as percent]] if 0 < percent <= SLOWEST_PERCENT:
            return Asked(device=which, slow_percent=float(percent))
        case ["hot", [int() as celsius]] if 0 < celsius <= HOTTEST_READ_C:
            return Asked(device=which, hot_c=celsius)
    raise ConfigError(
        f"{origin} {text}: expected {FORMS}; rounds are whole numbers and count from 1, bits are 1 to {MOST_BITS}, "
        f"percent up to {SLOWEST_PERCENT}, degrees Celsius 1 to {HOTTEST_READ_C}"
    )


def require_one_of_each(asked: Sequence[Asked], device: Device, origin: str = "--inject") -> None:
    """Raise ConfigError for several faults of a kind on a device, or in one round: only one would happen."""
    mine = [one for one in asked if one.device == device.uuid]
    for kind, count in (
        ("slow", sum(one.slow_percent > 0 for one in mine)),
        ("hot", sum(one.hot_c is not None for one in mine)),
    ):
        if count > 1:
            raise ConfigError(f"{origin} {kind}: there are {count} of them for {device.label}. Ask for one alone")
    rounds = Counter(one.round for one in mine if one.round is not None)
    for number, count in rounds.items():
        if count > 1:
            raise ConfigError(
                f"{origin} flip: there are {count} of them for round {number + 1} on {device.label}, and a launch has "
                "one. Ask for one with all bits together, or for other rounds"
            )


def description(one: Asked, device: Device) -> str:
    """Describe what a fault does to its device."""
    if one.hot_c is not None:
        return f"{device.label} is read as {one.hot_c} degrees C hot, all the time"
    if one.slow_percent:
        return f"{device.label} takes {one.slow_percent:g} % longer for all that it does by itself"
    flipped = f"{plural(one.flip_bits, 'bit')} of one output"
    return f"{device.label} flips {flipped} in every check of round {(one.round or 0) + 1}"


def for_launch(asked: Sequence[Asked], device: str, round_: int, workload: Workload) -> Injection | None:
    """Return what a launch has to inject, or None. Links of one GPU cannot be slowed without those of all others."""
    mine = [one for one in asked if one.device == device and one.round in (None, round_)]
    bits = max((one.flip_bits for one in mine), default=0)
    slow = max((one.slow_percent for one in mine if workload is not Workload.LINKS), default=0.0)
    return Injection(flip_bits=bits, slow_percent=slow) if bits or slow else None


def hot(asked: Sequence[Asked]) -> dict[str, int]:
    """Return the injected temperature of each GPU."""
    return {one.device: one.hot_c for one in asked if one.hot_c is not None}


def _device(words: Sequence[str], devices: Sequence[Device]) -> tuple[str | None, list[str]]:
    """Split off the device at the beginning of `words`. Names of CPU devices ("cpu:0") contain a colon."""
    for taken in (2, 1):
        name = ":".join(words[:taken])
        for device in devices:
            if name in {device.uuid, str(device.gpu_id)}:
                return device.uuid, list(words[taken:])
    return None, []


def _number(word: str) -> int | float | None:
    try:
        return int(word) if word.isdecimal() else float(word)
    except ValueError:
        return None
