"""Probes: measurements of a device's own speed, without a model. One module for each kind of work."""
