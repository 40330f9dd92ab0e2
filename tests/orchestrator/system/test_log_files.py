"""orchestrator/system/log_files.py: a log stays below its cap, and its beginning and end survive."""

from pathlib import Path

import pytest

from orchestrator.system import log_files
from protocol.paths import RunPaths

LINE = b"x" * 99 + b"\n"


def test_the_middle_is_freed_while_the_process_writes(tmp_path: Path) -> None:
    """The file takes less of the disk, and what is appended later is kept."""
    path = tmp_path / "stdout.log"
    with path.open("ab", buffering=0) as process:
        process.write(b"first line\n" + LINE * 200_000)
        log_files.hold_below_cap(path)
        assert path.stat().st_blocks * 512 < log_files.CAP_BYTES
        process.write(b"last line\n")
    assert log_files.tail(path).endswith("last line")
    log_files.compact(path)
    text = path.read_text()
    assert text.startswith("first line")
    assert text.endswith("last line\n")
    assert len(text) < log_files.CAP_BYTES


def test_as_much_of_the_end_is_kept_as_a_traceback_may_take(tmp_path: Path) -> None:
    """One MiB of the beginning and three of the end, while the process writes and afterwards."""
    path = tmp_path / "stdout.log"
    head, end = b"h" * (1 << 20), b"e" * (3 << 20)
    path.write_bytes(head + LINE * 80_000 + end)
    log_files.hold_below_cap(path)
    held = path.read_bytes()
    assert (held[: len(head)], held[-len(end) :]) == (head, end)
    assert held.strip(b"he").count(b"\0") > 7_000_000
    log_files.compact(path)
    kept = path.read_bytes()
    assert (kept[: len(head)], kept[-len(end) :]) == (head, end)
    assert len(kept) < len(head) + len(end) + 100


def test_short_and_missing_logs_are_unchanged(tmp_path: Path) -> None:
    """Nothing is cut below the cap; a process that never started has printed nothing."""
    for name, text in (("stderr.log", LINE * 10), ("none", b"")):
        path = tmp_path / name
        path.write_bytes(text) if text else None
        log_files.hold_below_cap(path)
        log_files.compact(path)
        assert log_files.tail(path) == text.decode().strip()
        assert path.exists() is bool(text)
    assert (tmp_path / "stderr.log").read_bytes() == LINE * 10


def test_all_logs_together_have_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it the first and the last lines of each are kept; logs of earlier sessions count too."""
    monkeypatch.setattr(log_files, "ALL_BYTES", 300_000)
    run = RunPaths(tmp_path)
    attempts = [run.launch("before", 1).of_rank(1), run.launch("long", 1), run.launch("longer", 1).of_rank(2)]
    paths = [attempt.stderr for attempt in attempts]
    for path in paths:
        path.parent.mkdir(parents=True)
    paths[0].write_bytes(LINE * 1_000)
    kept = log_files.RunLogs(run)
    for path in paths[1:]:
        path.write_bytes(b"first line\n" + LINE * 2_500 + b"last line\n")
        kept.compact(path)
    assert [path.stat().st_size for path in paths[:2]] == [100_000, 250_021]
    assert paths[2].stat().st_size < 70_000
    text = paths[2].read_text()
    assert (text.startswith("first line\n"), text.endswith("last line\n")) == (True, True)
    assert "184,485 bytes" in text
    assert kept.bytes == sum(path.stat().st_size for path in paths)
