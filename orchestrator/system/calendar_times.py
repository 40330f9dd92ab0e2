"""Calendar times in the format of the report."""

import datetime


def iso(seconds: float) -> str:
    """Format seconds since the epoch as ISO 8601 in UTC: 2024-01-15T10:30:00Z."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
