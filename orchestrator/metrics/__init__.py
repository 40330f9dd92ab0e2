"""What a run tells Prometheus while it goes on: --metrics-file and --metrics-port.

    Display.show, tell ─▶ follower.py ── View ──▶ families.py ── names, labels, values ──▶ exporters.py ─▶ file, port
        (the loop)        (under a lock)          (a table, pure)                          (threads of their own)

The loop hands over what it shows to people anyway; nothing is read for this. What may wait, a disk or whoever asks,
waits in a thread that no run needs to end.
"""
