"""orchestrator/engine/launches/link.py: senders, refused messages, and what a killed run leaves behind."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from msgspec import structs

from orchestrator.engine.launches.link import Link, LinkError
from orchestrator.errors import UserError
from protocol import codec
from protocol.cell import Cell, Precision, Workload
from protocol.errors import ProtocolError
from protocol.failure import Phase
from protocol.messages import Ack, Dismiss, FromWorker, Outcome, Progress
from tests.fakes.results import result

MESSAGE = Progress(launch=7, token="seven", phase=Phase.MEASURE, fraction=0.5)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sockets are made in this test."""
    short = Path("/tmp") / f"gb-{os.getpid()}-{tmp_path.name[-8:]}"  # a socket's path may have 107 bytes
    short.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    return short


@pytest.fixture
def link(base: Path) -> Iterator[Link]:
    """A bound link."""
    with Link("a-run") as bound:
        yield bound
    assert [path.name for path in (base / f"gpubench-{os.getuid()}").iterdir()] == [".gate"]


@contextmanager
def worker(link: Link, takes: int = 1000, token: str = "seven") -> Iterator[zmq.Socket[bytes]]:
    """The other end, with that token."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.IDENTITY, token.encode())
        socket.setsockopt(zmq.RCVHWM, takes)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(link.endpoint)
        yield socket


def heard(link: Link) -> FromWorker | ProtocolError:
    """The next thing that arrives."""
    assert link.socket.poll(5000)
    return link.receive()


def test_messages_go_both_ways(link: Link) -> None:
    """A worker is answered by its token."""
    with worker(link) as socket:
        socket.send(codec.encode(MESSAGE))
        assert heard(link) == MESSAGE
        assert link.send("seven", Ack(launch=7, token="seven"))
        assert socket.poll(5000)
        assert codec.decode(socket.recv(), Ack).launch == 7
        assert not link.send("eight", Ack(launch=8, token="eight")), "nobody with that token is connected"


CELL = Cell(devices=("cpu:0",), model="net", workload=Workload.INFERENCE, precision=Precision.FP32, batch_size=1)
NO_TIMES = Outcome(launch=7, token="seven", result=result(CELL, series={"iteration": b"\0\0\0"}))


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([b"garbage"], "not a valid message"),
        ([codec.encode(MESSAGE), b"more"], "3 frames"),
        ([codec.encode(Progress(launch=7, token="eight", phase=Phase.MEASURE, fraction=0))], "another worker"),
        ([codec.encode(NO_TIMES)], "multiple of 4"),
    ],
)
def test_invalid_messages_are_refused(link: Link, frames: list[bytes], words: str) -> None:
    """Garbage, several parts, another launch's token, impossible times: an error, not a crash."""
    with worker(link) as socket:
        socket.send(codec.encode(Outcome(launch=7, token="seven", result=result(CELL))))
        assert isinstance(heard(link), Outcome)
        socket.send_multipart(frames)
        refused = heard(link)
    assert isinstance(refused, ProtocolError)
    assert words in str(refused)


@pytest.mark.usefixtures("base")
def test_only_the_user_can_enter() -> None:
    """The folder is closed to others, and so is the socket itself; the mask of the process stays what it was."""
    before = os.umask(0o002)
    try:
        with Link("a-run") as link:
            for place in (link.folder / "link", link.folder, link.folder.parent):
                assert stat.S_IMODE(place.stat().st_mode) == 0o700
            assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)


