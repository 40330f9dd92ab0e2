"""The burn-in: verified load for hours, and a verdict for each device.

A round launches every cell once. Each cell is one check (see docs/burn-in-reference.md, "Checks"):

    soak     sustained matrix products             memory   patterns over the free memory
    truth    exact products of whole numbers       links    copies and sums between devices
    replay   repeated training steps               steps    load that alternates with rest

    mismatch     an output with wrong bits, found by a check; a digest is the hash of an output
    session      the time from the start or a `resume` of the run to the end of its process
    stall        a time in which a worker was suspended
    suspension   a time in which the orchestrator was suspended
    served time  time that counts towards the requested time: at work and in short gaps (served_time.py)
    finding      a fact about a device that its verdict considers
    pace         verdict on a GPU's rates, over time or compared with its siblings (rate_checks.py)
"""
