"""A benchmark: each cell measured for a number of launches. `quick` and `triage` are presets of it."""

from typing import Final

from orchestrator.engine.kind import Kind

BENCHMARK: Final = Kind(name="benchmark")
