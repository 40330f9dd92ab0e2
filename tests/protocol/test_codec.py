"""protocol/codec.py: the wire format, and refused messages."""

import math
import struct

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec, floats
from protocol.cell import Cell, Mode, Precision, Workload
from protocol.errors import ProtocolError
from protocol.failure import Category, Failure, Phase
from protocol.messages import Deadlines, FromWorker, Hello, Measurement, Outcome, PhaseEntered, Progress
from protocol.result import LoadWindow, Result
from tests.fakes.results import result

FROM_WORKER = codec.Decoder[FromWorker](FromWorker)
CELL = Cell(
    devices=("GPU-1",),
    model="resnet50",
    workload=Workload.INFERENCE,
    precision=Precision.BF16,
    batch_size=8,
    input_size=224,
    mode=Mode.LOADED,
    seed=7,
)

GOLDEN = {
    "hello": (
        Hello(launch=3, token="t", version=1, pid=42, root="/r"),
        "86a474797065a548656c6c6fa66c61756e636803a5746f6b656ea174a776657273696f6e01a37069642aa4726f6f74a22f72",
    ),
    "phase": (
        PhaseEntered(launch=3, token="t", phase=Phase.WARM_UP, at_ns=5),
        "85a474797065ac5068617365456e7465726564a66c61756e636803a5746f6b656ea174a57068617365a77761726d2d7570a561745f6e7305",
    ),
    "progress": (
        Progress(launch=3, token="t", phase=Phase.MEASURE, fraction=0.5),
        "85a474797065a850726f6772657373a66c61756e636803a5746f6b656ea174a57068617365a76d656173757265"
        "a86672616374696f6ecb3fe0000000000000",
    ),
    "failure": (
        Outcome(
            launch=3, token="t", failure=Failure(category=Category.CRASHED, message="m", phase=Phase.BUILD, signal=11)
        ),
        "85a474797065a74f7574636f6d65a66c61756e636803a5746f6b656ea174a6726573756c74c0a76661696c75726588a863617465676f7279"
        "a763726173686564a76d657373616765a16da57068617365a56275696c64a4636f6465c0a67369676e616c0ba9657863657074696f6ec0"
        "a974726163656261636bc0a865766964656e636580",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    """The bytes of each message are those of wire format 1; other bytes need another number."""
    message, expected = GOLDEN[name]
    assert codec.encode(message).hex() == expected
    assert FROM_WORKER.decode(bytes.fromhex(expected)) == message


def test_ids_and_keys_are_stable() -> None:
    """A cell's id names folders and joins journals. Messages are plain MessagePack with readable keys."""
    assert CELL.id == "resnet50-inference-bf16-b8-gpu-1-e5103472"
    assert msgspec.structs.replace(CELL, batch_size=16).id != CELL.id
    message = msgpack.unpackb(codec.encode(GOLDEN["progress"][0]))
    assert message == {"type": "Progress", "launch": 3, "token": "t", "phase": "measure", "fraction": 0.5}


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_protocol_error(data: bytes) -> None:
    """Any bytes are one of the two."""
    try:
        FROM_WORKER.decode(data)
    except ProtocolError:
        return


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    """NaN and infinity are refused on the way out and on the way in, at any depth."""
    message = Progress(launch=1, token="", phase=Phase.MEASURE, fraction=number)
    with pytest.raises(ProtocolError, match="not a finite number"):
        codec.encode(message)
    with pytest.raises(ProtocolError, match="not a finite number"):
        FROM_WORKER.decode(msgspec.msgpack.encode(message))


def test_unknown_fields_kinds_and_depths_are_refused() -> None:
    """A message of another shape is an error, not a guess; so is one nested without end."""
    hello = msgpack.unpackb(bytes.fromhex(GOLDEN["hello"][1]))
    for wrong in ({**hello, "extra": 1}, {**hello, "type": "Bye"}, {**hello, "pid": "42"}, [hello], 5):
        with pytest.raises(ProtocolError):
            FROM_WORKER.decode(msgpack.packb(wrong))
    with pytest.raises(ProtocolError):
        FROM_WORKER.decode(b"\x91" * 100_000)


def test_size_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message beyond the cap is refused before it is decoded, and never sent."""
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 100)
    with pytest.raises(ProtocolError, match="bytes"):
        FROM_WORKER.decode(b"\0" * 101)
    with pytest.raises(ProtocolError, match="bytes"):
        codec.encode(Hello(launch=1, token="x" * 100, version=1, pid=1, root=""))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_series_survive(values: list[float]) -> None:
    """A series of float32 comes back; its signs are seen without unpacking, also that of -0.0."""
    assert floats.unpack(floats.pack(values)) == values
    assert floats.has_sign(floats.pack(values)) == any(math.copysign(1, value) < 0 for value in values)


def test_a_time_below_zero_is_a_flaw() -> None:
    """In any place of any series, with the name of the series; -0.0 is none."""
    for values, flawed in (([1.0, -1e-30], True), ([-0.0, 0.0, 2.0], False), ([], False)):
        series = {"forward": floats.pack([1.0]), "iteration": floats.pack(values)}
        assert (result(CELL, series=series).flaw or "").startswith("iteration: ") is flawed


@pytest.mark.parametrize(("course", "settled"), [(b"\xc1\xfd\x00", 0), (b"", 1), (b"", -1)])
def test_a_warm_up_that_makes_no_sense_is_a_flaw(course: bytes, settled: int) -> None:
    """Its blocks are whole values, and no more of them had settled than there were."""
    sound = result(CELL)
    warm_up = msgspec.structs.replace(sound.warm_up, course=course, settled_blocks=settled)
    assert sound.flaw is None
    assert msgspec.structs.replace(sound, warm_up=warm_up).flaw is not None


def test_a_load_window_that_makes_no_sense_is_a_flaw() -> None:
    """It ends after it begins, not before the measurement, and counts forwards; deadlines allow for it."""
    sound = result(CELL, load_s=5.0)
    assert (sound.flaw, sound.load is not None and sound.load.iterations > 0) == (None, True)
    end_ns = sound.blocks[-1].end_ns
    for start_ns, until_ns, iterations in ((0, end_ns - 1, 0), (end_ns, end_ns, 0), (0, end_ns, -1)):
        load = LoadWindow(start_ns=start_ns, end_ns=until_ns, iterations=iterations)
        assert msgspec.structs.replace(sound, load=load).flaw is not None
    deadlines = Deadlines(start=1, import_=1, build=1, warm_up=1, measure=10, finish=1)
    asked = Measurement(relative_half_width=0.01, block_s=0.1, warm_up_cap_s=1, min_s=1, max_s=2, load_s=5)
    assert deadlines.allowance(Phase.MEASURE, asked) == 17


def test_series_that_are_not_whole_or_not_finite_are_refused() -> None:
    """A torn series, or one with NaN or an infinity in it, is an error; one of values as large as can be is none."""
    with pytest.raises(ProtocolError, match="multiple of 4"):
        floats.unpack(b"abc")
    for wrong in ([math.nan], [1.0, math.inf], [-math.inf], [math.inf, -math.inf]):
        with pytest.raises(ProtocolError, match="not finite"):
            floats.unpack(struct.pack(f"<{len(wrong)}f", *wrong))
    largest = struct.pack("<f", 3.4e38)
    assert len(floats.unpack(largest * 1000)) == 1000
    with pytest.raises(ProtocolError, match="not finite"):
        floats.pack([math.nan])


@given(st.floats(width=32), st.booleans(), st.binary(max_size=64))
def test_every_number_that_is_not_finite_is_found_and_no_other(number: float, single: bool, blob: bytes) -> None:
    """In double and in single precision, beside bytes and text that may look like one."""
    message = Progress(launch=1, token=blob.decode("latin-1"), phase=Phase.MEASURE, fraction=0.5)
    written = msgpack.packb(msgspec.to_builtins(message) | {"fraction": number}, use_single_float=single)
    if math.isfinite(msgpack.unpackb(written)["fraction"]):
        assert math.isfinite(FROM_WORKER.decode(written).fraction)
    else:
        with pytest.raises(ProtocolError, match="not a finite number"):
            FROM_WORKER.decode(written)


@pytest.mark.parametrize("blob", [b"\xcb\x7f\xf0", b"\xcb\xff\xff", b"\xca\x7f\x80", b"\xca\xff\xff" * 9])
def test_bytes_that_look_like_no_number_are_bytes(blob: bytes) -> None:
    """A series is bytes to the message that carries it."""
    sent = result(CELL, series={"iteration": blob})
    assert codec.decode(codec.encode(sent), Result).series == {"iteration": blob}
