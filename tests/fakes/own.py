"""Code as a user might write it, and the descriptions of models that the orchestrator would make of it."""

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from protocol.cell import InputSpec, ModelSpec
from protocol.own import OwnModel
from worker.models import registry
from worker.models.base import Feed

CPU = torch.device("cpu")
HEADER = "import collections, torch\nfrom torch import nn\n"
LINEAR = """
class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(width, 2)
    def forward(self, x):
        return self.layer(x)
    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 4)
"""


class Code:
    """Python files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, text: str, *, file: str = "net.py", name: str = "Net", **own: Any) -> ModelSpec:
        """Write a file, and describe the model in it."""
        target = self.folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(HEADER + textwrap.dedent(text), encoding="utf-8")
        inputs = own.pop("inputs", ())
        return described(OwnModel(**{"target": f"{target}:{name}", "allowed": True, **own}), inputs)


@contextmanager
def code(folder: Path) -> Iterator[Code]:
    """Code that is imported in this process, and forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield Code(folder)
    finally:
        sys.path[:] = path
        for added in set(sys.modules) - modules:
            if str(folder) in str(getattr(sys.modules[added], "__file__", "")):
                del sys.modules[added]


def described(own: OwnModel, inputs: tuple[InputSpec, ...] = ()) -> ModelSpec:
    return ModelSpec(
        name="mine",
        title="mine",
        type="other",
        family="own",
        inputs=inputs,
        parameters=0,
        inference_gflops=0.0,
        memory_mb=0,
        own=own,
    )


def fed(
    spec: ModelSpec, dtype: torch.dtype = torch.float32, *, batch_size: int = 3
) -> tuple[Any, Any, dict[str, torch.Tensor]]:
    family = registry.family(spec)
    module = family.build(spec, CPU, None)
    feed = Feed(batch_size=batch_size, input_size=None, device=CPU, dtype=dtype, seed=1)
    return family, module, family.batch(spec, feed)
