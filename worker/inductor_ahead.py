"""Import of Inductor before all launches that compile, so that no GPU is idle during it (1 to 4 s).

The zygote imports this module and forks later, so the import must start no thread and open no GPU.
"""

from torch._inductor import config

config.compile_threads = 1
"""A larger number would start a pool of compile workers, and threads with it."""
config.use_experimental_benchmarker = False
"""True asks CUDA whether a GPU is there, which opens it (torch 2.11)."""

import torch._dynamo  # noqa: E402 - imported with the settings above
import torch._inductor.compile_fx  # noqa: E402 - as above
from torch._inductor.codecache import torch_key  # noqa: E402 - as above
from torch._inductor.codegen.common import init_backend_registration  # noqa: E402 - as above

torch_key()  # hashes the files of Inductor, and keeps the hash
init_backend_registration()  # this and the next import what the first compilation would
torch._dynamo.list_backends()
