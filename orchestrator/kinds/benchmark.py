"""The benchmark: cells are launched as often as configured, and again if a GPU is SUSPECT. `quick` is a preset."""

from typing import Final

from orchestrator.engine.kind import Kind

BENCHMARK: Final = Kind(name="benchmark")
