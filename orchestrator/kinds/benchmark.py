"""The benchmark: every cell is launched a fixed number of times. `quick` is one of its presets."""

from typing import Final

from orchestrator.engine.kind import Kind

BENCHMARK: Final = Kind(name="benchmark")
