"""The benchmark: cells are launched as often as configured, and again if a GPU is SUSPECT: maybe slower than siblings.

The command `quick` is a benchmark with the settings of configs/presets.yaml.
"""

from typing import Final

from orchestrator.engine.kind import Kind

BENCHMARK: Final = Kind(name="benchmark")
