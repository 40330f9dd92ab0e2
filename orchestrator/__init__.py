"""The parent: plans cells, runs each in a fresh process, survives what happens to them, merges the results.

Never imports torch. What decides is pure (plan, state, policy, launches, merge); what touches the world is thin (spawn,
link, telemetry, journal); run.py ties them.
"""

from typing import Final

TOOL_VERSION: Final = "0.1.0"

HOW_TO_INSTALL: Final = (
    "`make install` in the checkout puts everything into .venv (then .venv/bin/gpubench-orchestrate); "
    "`pip install .` puts it into this environment."
)
"""For whoever started this without its libraries. Stands here because this module needs none."""
