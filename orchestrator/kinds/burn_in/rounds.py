"""Length of a burn-in round and number of rounds that fit, rounded for display. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.errors import ConfigError
from orchestrator.kinds.burn_in.levels import requested
from orchestrator.state.time_budget import Budget
from protocol.cell import Device

_WHOLE_S: Final = 100.0  # From here on seconds are shown without tenths
_WHOLE_ROUNDS: Final = 10  # From here on rounds are shown without tenths


class Rounds(NamedTuple):
    """Estimated round of a device, with values rounded for display. launches_s: seconds of each launch of round 0.

    round_s: their sum. possible: number of rounds that fit into the burn-in, rounded down to a tenth, from 10 on to a
    whole number.
    """

    launches_s: tuple[float, ...]
    round_s: float
    possible: float


def of(plan: Plan, configuration: Configuration, devices: Sequence[Device], device: Device) -> Rounds:
    """Estimate the length of a round on one device, and how many rounds fit. devices: all devices of the run."""
    burn_in = requested(configuration)
    cells = {cell.id: cell for cell in plan.cells}
    budget = Budget(configuration, devices, burn_in.duration_s, began=0.0)
    first = (cells[cell_id] for cell_id, number in plan.order[device.uuid] if number == 0)
    launches_s = tuple(_shown_s(budget.expected_s(cell)) for cell in first)
    round_s = _shown_s(math.fsum(launches_s))
    return Rounds(launches_s, round_s, _rounded_down(budget.for_launches_s(device) / round_s))


def format_launch(seconds: float) -> str:
    """Format seconds of a launch: "1.4 s", "121 s"."""
    return f"{seconds:.{int(seconds < _WHOLE_S)}f} s"


def format_round(seconds: float) -> str:
    """Format seconds of a round: "13.2 s", "4 min 43 s"."""
    if seconds < _WHOLE_S:
        return format_launch(seconds)
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest_s} s" if rest_s else "")


def format_count(rounds: float) -> str:
    """Format a number of rounds: "4.7", "101"."""
    return f"{rounds:.{int(rounds < _WHOLE_ROUNDS)}f}"


def require_planned(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> None:
    """Raise ConfigError for an injected fault whose round is not planned."""
    for number, device in _flipped(configuration, devices):
        planned = 1 + max(last for _, last in plan.order[device.uuid])
        if number >= planned:
            possible = of(plan, configuration, devices, device).possible
            raise ConfigError(
                f"--inject flip: {device.label} has no round {number + 1}. Planned: at most "
                f"{plural(planned, 'round')}; the time suffices for about {format_count(possible)}. {_advice(possible)}"
            )


def notes(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterator[str]:
    """Yield a warning for each injected fault whose round will probably not start or not complete in time."""
    for number, device in _flipped(configuration, devices):
        possible = of(plan, configuration, devices, device).possible
        if number + 1 > possible:
            what = "start" if number >= possible else "complete"
            yield (
                f"--inject flip: {device.label} has time for about {format_count(possible)} rounds, so round "
                f"{number + 1} will probably not {what}. {_advice(possible)}"
            )


def _flipped(configuration: Configuration, devices: Sequence[Device]) -> Iterator[tuple[int, Device]]:
    by_uuid = {device.uuid: device for device in devices}
    for one in () if configuration.burn_in is None else configuration.burn_in.injections:
        if one.round is not None:
            yield one.round, by_uuid[one.device]


def _advice(possible: float) -> str:
    match int(possible):
        case 0:
            return "Choose a longer --burn-in"
        case 1:
            return "Choose round 1, or a longer --burn-in"
        case whole:
            return f"Choose a round from 1 to {whole}, or a longer --burn-in"


def _shown_s(seconds: float) -> float:
    return max(round(seconds, 1), 0.1) if seconds < _WHOLE_S else float(round(seconds))


def _rounded_down(rounds: float) -> float:
    return math.floor(rounds * 10) / 10 if rounds < _WHOLE_ROUNDS else float(math.floor(rounds))
