"""Probes: limits of a device without a model, one module for each kind of work."""
