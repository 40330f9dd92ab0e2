"""Samples of a GPU on disk: one file for each GPU, to which the telemetry process appends a batch each second.

    a frame (frames.py) for each batch: MessagePack {boot_id, fields, rows}

Rows carry no field names: eight hours at 10 Hz take 22 MiB. Monotonic times of different boots overlap.

    below FULL_BYTES   every sample                                    the first day at 10 Hz
    then               the last of each batch, others 0.5 s apart      another eight days
    at CAP_BYTES       nothing more, which is reported                 256 MiB a GPU
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.gpu.telemetry.frames import FrameFile, contents, frames
from orchestrator.system import safe_read
from protocol import codec
from protocol.errors import ProtocolError
from protocol.messages import Sample

FULL_BYTES: Final = 64 * 1024 * 1024
CAP_BYTES: Final = 256 * 1024 * 1024
THINNED_NS: Final = 500_000_000
_FIELDS: Final = Sample.__struct_fields__


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Samples of one boot in the order they were taken. A row has the values of `fields` for one sample."""

    boot_id: str
    fields: tuple[str, ...]
    rows: tuple[tuple[int | None, ...], ...]


_BATCH: Final = codec.Decoder[Batch](Batch)


class SampleFile:
    """A file of samples, open for appending. The constructor raises OSError if it cannot be opened."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._boot_id = boot_id
        self._file = FrameFile(path)

    def append(self, samples: Sequence[Sample]) -> None:
        """Write a batch, whole or not at all. Raises OSError on a write error, or if the file has reached CAP_BYTES.

        Once the file has reached FULL_BYTES, only the `thinned` samples are written.
        """
        if self._file.size >= CAP_BYTES:
            raise OSError(f"the file has reached its cap of {CAP_BYTES >> 20} MiB")
        kept = samples if self._file.size < FULL_BYTES else thinned(samples)
        rows = tuple(msgspec.structs.astuple(sample) for sample in kept)
        self._file.append(codec.encode(Batch(boot_id=self._boot_id, fields=_FIELDS, rows=rows)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def thinned(samples: Sequence[Sample]) -> list[Sample]:
    """Return the last of the samples and, going back from it, those at least THINNED_NS apart, in order of time."""
    kept: list[Sample] = []
    for sample in reversed(samples):
        if not kept or kept[-1].at_ns - sample.at_ns >= THINNED_NS:
            kept.append(sample)
    return kept[::-1]


def read_samples(path: Path, boot_id: str | None = None) -> tuple[Sample, ...]:
    """Return the samples of a file, ordered by time; () if it does not exist.

    boot_id: only samples of that boot; None: all, whose monotonic times may overlap. Damaged batches, an unfinished
    last one and samples of an unknown format are skipped. Raises RunFolderError if the file cannot be read.
    """
    batches = _batches(contents(path))
    samples = [sample for batch in batches if boot_id in (None, batch.boot_id) for sample in _samples(batch)]
    return tuple(sorted(samples, key=attrgetter("at_ns")))


class SampleReader:
    """Reads the samples of one boot from a growing file, each sample once."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        self._offset = 0

    def read(self) -> tuple[Sample, ...]:
        """Return the samples of the boot added since the last call; () if there are none or the file cannot be read."""
        try:
            data = safe_read.read(self._path, self._offset)
        except OSError:
            return ()
        self._offset += max((end for end, _ in frames(data)), default=0)
        batches = (batch for batch in _batches(data) if batch.boot_id == self._boot_id)
        return tuple(sample for batch in batches for sample in _samples(batch))


def _batches(data: bytes) -> Iterator[Batch]:
    for _, body in frames(data):
        try:
            yield _BATCH.decode(body)
        except ProtocolError:
            continue  # damaged: a gap in the readings


def _samples(batch: Batch) -> Iterator[Sample]:
    if batch.fields == _FIELDS:  # in a fraction of the time of msgspec.convert
        yield from starmap(Sample, (row for row in batch.rows if len(row) == len(_FIELDS) and row[0] is not None))
        return
    for row in batch.rows:
        with suppress(ValueError):  # not a sample of this version: a gap as well
            yield msgspec.convert(dict(zip(batch.fields, row, strict=True)), Sample)
