"""What Triton does once in each process before its first kernel, done once for all launches, ahead of them.

It hashes all of itself for the keys of its cache, and imports Gluon to tell the two kinds of kernels apart: 0.5 to
0.7 s on an H200 in which the GPU is idle. Neither touches a GPU. Where Triton is missing, or has these elsewhere, this
import fails, and a launch does it all itself.
"""

import triton.experimental.gluon  # noqa: F401 - imported by Triton itself, later than here
from triton.runtime.cache import triton_key

from worker.verify import triton_digest  # noqa: F401 - so that it is there when a launch asks for it

triton_key()
