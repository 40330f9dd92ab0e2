"""Import of Triton before the launches, in the process they are forked from. If it fails, each launch imports it.

Triton hashes its own files for its cache, and imports Gluon. On an H200 host that takes 0.5 to 0.7 s, in which the GPU
would be idle.
"""

import triton.experimental.gluon  # noqa: F401 - imported by Triton itself, later than here
from triton.runtime.cache import triton_key

from worker.verify import triton_digest  # noqa: F401 - so that it is there when a launch asks for it

triton_key()
