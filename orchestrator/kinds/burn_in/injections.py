"""Faults that a burn-in injects into itself to prove that it finds them (`--inject`). Pure.

flip:<gpu>:<round>[:bits]    flips bits (default 1) in every cell of that round; rounds are counted from 1
slow:<gpu>:<percent>         makes all work of this GPU slower, except work on several GPUs together
hot:<gpu>:<celsius>          replaces the measured temperature of the GPU (gpu/telemetry/sampler.py)
"""

from collections import Counter
from collections.abc import Sequence

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import InjectedFault
from orchestrator.config.yaml_schema import did_you_mean
from orchestrator.errors import ConfigError
from protocol.cell import Device, Workload
from protocol.verification import Injection

FAULTS = ("flip", "slow", "hot")
FORMS = "flip:<gpu>:<round>[:bits], slow:<gpu>:<percent> or hot:<gpu>:<celsius>"
MOST_BITS = 64
SLOWEST_PERCENT = 1000
HOTTEST_READ_C = 200  # Beyond the limit of any board, so that every board can be made to fail


def parse(text: str, devices: Sequence[Device], origin: str = "--inject") -> InjectedFault:
    """Return the fault that `text` describes: "flip:0:2". Its <gpu> is the number or UUID of a device of the run.

    origin: option or file that contains the text, for messages. Raises ConfigError for an invalid text.
    """
    kind, *words = text.split(":")
    if kind not in FAULTS:
        raise ConfigError(f"{origin} {text}: there is no fault '{kind}'.{did_you_mean(kind, FAULTS)} Use {FORMS}")
    which, rest = _device(words, devices) if words else (None, [])
    if which is None:
        names = ", ".join(device.label for device in devices)
        raise ConfigError(f"{origin} {text}: expected a device of this run ({names}). Use {FORMS}")
    match kind, [_number(word) for word in rest]:
        case ["flip", [int() as number]] if number >= 1:
            return InjectedFault(device=which, round=number - 1, flip_bits=1)
        case ["flip", [int() as number, int() as bits]] if number >= 1 and 1 <= bits <= MOST_BITS:
            return InjectedFault(device=which, round=number - 1, flip_bits=bits)
        case ["slow", [int() | float() as percent]] if 0 < percent <= SLOWEST_PERCENT:
            return InjectedFault(device=which, slow_percent=float(percent))
        case ["hot", [int() as celsius]] if 0 < celsius <= HOTTEST_READ_C:
            return InjectedFault(device=which, hot_c=celsius)
    raise ConfigError(
        f"{origin} {text}: expected {FORMS}. Rounds are whole numbers from 1, bits 1 to {MOST_BITS}, "
        f"percent up to {SLOWEST_PERCENT}, degrees Celsius 1 to {HOTTEST_READ_C}"
    )


def require_one_of_each(faults: Sequence[InjectedFault], device: Device, origin: str = "--inject") -> None:
    """Raise ConfigError, naming `origin`, if `device` has two faults of a kind (except flips in different rounds)."""
    mine = [fault for fault in faults if fault.device == device.uuid]
    for kind, count in (
        ("slow", sum(fault.slow_percent > 0 for fault in mine)),
        ("hot", sum(fault.hot_c is not None for fault in mine)),
    ):
        if count > 1:
            raise ConfigError(f"{origin} {kind}: given {count} times for {device.label}. Give it once")
    rounds = Counter(fault.round for fault in mine if fault.round is not None)
    for number, count in rounds.items():
        if count > 1:
            raise ConfigError(
                f"{origin} flip: given {count} times for round {number + 1} on {device.label}. Give it once with the "
                "total number of bits, or for different rounds"
            )


def describe(fault: InjectedFault, device: Device) -> str:
    """Return the effect of a fault on `device`: "GPU 0 flips 1 bit of one output in every cell of round 2"."""
    if fault.hot_c is not None:
        return f"the temperature of {device.label} reads as {fault.hot_c} °C all the time"
    if fault.slow_percent:
        return f"{device.label} takes {fault.slow_percent:g} % longer for all work on its own"
    flipped = f"{plural(fault.flip_bits, 'bit')} of one output"
    return f"{device.label} flips {flipped} in every cell of round {(fault.round or 0) + 1}"


def for_launch(faults: Sequence[InjectedFault], device: str, round_: int, workload: Workload) -> Injection | None:
    """Return the flips and slow-down to inject into a launch, None if there are none. device: UUID. round_: from 0.

    A slow fault is not injected into checks of links, because it would slow all GPUs. For hot faults see `hot`.
    """
    mine = [fault for fault in faults if fault.device == device and fault.round in (None, round_)]
    bits = max((fault.flip_bits for fault in mine), default=0)
    slow = max((fault.slow_percent for fault in mine if workload is not Workload.LINKS), default=0.0)
    return Injection(flip_bits=bits, slow_percent=slow) if bits or slow else None


def hot(faults: Sequence[InjectedFault]) -> dict[str, int]:
    """Return UUID → injected temperature in °C, for the GPUs that have one."""
    return {fault.device: fault.hot_c for fault in faults if fault.hot_c is not None}


def _device(words: Sequence[str], devices: Sequence[Device]) -> tuple[str | None, list[str]]:
    """Return (UUID of the device that the first words name, the remaining words); (None, []) without such a device.

    words: ["0", "2"] for "flip:0:2". The name "cpu:0" takes two words.
    """
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
