"""Burn-in: which checks, in which rounds, and the verdict on each GPU."""
