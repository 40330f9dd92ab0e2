"""Whether the hardware is sound: what is read, what it means, and what to do about it.

    NVML, /sys ─▶ reader, node ─▶ watch (in the sampler) ─▶ telemetry/health.records ─▶ course ─▶ verdict ─▶ report
                                                        signals, limits (configs/health.yaml), xids ──┘

reader, node and watch touch the world; everything behind the file is pure.
"""
