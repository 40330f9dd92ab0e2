"""Changes a run that went well, for tests of the checker: its journal, its results, and what was done to it."""

import hashlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from tests.e2e.chaos import checker, reader
from tests.e2e.chaos.ledger import Hit, Ledger

Records = list[dict[str, Any]]
Lie = Callable[[Ledger], object]
"""Changes one place of a run."""


def copied(done: Ledger, folder: Path) -> Ledger:
    shutil.copytree(done.folder, folder / "run")
    return Ledger(
        done.seed,
        folder / "run",
        cells=dict(done.cells),
        planted=dict(done.planted),
        planted_on=dict(done.planted_on),
        lives=list(done.lives),
        sprung=dict(done.sprung),
    )


def rewritten(ledger: Ledger, change: Callable[[Records], Records]) -> None:
    """Write the journal again, with other records in the same format."""
    path = ledger.folder / "journal.gpj"
    data = b"gpubench journal 1\n"
    for number, record in enumerate(change(reader.read(path))):
        body = msgpack.packb(record)
        header = struct.pack("<IIQ", len(body), zlib.crc32(body), number)
        data += header + struct.pack("<I", zlib.crc32(header)) + body
    path.write_bytes(data)


def begun(records: Records, model: str) -> dict[str, Any]:
    return next(one for one in records if one["type"] == "Start" and one["cell"].startswith(model))


def ended(records: Records, model: str) -> dict[str, Any]:
    launch = begun(records, model)["launch"]
    return next(one for one in records if one["type"] == "End" and one["launch"] == launch)


def measured_otherwise(ledger: Ledger, model: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Another result of a model, which the journal promises as well."""
    start = begun(reader.read(ledger.folder / "journal.gpj"), model)
    path = ledger.folder / "launches" / start["cell"] / str(start["attempt"]) / "result.msgpack"
    result = msgpack.unpackb(path.read_bytes())
    change(result)
    path.write_bytes(msgpack.packb(result))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def promise(records: Records) -> Records:
        ended(records, model)["result_sha256"] = digest
        return records

    rewritten(ledger, promise)


def says(ledger: Ledger, words: str) -> None:
    """The checker has found exactly this, among what follows from it."""
    found = checker.check(ledger)
    assert any(words in sentence for sentence in found), found


def records(change: Callable[[Records], Records]) -> Lie:
    return lambda ledger: rewritten(ledger, change)


def without(*chosen: str, model: str) -> Lie:
    def change(found: Records) -> Records:
        launch = begun(found, model)["launch"]
        return [one for one in found if one["type"] not in chosen or one["launch"] != launch]

    return records(change)


def failure(**fields: object) -> Lie:
    def change(found: Records) -> Records:
        ended(found, "planted")["failure"] |= fields
        return found

    return records(change)


def report(change: Callable[[dict[str, Any]], object]) -> Lie:
    def lie(ledger: Ledger) -> None:
        found = json.loads(ledger.published.read_text())
        change(found)
        for path in (ledger.folder / "report.json", ledger.published):
            path.write_text(json.dumps(found))

    return lie


def struck(kind: str, model: str | None = None, device: str | None = None, *, after: str | None = None) -> Lie:
    """A fault hit the launch of that model, or none, before all or after the start of a launch of model `after`."""

    def lie(ledger: Ledger) -> None:
        found = reader.read(ledger.folder / "journal.gpj")
        when = 0 if after is None else begun(found, after)["at_ns"] + 1
        launch = None if model is None else begun(found, model)["launch"]
        ledger.hits.append(Hit(kind, when, 0.0, ledger.lives[0].pid, launch, device))

    return lie


def unplanted(ledger: Ledger) -> None:
    ledger.planted, ledger.planted_on, ledger.sprung = {}, {}, {}