@pytest.mark.usefixtures("base")
def test_a_message_beyond_the_cap_is_not_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender is disconnected when the length is known, before memory is allocated."""
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 1_000_000)
    with Link("a-run") as link, worker(link) as socket:
        monitor = link.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.send(bytes(1_000_001))
        poller = zmq.Poller()
        poller.register(monitor, zmq.POLLIN)
        poller.register(link.socket, zmq.POLLIN)
        ready = [socket for socket, _ in poller.poll(20_000)]
        link.socket.disable_monitor()
        monitor.close()
    assert ready == [monitor]


@pytest.mark.timeout(30)
@pytest.mark.usefixtures("base")
def test_unread_messages_do_not_delay_the_end() -> None:
    """ZeroMQ by itself would wait for ever for a worker that reads nothing."""
    link = Link("a-run")
    with worker(link, takes=1) as socket:
        socket.send(codec.encode(MESSAGE))
        assert heard(link) == MESSAGE
        for _ in range(500):  # more than fits into the buffers of the kernel
            assert link.send("seven", Dismiss(launch=7, reason="x" * 10_000))
        link.close()


def test_a_folder_in_use_stays_and_an_abandoned_one_is_removed(link: Link) -> None:
    """By the next run on the machine."""
    abandoned = link.folder.with_name("a-run-1")
    abandoned.mkdir()
    (abandoned / "link").touch()
    with Link("another-run"):
        assert link.folder.exists()
        assert not abandoned.exists()


def test_a_folder_that_vanishes_stops_no_other_run(link: Link) -> None:
    """A run that ends removes its folder while another looks for abandoned ones: the lock cannot be opened any more."""
    vanishing = link.folder.with_name("a-run-2")
    vanishing.mkdir()
    (vanishing / "lock").symlink_to(vanishing / "removed" / "lock")
    with Link("another-run") as other:
        assert other.folder.exists()
    (vanishing / "lock").unlink()
    vanishing.rmdir()


def test_a_folder_that_others_can_enter_is_refused(base: Path) -> None:
    """Sockets are not made where somebody else could take their place."""
    (base / f"gpubench-{os.getuid()}").mkdir(mode=0o777)
    (base / f"gpubench-{os.getuid()}").chmod(0o777)
    with pytest.raises(UserError, match="private folder"):
        Link("a-run")


def test_a_long_path_falls_back_to_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel allows 107 bytes for a socket's path."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with Link("a-run") as bound:
        assert len(bound.endpoint.removeprefix("ipc://")) <= 107
        assert str(deep) not in bound.endpoint


def test_a_folder_that_became_read_only_falls_back_to_another(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there from an earlier run, and nothing can be made in it."""
    (base / f"gpubench-{os.getuid()}").mkdir(mode=0o700)
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(base) and asked(path, mode))
    with Link("a-run") as link:
        assert not link.folder.is_relative_to(base)


def test_a_full_disk_is_an_error_of_the_user(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the path and the remedy."""
    made = Path.mkdir

    def full(path: Path, mode: int = 0o777, **more: bool) -> None:
        if path.name.startswith("a-run"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        made(path, mode, **more)

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(UserError, match=rf"/a-run-\d+: .*{os.strerror(errno.ENOSPC)}.*XDG_RUNTIME_DIR"):
        Link("a-run")


@pytest.mark.parametrize("gone", ["link", "lock", "folder", "all of them"])
def test_a_deleted_socket_is_made_again_where_workers_look_for_it(link: Link, gone: str) -> None:
    """Those that were connected stay so, and those that still look for it find the new one. Again and again."""
    places = {"link": link.folder / "link", "lock": link.folder / "lock", "folder": link.folder}
    with worker(link) as connected:
        connected.send(codec.encode(MESSAGE))
        assert heard(link) == MESSAGE
        for token in ("eight", "nine"):
            late_message = structs.replace(MESSAGE, token=token)
            assert link.restore() == ""
            place, before = places.get(gone, link.folder.parent), link.endpoint
            shutil.rmtree(place) if place.is_dir() else place.unlink()
            with worker(link, token=token) as late:
                late.send(codec.encode(late_message))
                assert str(link.folder) in link.restore()
                assert link.endpoint == before
                assert heard(link) == late_message
            assert link.send("seven", Ack(launch=7, token="seven"))
        assert connected.poll(5000)
        with Link("another-run"):
            assert link.folder.exists()
    assert {path.name for path in link.folder.iterdir()} == {"link", "lock"}


def test_a_socket_is_made_elsewhere_where_its_folder_cannot_be_made_again(
    link: Link, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when XDG_RUNTIME_DIR is removed at the end of a session; where nothing can be written, it says so."""
    before = link.endpoint
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "gone"))
    monkeypatch.setattr("tempfile.tempdir", str(base))
    shutil.rmtree(link.folder)
    assert link.restore() != ""
    assert link.endpoint == before  # the usual temporary folder is where it was
    monkeypatch.setattr("orchestrator.engine.launches.link.socket_folder", lambda _: base / "not there" / "folder")
    shutil.rmtree(link.folder)
    with pytest.raises(LinkError, match="No such file"):
        link.restore()


def test_a_private_folder_has_a_name_in_utf_8(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is sent to workers; another one is passed over."""
    odd = Path(os.fsdecode(os.fsencode(base) + b"/\xff"))
    odd.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(odd))
    with Link("a-run") as link:
        assert not link.folder.is_relative_to(odd)
