"""JAX in a process of its own, a child of the launch, which never imports torch.

launch ── Request on standard input ──▶ child: compiled, timed, profiled ── Answer on standard output ──▶ launch
"""
