"""What parent and child say to each other: cells, results, failures, messages and their bytes.

Frozen types only. Nothing here imports torch or zmq, and nothing does I/O beyond bytes in, bytes out.
"""

from typing import Final

VERSION: Final = 1
"""Version of the wire format. Parent and child must agree; a result file of another version is refused."""
