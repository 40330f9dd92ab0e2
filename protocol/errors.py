"""The error of the package protocol for invalid messages."""


class ProtocolError(Exception):
    """Data received or to be sent is no valid message, or its content is impossible."""
