"""The error of the package protocol for invalid messages."""


class ProtocolError(Exception):
    """A message, received or to be sent, is invalid or has impossible content."""
