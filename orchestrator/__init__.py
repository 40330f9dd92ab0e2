"""The orchestrator: plans cells, runs each in a new process, handles failures, and merges the results.

Words of all modules:

    device   a GPU, a MIG slice of a GPU, or a part of the CPU cores ("cpu:0")
    cell     what is measured: device, model or probe, workload, precision, batch size, mode and more
    probe    a measurement of the device itself, such as its memory bandwidth, in place of a model
    mode     loaded: all devices work at once. solo: one device works at a time
    round    a part of a plan that measures each cell once
    slot     a planned launch: (id of the cell, round)
    launch   one attempt to measure a cell, in a new process (the worker). A failed launch may be repeated
    gang     a launch on several devices, with a process for each
    block    iterations that a worker times together
    zygote   the process that imports torch once and forks workers
    sampler  the telemetry process, which reads NVML. A sample is one reading of a GPU
    session  the work of one orchestrator process on a run. Each resume begins another session
    siblings the other GPUs of the run with the same name and memory. SUSPECT: perhaps slower than its siblings

Never imports torch. Decisions are pure functions (plan/, state/, most of analysis/). Modules that do I/O contain few
decisions (engine/, gpu/, store/). engine/run.py connects them.
"""

from typing import Final

TOOL_VERSION: Final = "0.1.0"

HOW_TO_INSTALL: Final = (
    "`make install` in the checkout puts everything into .venv (then .venv/bin/gpubench-orchestrate); "
    "`pip install .` puts it into this environment."
)
"""Advice if a library is missing. Defined here because this module imports no library."""
