"""The orchestrator: plans cells, runs each in a new process, handles failures, and merges the results.

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
