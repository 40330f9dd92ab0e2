"""The error of this package."""


class ProtocolError(Exception):
    """Received data is no valid message, or its content cannot be right."""
