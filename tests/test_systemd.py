"""The units in contrib/systemd: systemd takes them, and gpubench understands the commands in them."""

import copy
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from orchestrator.cli.commands import orchestrate

UNITS = Path(__file__).parents[1] / "contrib" / "systemd"
PROGRAM = "/opt/gpubench/.venv/bin/gpubench-orchestrate"


def settings(unit: str = "gpubench.service") -> dict[str, str]:
    """What a unit says, the last of several lines of one name."""
    lines = (UNITS / unit).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say; without the program that a unit names, it has."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = [tmp_path / unit.name for unit in UNITS.iterdir()]

    def verify() -> subprocess.CompletedProcess[str]:
        command = [analyze, "verify", "--man=no", *units]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    for unit in units:
        unit.write_text((UNITS / unit.name).read_text(encoding="utf-8").replace(PROGRAM, str(program)))
    done = verify()
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "gpubench" in line]
    assert (done.returncode, said) == (0, []), done.stderr
    units[:] = [shutil.copy(UNITS / "gpubench.service", tmp_path)]  # its program is not there
    done = verify()
    assert done.returncode != 0
    assert PROGRAM in done.stderr


@pytest.mark.parametrize("key", ["ExecStart", "ExecStartPre"])
def test_the_commands_are_understood(key: str) -> None:
    """By the command line of today: every option in a unit exists."""
    program, *words = shlex.split(settings()[key])
    assert program == PROGRAM
    command: click.Command = orchestrate
    if words[0] in orchestrate.commands:
        command, words = copy.copy(orchestrate.commands[words[0]]), words[1:]  # it remembers its first context
    assert command.make_context("gpubench-orchestrate", words).args == []


def test_a_stop_leaves_time_for_the_report() -> None:
    """SIGTERM goes to the orchestrator alone, which needs most time where a worker cannot be killed."""
    assert settings()["KillMode"] == "mixed"
    assert int(settings()["TimeoutStopSec"]) > 20 + 10 + 60


def test_a_failure_before_the_run_is_told_too() -> None:
    """Where `doctor` fails, nothing calls --on-failure: systemd starts a unit that is there, and that runs once."""
    told = settings()["OnFailure"]
    assert (UNITS / told).is_file()
    assert settings(told)["Type"] == "oneshot"
    assert shlex.split(settings(told)["ExecStart"])[-1].startswith("gpubench.service has failed")
