"""Files of samples: whole batches are read, whatever happened to the writer."""

from pathlib import Path

import pytest

import orchestrator.gpu.telemetry.samples
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.gpu.telemetry.samples import Batch, SampleFile, SampleReader, read_samples
from protocol import codec
from protocol.messages import Sample
from tests.fakes.commands import python

FULL_DISK = """
import resource, sys
from pathlib import Path
from orchestrator.gpu.telemetry.samples import SampleFile, read_samples
from protocol.messages import Sample
path = Path(sys.argv[1])
file = SampleFile(path, "boot")
batch = [Sample(at_ns=number) for number in range(10)]
file.append(batch)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 7, resource.RLIM_INFINITY))
try:
    file.append(batch)
except OSError as error:
    assert len(read_samples(path)) == 10, "a torn batch was left"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    file.append(batch)
    print(len(read_samples(path)))
"""


def samples(*times: int) -> list[Sample]:
    """Samples at these times, with a value, a None and many unset."""
    return [Sample(at_ns=time, power_mw=time * 10, temperature_c=None) for time in times]


def write(path: Path, *batches: list[Sample], boot: str = "boot") -> None:
    """Append batches as a process of its own would."""
    file = SampleFile(path, boot)
    for batch in batches:
        file.append(batch)
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file lies."""
    return tmp_path / "gpu.samples"


def test_written_samples_are_read(path: Path) -> None:
    """Every field, None included, over several batches and writers. Without a file there are none."""
    assert read_samples(path) == ()
    write(path, samples(1, 2), samples(3))
    write(path, samples(4))
    full = Sample(**{name: place for place, name in enumerate(Sample.__struct_fields__, start=5)})
    write(path, [full])
    assert read_samples(path) == (*samples(1, 2, 3, 4), full)


def test_a_file_torn_anywhere_loses_one_batch(path: Path) -> None:
    """Cut at any byte, the whole batches before the cut are read."""
    write(path, samples(1, 2))
    whole = path.stat().st_size
    write(path, samples(3, 4))
    data = path.read_bytes()
    for length in range(whole, len(data)):
        path.write_bytes(data[:length])
        assert read_samples(path) == tuple(samples(1, 2))


def test_a_new_writer_removes_a_torn_tail(path: Path) -> None:
    """What is appended after a crash does not follow half a batch, nor the zeros that a file system may leave."""
    write(path, samples(1), samples(2))
    path.write_bytes(path.read_bytes()[:-5])
    write(path, samples(3))
    assert read_samples(path) == tuple(samples(1, 3))
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert read_samples(path) == tuple(samples(1, 3))
    write(path, samples(4))
    assert read_samples(path) == tuple(samples(1, 3, 4))


def test_a_damaged_batch_is_a_gap(path: Path) -> None:
    """One flipped byte costs one batch, not those after it."""
    write(path, samples(1))
    first = path.stat().st_size
    write(path, samples(2), samples(3))
    data = bytearray(path.read_bytes())
    data[first + 20] ^= 1
    path.write_bytes(data)
    assert read_samples(path) == tuple(samples(1, 3))


def test_rows_of_another_kind_are_a_gap(path: Path) -> None:
    """With unknown fields, without a time, or with more or fewer values than fields."""
    known = Sample.__struct_fields__
    good, untimed = (7, *[None] * (len(known) - 1)), (None, *[1] * (len(known) - 1))
    write(path, samples(1))
    for fields, *rows in (
        (("at_ns", "colour"), (2, 7)),
        (("at_ns", "power_mw"), (3,)),
        (("power_mw",), (4,)),
        (known, untimed, good[:-1], (*good, 1), good),
    ):
        file = FrameFile(path)
        file.append(codec.encode(Batch(boot_id="boot", fields=fields, rows=tuple(rows))))
        file.close()
    write(path, samples(9))
    assert read_samples(path) == (*samples(1), Sample(at_ns=7), *samples(9))


def test_boots_are_kept_apart(path: Path) -> None:
    """Monotonic time restarts with a boot: a sample of another one would be at the wrong time."""
    write(path, samples(50, 60), boot="first")
    write(path, samples(5, 55), boot="second")
    assert read_samples(path, "second") == tuple(samples(5, 55))
    assert read_samples(path) == tuple(samples(5, 50, 55, 60))


def test_a_refused_write_leaves_whole_batches(path: Path) -> None:
    """A disk that takes a part of a batch and then refuses: nothing torn stays, and later batches are written."""
    done = python("-c", FULL_DISK, str(path), cwd=path.parent)
    assert (done.stdout, done.stderr) == ("20\n", "")


def test_a_growing_file_is_read_once(tmp_path: Path) -> None:
    """Each call gives what was added since the one before: whole batches of this boot alone, each sample once."""
    path = tmp_path / "gpu.samples"
    reader = SampleReader(path, "boot")
    assert reader.read() == ()
    write(path, samples(1, 2), boot="earlier")
    write(path, samples(1), samples(2))
    assert [sample.at_ns for sample in reader.read()] == [1, 2]
    assert reader.read() == ()
    write(path, samples(3), samples(4))
    grown = path.read_bytes()
    path.write_bytes(grown[:-3])
    assert [sample.at_ns for sample in reader.read()] == [3]
    path.write_bytes(grown)
    assert [sample.at_ns for sample in reader.read()] == [4]


def test_a_large_file_is_thinned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a size the last sample of each batch is kept, and others half a second apart."""
    second, tenth = 1_000_000_000, 100_000_000
    batches = [samples(*range(start * second, (start + 1) * second, tenth)) for start in range(3)]
    write(path, batches[0])
    monkeypatch.setattr(orchestrator.gpu.telemetry.samples, "FULL_BYTES", path.stat().st_size)
    write(path, *batches[1:])
    thin = [1_400_000_000, 1_900_000_000, 2_400_000_000, 2_900_000_000]
    assert [sample.at_ns for sample in read_samples(path)] == [*range(0, second, tenth), *thin]


def test_a_file_has_a_cap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is refused, also to a later writer; what was written stays."""
    file = SampleFile(path, "boot")
    file.append(samples(1))
    monkeypatch.setattr(orchestrator.gpu.telemetry.samples, "CAP_BYTES", path.stat().st_size)
    with pytest.raises(OSError, match="cap of 0 MiB"):
        file.append(samples(2))
    file.close()
    with pytest.raises(OSError, match="reached its cap"):
        write(path, samples(3))
    assert read_samples(path) == tuple(samples(1))
