"""Change a stored run value by value, without the program's types: to anonymise it, or to follow a changed format.

    rewrite(source, target, lambda kind, value: value | {"hostname": "node-01"} if kind == "Header" else value)

Hashes that one file holds of another are made again.
"""

import hashlib
import json
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from orchestrator.store import run_files
from protocol.paths import RunPaths

Change = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Kind and value → value. Kinds: run.yaml, plan.json, result, mismatches, health, samples, types of journal records."""

_MAGIC: Final = re.compile(rb"[^\n]*\n")
_RECORD: Final = struct.Struct("<IIQ")
_CRC: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<II")


def rewrite(source: Path, target: Path, change: Change) -> None:
    """Write the run in `source` to `target`, which must not exist; logs, locks and reports are left behind."""
    target.mkdir(parents=True)
    old, new = RunPaths(source), RunPaths(target)
    _write_yaml(new.config, change("run.yaml", yaml.safe_load(old.config.read_bytes())))
    _write_json(new.plan, change("plan.json", json.loads(old.plan.read_bytes())))
    hashes = dict(_results(old, new, change))
    for path in old.of_processes("mismatches"):
        lines = path.read_text(encoding="utf-8").split("\n")
        _place(path, old, new).write_text("\n".join(_of_line(line, change) for line in lines))
    if old.compared_with.exists():
        shutil.copy(old.compared_with, new.compared_with)
    for path in sorted(old.telemetry.glob("*")):
        kind = "health" if path == old.health else "samples"
        _place(path, old, new).write_bytes(b"".join(_frame(change(kind, one)) for one in _frames(path.read_bytes())))
    if old.journal.exists():
        new.journal.write_bytes(_journal(old.journal.read_bytes(), change, hashes, _of_files(new)))


def migrate(folder: Path, change: Change) -> None:
    with tempfile.TemporaryDirectory() as made:
        rewrite(folder, Path(made) / "run", change)
        shutil.rmtree(folder)
        shutil.copytree(Path(made) / "run", folder)


def _results(old: RunPaths, new: RunPaths, change: Change) -> Iterator[tuple[str, str]]:
    """Write the results; old hash → new hash."""
    for name in sorted(old.results()):
        path = old.launches / name / "result.msgpack"
        data = path.read_bytes()
        changed = msgspec.msgpack.encode(change("result", msgspec.msgpack.decode(data)))
        _place(path, old, new).write_bytes(changed)
        yield hashlib.sha256(data).hexdigest(), hashlib.sha256(changed).hexdigest()


def _place(path: Path, old: RunPaths, new: RunPaths) -> Path:
    place = new.folder / path.relative_to(old.folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _of_line(line: str, change: Change) -> str:
    return json.dumps(change("mismatches", json.loads(line))) if line else ""


def _of_files(paths: RunPaths) -> dict[str, str]:
    """The hashes by which a journal knows its run.yaml and plan.json."""
    return {"plan_hash": run_files.load(paths).plan.hash, "config_hash": run_files.config_hash(paths)}


def _journal(data: bytes, change: Change, hashes: dict[str, str], of_files: dict[str, str]) -> bytes:
    magic = _MAGIC.match(data)
    written, at = [magic[0]], magic.end()
    while at < len(data):
        size, _, sequence = _RECORD.unpack_from(data, at)
        begin = at + _RECORD.size + _CRC.size
        record = msgspec.msgpack.decode(data[begin : begin + size])
        record = change(record["type"], record)
        if record["type"] == "Header":
            record |= of_files
        if promised := record.get("result_sha256"):
            record["result_sha256"] = hashes.get(promised, promised)
        body = msgspec.msgpack.encode(record)
        head = _RECORD.pack(len(body), zlib.crc32(body), sequence)
        written += [head, _CRC.pack(zlib.crc32(head)), body]
        at = begin + size
    return b"".join(written)


def _frames(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at < len(data):
        size, _ = _FRAME.unpack_from(data, at)
        at += _FRAME.size + size
        yield msgspec.msgpack.decode(data[at - size : at])


def _frame(value: dict[str, Any]) -> bytes:
    body = msgspec.msgpack.encode(value)
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def _write_yaml(path: Path, value: dict[str, Any]) -> None:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.encode(value))
