"""The two programs with all their commands; and programs in processes of their own, from the checkout."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from orchestrator.cli.commands import benchmark, orchestrate
from tests.fakes.nvml import ROOT


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """The command and everything below it, with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _commands(child, f"{path} {name}")


ALL_COMMANDS = [*_commands(orchestrate, "gpubench-orchestrate"), *_commands(benchmark, "torch-gpu-benchmark")]

TINY = ("--gpu-ids", "cpu:0", "-m", "lstm", "-b", "1", "--profile", "quick", "--phases", "inference", "--launches", "1")
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
        timeout=200,
    )
