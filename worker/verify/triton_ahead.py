"""Import of Triton in the zygote, before launches are forked. If it fails, each launch imports Triton.

The import takes 0.5 to 0.7 s on an H200 host, during which the GPU of a launch would be idle.
"""

import triton.experimental.gluon  # noqa: F401 - imported by Triton itself, later than here
from triton.runtime.cache import triton_key

from worker.verify import triton_digest  # noqa: F401 - so that it is there when a launch asks for it

triton_key()
