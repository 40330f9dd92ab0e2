"""All kinds of run, by name."""

from typing import Final

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.kind import Kind
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.kinds.triage import TRIAGE

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (BENCHMARK, TRIAGE, BURN_IN)}


def of(configuration: Configuration) -> Kind:
    """Return the kind of a run. A preset without a kind of its own is a benchmark."""
    if configuration.burn_in is not None:
        return KINDS[BURN_IN.name]
    return KINDS.get(configuration.preset or "", KINDS[BENCHMARK.name])
