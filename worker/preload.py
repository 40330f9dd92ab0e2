"""What is imported ahead of every launch that uses torch, so that none of it is imported in the middle of one.

torch imports much of itself when it is first needed, some of it in the middle of what is measured: an optimizer pulls
in torch._dynamo and 900 modules (1.2 s). A test compares sys.modules before and after a launch. What a single model
needs stands in its description (`ModelSpec.preload`).
"""

import sys
from typing import Final

COMMON: Final = (
    "encodings.ascii",
    "numpy.ctypeslib",
    "torch",
    "torch._dynamo",
    "torch.utils._device",
    "torch.utils.flop_counter",
    "safetensors.torch",
    "worker.classify",
    "worker.models.registry",
    "worker.workloads.generation",
    "worker.workloads.inference",
    "worker.workloads.load",
    "worker.workloads.training",
)


def modules(model: tuple[str, ...]) -> tuple[str, ...]:
    """What a model needs, and what every launch needs that uses torch; call it when the workload was imported."""
    return (*model, *COMMON) if "torch" in sys.modules else model
