"""Large and hostile files in place of a report: refused in a sentence, within seconds, and in bounded memory."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from orchestrator.figures.report import SCHEMA_VERSION
from tests.fakes.commands import ROOT, python

MIB: Final = 1024 * 1024
LEAST_BYTES: Final = 100 * MIB
LIMITED: Final = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_DATA, ({700 * MIB}, {700 * MIB}))
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""
"""The program with no more memory than that. What the kernel says of a child's most would be its parent's, too."""
BEGIN: Final = b'{"schema_version": %d, ' % SCHEMA_VERSION


def nesting(file: Path) -> None:
    file.write_bytes(b'{"schema_version": ' * (LEAST_BYTES // 19))


def lists(file: Path) -> None:
    file.write_bytes(BEGIN + b'"more": ' + b"[" * LEAST_BYTES)


def numbers(file: Path) -> None:
    file.write_bytes(BEGIN + b'"cells": [' + b"1e300," * (LEAST_BYTES // 6) + b"1]}")


def text(file: Path) -> None:
    file.write_bytes(BEGIN + b'"metadata": "' + b"<b>" * (LEAST_BYTES // 3) + b'"}')


def other(file: Path) -> None:
    file.write_bytes(b'{"packages": [' + b'{"name": "a", "version": "1"},' * (LEAST_BYTES // 30) + b"{}]}")


def zeros(file: Path) -> None:
    with file.open("wb") as made:
        made.truncate(10 * 1024 * MIB)


@pytest.mark.slow
@pytest.mark.parametrize("make", [nesting, lists, numbers, text, other, zeros])
def test_a_file_that_is_no_report_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Exit code 2, one line that names the file, no traceback; no more memory than a few times the file."""
    bad = tmp_path / "bad.json"
    make(bad)
    begun = time.monotonic()
    refused = python("-c", LIMITED, "compare", str(bad), str(bad), cwd=ROOT)
    told = refused.stdout + refused.stderr
    assert refused.returncode == 2, told
    assert told.startswith(f"error: {bad}: ")
    assert len(told.splitlines()) < 5
    assert len(told) < 600
    assert time.monotonic() - begun < 60
