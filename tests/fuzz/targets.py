"""What is fuzzed: each target takes any bytes, and raises only where gpubench has a defect.

Every error that the product documents is caught here, and no other: what gets through is the finding. test_fuzz.py runs
them with hypothesis, `python -m tests.fuzz` with atheris.
"""

import dataclasses
import functools
import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec
import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue, models_file, settings
from orchestrator.config import resolution as config
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.own_code import Search
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.settings import LayeredSettings
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.gpu.health import records as health
from orchestrator.gpu.telemetry import samples
from orchestrator.gpu.telemetry.sampler import Task
from orchestrator.gpu.telemetry.samples import Batch
from orchestrator.kinds import registry
from orchestrator.kinds.study import grid
from orchestrator.report.files import render
from orchestrator.state import archive
from orchestrator.store import journal, lock, run_files
from orchestrator.store.journal import MAGIC, Journal
from orchestrator.store.journal_records import Record
from protocol import codec
from protocol.cell import ModelSpec
from protocol.errors import ProtocolError
from protocol.messages import AwaitFree, FromSampler, FromWorker, FromZygote, LaunchSpec, ToWorker, ToZygote
from protocol.paths import RunPaths
from protocol.result import Result
from tests.fakes.configurations import DEFAULTS
from tests.fuzz import pages, recorded
from tests.fuzz.framing import CHECK, HEADER, framed
from tests.fuzz.target import Target
from tests.fuzz.template import folder, template
from worker.jax_child.exchange import Answer, Request

KINDS: Final[tuple[object, ...]] = (
    *(FromWorker, ToWorker, ToZygote, FromZygote, FromSampler, AwaitFree, Task, LaunchSpec),
    *(Record, Result, Batch, health.HealthRecord, Request, Answer),
)
"""Everything that is read as MessagePack. tests/test_security.py holds this list to the code."""

DECODERS: Final = tuple(codec.Decoder[object](kind) for kind in KINDS)


def check_codec(data: bytes) -> None:
    """A message or a ProtocolError; a message comes back from its own bytes as it was."""
    if not data:
        return
    decoder = DECODERS[data[0] % len(DECODERS)]
    try:
        message = decoder.decode(data[1:])
    except ProtocolError:
        return
    assert decoder.decode(codec.encode(message)) == message


def codec_seeds() -> tuple[bytes, ...]:
    made = template()
    place = {kind: bytes([number]) for number, kind in enumerate(KINDS)}
    return (*(place[Record] + body for body in made.bodies), place[Result] + made.result)


def whole_records(data: bytes) -> Iterator[int]:
    """The numbers of the sound records that stand anywhere in a file."""
    for at in range(len(MAGIC), len(data) - HEADER.size - CHECK.size + 1):
        header = data[at : at + HEADER.size]
        length, crc, number = HEADER.unpack(header)
        body = data[at + HEADER.size + CHECK.size :][:length]
        if CHECK.unpack_from(data, at + HEADER.size)[0] == zlib.crc32(header) and zlib.crc32(body) == crc:
            yield number


def check_journal(data: bytes) -> None:
    """The records from the first to the last, or a RunFolderError; never some of them. A writer sees the same."""
    path = folder() / "journal"
    path.write_bytes(data)
    try:
        found = journal.read(path)
    except RunFolderError:
        with pytest.raises(RunFolderError), Journal(path):
            pass
        assert path.read_bytes() == data, "what cannot be understood was changed"
        return
    assert max(whole_records(data), default=-1) < len(found), "records were passed over"
    with Journal(path) as opened:
        assert opened.recovered == found
    assert data.startswith(path.read_bytes()) or not found, "more than a torn tail was cut off"
    assert journal.read(path) == found


def journal_seeds() -> tuple[bytes, ...]:
    data = template().journal
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 4
    return data, data[:-5], bytes(flipped)


def check_records(data: bytes) -> None:
    """A list of records that make no sense gives a report or a RunFolderError."""
    made = template()
    try:
        bodies = [msgpack.packb(record) for record in msgpack.unpackb(data, strict_map_key=False)]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return
    made.paths.journal.write_bytes(MAGIC + b"".join(framed(body, number) for number, body in enumerate(bodies)))
    try:
        loaded = archive.assemble(made.run.stored, made.paths, journal.read(made.paths.journal))
    except RunFolderError:
        return
    for attempt in loaded.attempts:
        assert loaded.folder(attempt).folder.resolve().is_relative_to(made.paths.folder.resolve())
    _reported(loaded)


def check_result(data: bytes) -> None:
    """A result that is promised by its hash and makes no sense gives a report that says so."""
    made = template()
    first = made.loaded.attempts[0]
    end = msgspec.structs.replace(first.end, result_sha256=hashlib.sha256(data).hexdigest())
    attempts = (msgspec.structs.replace(first, end=end), *made.loaded.attempts[1:])
    made.loaded.folder(first).result.write_bytes(data)
    _reported(dataclasses.replace(made.loaded, attempts=attempts))


def check_run(data: bytes) -> None:
    """run.yaml as it was written, or a RunFolderError; what was understood can be stored again."""
    paths = RunPaths(folder())
    run_files.store(template().loaded.stored, paths)
    paths.config.write_bytes(data)
    try:
        stored = run_files.load(paths)
    except RunFolderError:
        return
    run_files.store(stored, paths)
    assert run_files.load(paths) == stored


