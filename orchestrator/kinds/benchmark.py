"""A benchmark: each cell measured for a number of launches. `quick` is a preset of it."""

from typing import Final

from orchestrator.engine.kind import Kind

BENCHMARK: Final = Kind(name="benchmark")
