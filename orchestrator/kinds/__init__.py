"""Kinds of run, one vertical slice each. A kind does not import another."""
