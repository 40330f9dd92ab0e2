"""Runs whose files are damaged: each is over, with a report of long ago."""

import os
from collections.abc import Callable
from pathlib import Path

from orchestrator.store.journal import MAGIC, Journal
from orchestrator.store.journal_records import Finished
from tests.fakes.runs import FakeRun


def unknown_record(run: FakeRun) -> None:
    """Append a record of a later version."""

    class Unheard(Finished, frozen=True, kw_only=True, tag=True):
        """A kind that this version has never heard of."""

    with Journal(run.paths.journal) as journal:
        journal.append(Unheard(at_ns=1, interrupted=False))


def flip(run: FakeRun) -> None:
    data = bytearray(run.paths.journal.read_bytes())
    data[len(MAGIC) + 30] ^= 1
    run.paths.journal.write_bytes(data)


def begin_twice(run: FakeRun) -> None:
    with Journal(run.paths.journal) as journal:
        journal.append(journal.recovered[0])


def cut(run: FakeRun, *, last: bool) -> None:
    """Cut the journal where the last launch begins, or the first: results remain that it does not know."""
    whole = run.paths.journal.read_bytes()
    os.truncate(run.paths.journal, whole.rindex(b"\xa5Start") if last else whole.index(b"\xa5Start") + 1)


DAMAGES: dict[str, Callable[[FakeRun], object]] = {
    "no-yaml": lambda run: run.paths.config.write_text("a: ["),
    "not-a-run": lambda run: run.paths.config.write_text("tool_version: 1"),
    "too-large": lambda run: run.paths.config.write_bytes(b"#" * (16 << 20) + b"\n"),
    "no-plan": lambda run: run.paths.plan.unlink(),
    "no-json": lambda run: run.paths.plan.write_text("{"),
    "another-plan": lambda run: run.paths.plan.write_text(run.paths.plan.read_text().replace(":8", ":9", 1)),
    "no-journal": lambda run: run.paths.journal.unlink(),
    "no-report": lambda run: (run.paths.journal.unlink(), run.paths.report("txt").unlink()),
    "another-file": lambda run: run.paths.journal.write_text("something else entirely, and long"),
    "empty-journal": lambda run: run.paths.journal.write_bytes(MAGIC),
    "flipped-bit": flip,
    "unknown-record": unknown_record,
    "begins-twice": begin_twice,
    "cut-last": lambda run: cut(run, last=True),
    "cut-first": lambda run: cut(run, last=False),
}


def prepare(folder: Path) -> None:
    """Make a folder for each damage, and one that is sound."""
    for name, damage in {"sound": lambda _: None, **DAMAGES}.items():
        run = FakeRun(folder / name, batch_sizes=(1, 8), run_id=name)
        run.everything()
        run.finish()
        run.paths.report("txt").touch()
        damage(run)
