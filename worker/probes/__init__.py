"""Probes: measurements of what a device itself can do, without a model. One module for each kind of work."""
