"""Burn-in: which checks, in which rounds, and what they say of each GPU in the morning."""
