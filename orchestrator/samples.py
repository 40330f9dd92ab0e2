"""How samples of a GPU lie on disk: one file for each GPU, a batch appended each second by the sampler.

    a frame (frames.py) for each batch: MessagePack {boot_id, fields, rows}

Rows carry no field names, which keeps eight hours at 10 Hz near 20 MB. A batch names the boot it belongs
to, because monotonic times of different boots of the host overlap. Readable after any crash: a torn tail is no sample.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.frames import FrameFile, frames
from protocol import codec
from protocol.errors import ProtocolError
from protocol.messages import Sample

_FIELDS: Final = Sample.__struct_fields__


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Samples in the order they were taken: `rows` holds the values of `fields`."""

    boot_id: str
    fields: tuple[str, ...]
    rows: tuple[tuple[int | None, ...], ...]


_BATCH: Final = codec.Decoder[Batch](Batch)


class SampleFile:
    """A file of samples, open for appending. Raises OSError when the file cannot be opened."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._boot_id = boot_id
        self._file = FrameFile(path)

    def append(self, samples: Sequence[Sample]) -> None:
        """Write one batch, whole or not at all. Raises OSError when the disk refuses; later batches may fit again."""
        rows = tuple(msgspec.structs.astuple(sample) for sample in samples)
        self._file.append(codec.encode(Batch(boot_id=self._boot_id, fields=_FIELDS, rows=rows)))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def read_samples(path: Path, boot_id: str | None = None) -> tuple[Sample, ...]:
    """The samples in a file, by time; none where there is no file.

    boot_id: only those of that boot of the host (see records.Segment). Needed where a run outlived a reboot, since
    monotonic times begin anew then. Damaged batches and a torn tail are left out.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    samples = [sample for batch in _batches(data) if boot_id in (None, batch.boot_id) for sample in _samples(batch)]
    return tuple(sorted(samples, key=lambda sample: sample.at_ns))


class SampleReader:
    """Reads a file of samples as it grows, each sample once."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        self._offset = 0

    def read(self) -> tuple[Sample, ...]:
        """The samples of this boot that were added since the last call; none where there is no file yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return ()
        self._offset += max((end for end, _ in frames(data)), default=0)
        batches = (batch for batch in _batches(data) if batch.boot_id == self._boot_id)
        return tuple(sample for batch in batches for sample in _samples(batch))


def _batches(data: bytes) -> Iterator[Batch]:
    for _, body in frames(data):
        try:
            yield _BATCH.decode(body)
        except ProtocolError:
            continue  # damaged: a gap in the readings, like any other


def _samples(batch: Batch) -> Iterator[Sample]:
    for row in batch.rows:
        values = dict(zip(batch.fields, row, strict=True))
        yield msgspec.convert(values, Sample)
