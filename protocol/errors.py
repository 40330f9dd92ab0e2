"""The errors of this room.

ProtocolError    bytes that are not a message, or a message that cannot be right
"""


class ProtocolError(Exception):
    """What was received is not what the two sides agreed to say."""
