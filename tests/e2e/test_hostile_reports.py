"""Large and hostile files in place of a report: refused in a sentence, within seconds, and in bounded memory."""

import time
from pathlib import Path
from typing import Final

import pytest

from orchestrator.figures.report import SCHEMA_VERSION
from tests.fakes.commands import ROOT, python

MIB: Final = 1024 * 1024
LEAST_BYTES: Final = 40 * MIB
LIMITED: Final = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_DATA, ({400 * MIB}, {400 * MIB}))
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""
"""The program with no more memory than that. What the kernel says of a child's most would be its parent's, too."""
BEGIN: Final = b'{"schema_version": %d, ' % SCHEMA_VERSION


MADE: Final[dict[str, tuple[bytes, bytes, bytes]]] = {
    "objects in objects": (b"", b'{"schema_version": ', b""),
    "numbers that have no place": (BEGIN + b'"cells": [', b"1e300,", b"1]}"),
    "one name": (BEGIN + b'"metadata": "', b"<b>", b'"}'),
    "something else": (b'{"packages": [', b'{"name": "a", "version": "1"},', b"{}]}"),
    "ten gigabytes of zeros": (b"", b"", b""),
}
"""How a file begins, what it repeats, and how it ends."""


@pytest.mark.slow
@pytest.mark.parametrize("made", MADE)
def test_a_file_that_is_no_report_is_refused_at_once(tmp_path: Path, made: str) -> None:
    """Exit code 2, one line that names the file, no traceback; no more memory than a few times the file."""
    bad = tmp_path / "bad.json"
    begin, repeated, end = MADE[made]
    with bad.open("wb") as file:
        if repeated:
            file.write(begin + repeated * (LEAST_BYTES // len(repeated)) + end)
        else:
            file.truncate(10 * 1024 * MIB)  # which take no room on the disk
    begun = time.monotonic()
    refused = python("-c", LIMITED, "compare", str(bad), str(bad), cwd=ROOT)
    told = refused.stdout + refused.stderr
    assert refused.returncode == 2, told
    assert told.startswith(f"error: {bad}: ")
    assert len(told.splitlines()) < 5
    assert len(told) < 600
    assert time.monotonic() - begun < 60
