"""The burn-in: verified load for hours, and a verdict for each device."""
