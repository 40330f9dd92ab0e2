"""The pure state of a run: what its journal means."""
