"""The options of a burn-in, and other options that have no effect in a burn-in."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.config.options import Kind, Need, Option

CONFIG_FILE: Final = "configs/burn_in.yaml"
COLDEST_C: Final = 30
HOTTEST_C: Final = 120  # Range of a temperature limit: no GPU at work is colder, and none works hotter


class BurnInNeed(enum.StrEnum):
    """What an option needs to have an effect in a burn-in. Each value is the message shown if it is missing."""

    STEPS = "it needs --steps"


def level_names() -> Iterable[str]:
    """Return the names of the levels in configs/burn_in.yaml. Raises ConfigError if the file is invalid."""
    from orchestrator.kinds.burn_in import levels

    return levels.load().levels


OPTIONS: Final = (
    Option(
        "--burn-in DURATION",
        "burn_in.duration",
        Kind.TEXT,
        "Verify each device under load: 10m, 8h, 1h30m.",
    ),
    Option(
        "--level NAME",
        "burn_in.level",
        Kind.TEXT,
        "quick, standard, full.",
        default="by the duration",
        choices=level_names,
    ),
    Option(
        "--inject FAULT",
        "burn_in.inject",
        Kind.WORDS,
        "Inject a fault, as a test: flip:0:1, slow:0:20.",
        separator="",
    ),
    Option(
        "--max-temperature CELSIUS",
        "burn_in.max_temperature",
        Kind.NUMBER,
        "Stop a hotter GPU.",
        default="its slowdown limit",
        needs=Need.GPUS,
        least=COLDEST_C,
        most=HOTTEST_C,
    ),
    Option(
        "--steps",
        "burn_in.steps",
        Kind.SWITCH,
        "Also step between idle and full load.",
    ),
    Option(
        "--in-phase",
        "burn_in.in_phase",
        Kind.SWITCH,
        "With --steps, step all GPUs at the same time.",
        needs=BurnInNeed.STEPS,
    ),
)

DECIDED: Final = frozenset(
    {
        "models",
        "batch_sizes",
        "training_batch_sizes",
        "generation_batch_sizes",
        "sequence_lengths",
        "input_sizes",
        "benchmark.profile",
        "benchmark.phases",
        "benchmark.precision",
        "benchmark.memory_format",
        "benchmark.iterations",
        "benchmark.warmup",
        "benchmark.launches",
    }
)
"""Settings without effect in a burn-in, which has its own cells. But a user's model can replace a shipped model."""

OWN_CELLS: Final = f"a burn-in has its own cells ({CONFIG_FILE})"
REASONS: Final[Mapping[enum.StrEnum, str]] = {Need.OWN_MODEL: OWN_CELLS}
"""Condition for an option to have an effect → why a burn-in does not meet it."""
