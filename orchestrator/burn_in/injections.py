"""Faults that a burn-in brings about itself, so that each detector is seen to work (`--inject`). Pure.

    flip:<gpu>:<round>[:bits]    every check of that round on that GPU gets so many flipped bits (1), once
    slow:<gpu>:<percent>         everything that this GPU does by itself takes so much longer
    hot:<gpu>:<celsius>          the GPU is read as so hot, all the time (sampling/sampler.py)

Rounds count from 1, as people and reports do. A run with one of them is tainted: it proves the detectors, never a GPU.
"""

from collections.abc import Sequence

import msgspec

from orchestrator.configuration.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from protocol.cell import Device, Workload
from protocol.verification import Injection

FAULTS = ("flip", "slow", "hot")
FORMS = "flip:<gpu>:<round>[:bits], slow:<gpu>:<percent> or hot:<gpu>:<celsius>"
MOST_BITS = 64
HOTTEST_C = 200


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One injection. device: UUID. round: from 0; None for all of them."""

    device: str
    round: int | None = None
    flip_bits: int = 0
    slow_percent: float = 0.0
    hot_c: int | None = None


def parse(text: str, devices: Sequence[Device]) -> Asked:
    """What `--inject` says. <gpu> is the number or the UUID of a device of the run. Raises ConfigError."""
    kind, *words = text.split(":")
    if kind not in FAULTS:
        raise ConfigError(
            f"--inject {text}: there is no fault '{kind}'.{did_you_mean(kind, FAULTS)} There is "
            f"{listed(FAULTS, 'and')}; the forms are {FORMS}"
        )
    which, rest = _device(words, devices) if words else (None, [])
    if which is None:
        names = ", ".join(device.label for device in devices)
        raise ConfigError(f"--inject {text}: it names no device of this run ({names}); the forms are {FORMS}")
    match kind, [_number(word) for word in rest]:
        case "flip", [float() as number] if number >= 1:
            return Asked(device=which, round=int(number) - 1, flip_bits=1)
        case "flip", [float() as number, float() as bits] if number >= 1 and 1 <= bits <= MOST_BITS:
            return Asked(device=which, round=int(number) - 1, flip_bits=int(bits))
        case "slow", [float() as percent] if 0 < percent <= 1000:
            return Asked(device=which, slow_percent=percent)
        case "hot", [float() as celsius] if 0 < celsius <= HOTTEST_C:
            return Asked(device=which, hot_c=round(celsius))
    raise ConfigError(f"--inject {text}: expected {FORMS}; rounds count from 1, bits go from 1 to {MOST_BITS}")


def for_launch(asked: Sequence[Asked], device: str, round_: int, workload: Workload) -> Injection | None:
    """What a launch has to bring about; None for a launch like any other.

    Links are not slowed: those of one GPU cannot be, without those of all others.
    """
    mine = [one for one in asked if one.device == device and one.round in (None, round_)]
    bits = max((one.flip_bits for one in mine), default=0)
    slow = max((one.slow_percent for one in mine if workload is not Workload.LINKS), default=0.0)
    return Injection(flip_bits=bits, slow_percent=slow) if bits or slow else None


def hot(asked: Sequence[Asked]) -> dict[str, int]:
    """GPUs that are to be read as so hot, by UUID."""
    return {one.device: one.hot_c for one in asked if one.hot_c is not None}


def _device(words: Sequence[str], devices: Sequence[Device]) -> tuple[str | None, list[str]]:
    """The device at the beginning of `words`, and what follows it. Names of CPU devices ("cpu:0") have a colon."""
    for taken in (2, 1):
        name = ":".join(words[:taken])
        for device in devices:
            if name in {device.uuid, str(device.gpu_id)}:
                return device.uuid, list(words[taken:])
    return None, []


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
