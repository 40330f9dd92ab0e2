"""The only error that the package protocol raises for received data."""


class ProtocolError(Exception):
    """Received data is no valid message, or its content cannot be right."""
