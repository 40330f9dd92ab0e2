"""Programs in processes of their own, from the checkout."""

import os
import subprocess
import sys
from pathlib import Path

from tests.fakes.nvml import ROOT

TINY = ("--gpu-ids", "cpu:0", "-m", "lstm", "-b", "1", "--profile", "quick", "--phases", "inference")
"""Options of a run that takes seconds."""


def python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
