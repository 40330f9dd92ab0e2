"""Every kind of run, by what the stored configuration holds of it."""

from types import NoneType
from typing import Final

from orchestrator.config.run_configuration import BurnIn, Configuration
from orchestrator.engine.kind import Kind
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.kinds.burn_in.kind import BURN_IN

KINDS: Final[dict[type, Kind]] = {NoneType: BENCHMARK, BurnIn: BURN_IN}


def of(configuration: Configuration) -> Kind:
    """Return the kind of the run that this configuration describes."""
    return KINDS[type(configuration.burn_in)]
