"""Import of Inductor, torch.compile's backend, ahead of the launches that compile. It takes 1 to 4 s.

The zygote (the process from which launches are forked) imports this module, so that no GPU waits for the import. The
import must start no thread and open no GPU.
"""

import importlib
import pkgutil

from torch._inductor import config

config.compile_threads = 1
"""A larger number would start a pool of compile processes and their threads."""
config.use_experimental_benchmarker = False
"""True would query CUDA, which opens the GPU (torch 2.11)."""

import torch._dynamo  # noqa: E402 - imported with the settings above
import torch._inductor.compile_fx  # noqa: E402 - as above
from torch._inductor.codecache import torch_key  # noqa: E402 - as above
from torch._inductor.codegen.common import init_backend_registration  # noqa: E402 - as above
from torch._inductor.fx_passes import serialized_patterns  # noqa: E402 - imported with the settings above

# The rest imports and computes what each process would do for its first compilation.
torch_key()  # hashes the files of Inductor, and keeps the hash
init_backend_registration()
torch._dynamo.list_backends()
for pattern in pkgutil.iter_modules(serialized_patterns.__path__, f"{serialized_patterns.__name__}."):
    importlib.import_module(pattern.name)
