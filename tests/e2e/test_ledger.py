"""Where the time of a real launch went: the entries of its ledger leave nothing out, and count nothing twice."""

from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.analysis import time_ledgers
from orchestrator.figures.parts import LaunchLedger
from tests.fakes import faults
from tests.fakes.injection import inject
from tests.fakes.node import start

SYNC_S = 0.3
LASTS_S = 0.3
SLOW_DISK = f"""
import os, time
_real = os.fsync
def _slow(fd):
    time.sleep({SYNC_S})
    _real(fd)
os.fsync = _slow
"""
"""Results are written with fsync, of the file and of its folder; the journal, and nothing else, with fdatasync."""


def whole_ms(ledger: LaunchLedger) -> float:
    return float(sum(getattr(ledger, name) for name in ledger.__struct_fields__ if name != "overhead_ms"))


def test_the_entries_add_up_to_the_time_from_one_start_to_the_next(tmp_path: Path) -> None:
    """A slow disk is in `record` alone; between two launches is less than one of its syncs."""
    models = (faults.model(name, seconds=LASTS_S) for name in ("one", "two", "three"))
    node = start(tmp_path / "run", *models, environment=inject(tmp_path / "injected", SLOW_DISK))
    node.ended()
    archive = node.archive()
    told = [time_ledgers.ledger([(archive.result(attempt).ledger, attempt)]) for attempt in archive.attempts]
    between_ms = []
    for ledger, (one, following) in zip(told[:-1], pairwise(archive.attempts), strict=True):
        assert ledger.record_ms >= 2 * SYNC_S * 1e3
        assert ledger.measure_ms >= LASTS_S * 1e3
        from_start_to_start_ms = (following.start.at_ns - one.start.at_ns) / 1e6
        between_ms.append(from_start_to_start_ms - whole_ms(ledger))
        measuring_ms = ledger.load_ms + ledger.warm_up_ms + ledger.measure_ms
        assert ledger.overhead_ms == pytest.approx(whole_ms(ledger) - measuring_ms)
    assert 0 <= min(between_ms) < SYNC_S * 1e3
