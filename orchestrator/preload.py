"""What is imported ahead of the launches of a run: by the zygote once, by a new interpreter each time.

Both import the same in the same order, before they connect. What a process imports after it has threads lies elsewhere
in memory, and that alone moved launch-bound cells by percents (docs/measurements.md).
"""

from orchestrator.configuration import StoredRun
from protocol.cell import Workload


def modules(stored: StoredRun) -> tuple[str, ...]:
    """Workloads, families and model classes of the plan, each once."""
    cells, by_name = stored.plan.cells, stored.configuration.by_name
    named = [f"worker.workloads.{cell.workload}" for cell in cells]
    for model in (by_name[cell.model] for cell in cells if cell.workload is not Workload.PROBE):
        named += [f"worker.models.{model.family}"] if model.family else []
        named += model.preload
    return tuple(dict.fromkeys(named))
