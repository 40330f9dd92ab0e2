"""Messages between the processes: frozen types and their bytes, without torch, zmq and I/O."""

from typing import Final

VERSION: Final = 1
"""Version of the wire format; parent and child must agree."""