def check_settings(data: bytes) -> None:
    """A configuration, or a ConfigError that names the file."""
    path = folder() / "night.yaml"
    path.write_bytes(data)
    words = str(path)
    try:
        said = settings.from_file(path, OPTIONS).on_top_of(_defaults())
        config.resolve(said, _catalogue(), config.Places(current=Path("/current"), cache=Path("/cache")))
    except ConfigError as error:
        words = str(error)
    assert str(path) in words


def settings_seeds() -> tuple[bytes, ...]:
    return (
        DEFAULTS.read_bytes(),
        b"models: [resnet50, lstm]\nbatch_sizes: [1, 8]\nbenchmark:\n  precision: [fp32, bf16]\n  iterations: 5\n",
        b"gpu: {ids: '0,1', allow_busy: true}\nrun: {folder: ~/runs}\noutput: {path: night.csv, format: json}\n",
        b"batch_sizes: auto\ndeadlines: {import: 1.5e2, start: 1:30}\nbenchmark: {seed: 0x1f, mode: solo}\n",
    )


def check_models(data: bytes) -> None:
    """Models or a ConfigError. No code of the user's is allowed, and none is found without being allowed."""
    path = folder() / "models.yaml"
    path.write_bytes(data)
    try:
        models, wrong = models_file.read(path, (), allowed=False, chosen=())
    except ConfigError:
        return
    assert all(isinstance(error, ConfigError) for error in wrong.values())
    assert not any(model.own is not None and model.own.allowed for model in models)
    codec.encode(models)


def models_seeds() -> tuple[bytes, ...]:
    return (
        b"models:\n  - name: bert\n    class: transformers.BertModel\n    config: {hidden_size: 768, x: [1, .5]}\n"
        b"    input_shape:\n      input_ids: [32, 128]\n      mask: {shape: [batch, 128], dtype: int64, high: 2}\n",
        b"models:\n- {name: net, class: 'torchvision.models:resnet18', type: cnn, title: Net, args: [1, a],\n"
        b"   input_shape: [32, 3, 224, 224]}\n",
    )


def check_study(data: bytes) -> None:
    """The entries of a grid, or a ConfigError that names the file. No code of the user's is found."""
    path = folder() / "study.yaml"
    path.write_bytes(data)
    found: tuple[ModelSpec, ...] = ()
    words = str(path)
    try:
        found = grid.entries(grid.read(str(path), folder()), Search(folder(), (), allowed=False))
    except ConfigError as error:
        words = str(error)
    assert path.name in words
    assert not any(entry.own is not None and entry.own.allowed for entry in found)
    codec.encode(found)


def study_seeds() -> tuple[bytes, ...]:
    return (
        b"operations: [softmax]\nsizes: {r: [64, 256], c: 1000}\n"
        b"implementations: [eager, compiled, jax]\nprecisions: [fp32]\n",
        b"operations: [attention]\nsizes: {b: 1, a: 2, t: [16], d: 8}\n"
        b"implementations: ['k.py:f']\nprecisions: [bf16]\n",
    )


def check_telemetry(data: bytes) -> None:
    """Samples, health records and the lock tell what can be read, and never raise."""
    paths = RunPaths(folder())
    body = struct.pack("<II", len(data), zlib.crc32(data)) + data
    for content in (data, body):
        path = paths.folder / "a.samples"
        path.write_bytes(content)
        read = samples.read_samples(path)
        assert sorted(samples.SampleReader(path, "").read(), key=lambda one: one.at_ns) == [
            one for one in read if one in samples.read_samples(path, "")
        ]
        list(health.read(path))
    paths.lock.write_bytes(data)
    holder = lock.holder(paths)
    if holder is not None:
        lock.life(holder)


def telemetry_seeds() -> tuple[bytes, ...]:
    data = template().samples
    return data, data[8:], msgspec.json.encode(lock.myself()), codec.encode(health.Watch(at_ns=1, boot_id=""))


TARGETS: Final[Mapping[str, Target]] = {
    "study": Target(check_study, study_seeds),
    "codec": Target(check_codec, codec_seeds, packed=1),
    "journal": Target(check_journal, journal_seeds),
    "records": Target(
        check_records, lambda: (msgpack.packb([msgpack.unpackb(body) for body in template().bodies]),), packed=0
    ),
    "result": Target(check_result, lambda: (template().result,), packed=0),
    "run": Target(check_run, lambda: (template().config,)),
    "settings": Target(check_settings, settings_seeds),
    "models": Target(check_models, models_seeds),
    "telemetry": Target(check_telemetry, telemetry_seeds),
    "burn-in": Target(pages.check_burn_in, pages.burn_in_seeds, packed=0),
    "compared": Target(pages.check_compared, pages.compared_seeds, packed=0),
    "history": Target(recorded.check_history, recorded.history_seeds),
    "recorded": Target(recorded.check_recorded, recorded.recorded_seeds, packed=0),
}


@functools.cache
def _catalogue() -> Catalogue:
    return catalogue.load()


@functools.cache
def _defaults() -> LayeredSettings:
    return settings.from_defaults(DEFAULTS, OPTIONS)


def _reported(loaded: archive.Archive) -> None:
    """What a person would get: the report as JSON and as text, with nothing in it that steers a terminal."""
    kind = registry.of(loaded.stored.configuration)
    made = merge(loaded, evidence.gather(loaded), kind.report)
    read: Any = msgspec.json.decode(render(made, ReportFormat.JSON))
    assert read["verdict"]["word"] == made.verdict.word
    text = render(made, ReportFormat.TXT, layout=kind.layout).decode()
    assert all(char.isprintable() or char == "\n" for char in text), "the text holds control characters"
