"""Measurement in JAX, in a child process of the launch. The child never imports torch.

launch ── Request on standard input ──▶ child: compiled, timed, profiled ── Answer on standard output ──▶ launch
"""
