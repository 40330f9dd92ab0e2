"""A small run to change, and a folder to change it in."""

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator.state import archive
from orchestrator.store import journal
from protocol import codec
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes.runs import FakeRun, gpus


@dataclass(frozen=True)
class Template:
    """A run with a result, a failure and samples, and the bytes of its files. bodies: those of its records."""

    run: FakeRun
    paths: RunPaths
    loaded: archive.Archive
    journal: bytes
    bodies: tuple[bytes, ...]
    result: bytes
    config: bytes
    samples: bytes


@functools.cache
def template() -> Template:
    run = FakeRun(folder() / "run", devices=gpus(1), batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1), blocks=4, iterations=5)
    run.failed(run.cell(batch_size=8), Category.CRASHED, message="killed", signal=11, evidence={"stderr": "x"})
    run.samples()
    run.finish()
    loaded = run.archive()
    return Template(
        run=run,
        paths=run.paths,
        loaded=loaded,
        journal=run.paths.journal.read_bytes(),
        bodies=tuple(codec.encode(record) for record in journal.read(run.paths.journal)),
        result=loaded.folder(loaded.attempts[0]).result.read_bytes(),
        config=run.paths.config.read_bytes(),
        samples=run.paths.samples(loaded.stored.devices[0].uuid).read_bytes(),
    )


def folder() -> Path:
    """A folder of this process, removed with it."""
    return Path(_holder().name)


@functools.cache
def _holder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpubench-fuzz-")
