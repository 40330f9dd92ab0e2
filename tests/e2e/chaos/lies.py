"""Runs that went well, and changes of them, for tests of the checker: journal, results, and what was done."""

import copy
import hashlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from orchestrator.config.run_configuration import StoredRun
from tests.e2e.chaos import checker, reader
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.fakes.node import Node

Records = list[dict[str, Any]]
Lie = Callable[[Ledger], object]
"""Changes one place of a run."""


class Unsaid(str):
    """What the checker must not say."""


Step = Lie | str | Unsaid
"""A lie; or what the checker must say, or not, of those before it."""


def tell(ledger: Ledger, *steps: Step) -> None:
    """Take the steps, one after the other."""
    for step in steps:
        if isinstance(step, str):
            found = checker.check(ledger)
            assert any(step in sentence for sentence in found) is not isinstance(step, Unsaid), (step, found)
        else:
            step(ledger)


def done(stored: StoredRun, folder: Path, **planted_on: str) -> Ledger:
    """Do the run in `folder`, whose model "planted" raises. planted_on: of a model, on which of its devices."""
    node = Node(folder)
    node.ended(4)
    log = folder.parent / "life-0.log"
    log.write_text(node.output)
    life = Life(node.process.pid, 0, 2**63, 4, log)
    cells = json.loads(msgspec.json.encode({cell.id: cell for cell in stored.plan.cells}))
    planted = {"planted": "raise"}
    return Ledger(1, folder, cells, planted, planted_on, lives=[life], sprung=dict.fromkeys(planted, 0))


def copied(ledger: Ledger, folder: Path) -> Ledger:
    shutil.copytree(ledger.folder, folder / "run")
    return replace(copy.deepcopy(ledger), folder=folder / "run")


def records(change: Callable[[Records], Records | None]) -> Lie:
    """Other records in the journal, in the same format."""

    def lie(ledger: Ledger) -> None:
        path = ledger.folder / "journal.gpj"
        found, data = reader.read(path), b"gpubench journal 1\n"
        for number, record in enumerate(change(found) or found):
            body = msgpack.packb(record)
            header = struct.pack("<IIQ", len(body), zlib.crc32(body), number)
            data += header + struct.pack("<I", zlib.crc32(header)) + body
        path.write_bytes(data)

    return lie


def begun(records: Records, model: str) -> dict[str, Any]:
    return next(one for one in records if one["type"] == "Start" and one["cell"].startswith(model))


def ended(records: Records, model: str) -> dict[str, Any]:
    launch = begun(records, model)["launch"]
    return next(one for one in records if one["type"] == "End" and one["launch"] == launch)


def result(model: str, change: Callable[[dict[str, Any]], object]) -> Lie:
    """Another result of a model, which the journal promises as well."""

    def lie(ledger: Ledger) -> None:
        start = begun(reader.read(ledger.folder / "journal.gpj"), model)
        path = ledger.folder / "launches" / start["cell"] / str(start["attempt"]) / "result.msgpack"
        found = msgpack.unpackb(path.read_bytes())
        change(found)
        path.write_bytes(msgpack.packb(found))
        promised = {"result_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        records(lambda found: ended(found, model).update(promised))(ledger)

    return lie


def without(*chosen: str, model: str) -> Lie:
    def change(found: Records) -> Records:
        launch = begun(found, model)["launch"]
        return [one for one in found if one["type"] not in chosen or one["launch"] != launch]

    return records(change)


def failure(**fields: object) -> Lie:
    return records(lambda found: ended(found, "planted")["failure"].update(fields))


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
