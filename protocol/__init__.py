"""Data that the processes of gpubench exchange, and its encoding. Imports neither torch nor zmq."""

from typing import Final

VERSION: Final = 1
"""Version of the message format; orchestrator and worker must have the same."""
