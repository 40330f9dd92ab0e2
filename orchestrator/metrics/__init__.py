"""Prometheus metrics of a running run: --metrics-file and --metrics-port.

    Display.show, tell ─▶ follower.py ── View ──▶ families.py ── names, labels, values ──▶ exporters.py ─▶ file, port
    (the engine's loop)   (under a lock)          (a table, pure)                          (threads of their own)

A slow disk or client blocks a daemon thread, never the run.
"""
