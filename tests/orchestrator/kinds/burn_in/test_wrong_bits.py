"""kinds/burn_in/wrong_bits.py and analysis/discarded_results.py: wrong bits count whatever became of their launch."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.config.run_configuration import Configuration, InjectedFault
from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.telemetry import validity
from orchestrator.store.journal_records import End, Left
from protocol.cell import Cell, Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Phase
from protocol.paths import LaunchPaths
from protocol.verification import Mismatch, Seen
from tests.fakes.burn_ins import FakeBurnIn, sound
from tests.fakes.findings import mismatch
from tests.fakes.runs import cpus, gpus

DEVICES = gpus(3)
FIRST, SECOND, THIRD = (device.uuid for device in DEVICES)

pytestmark = pytest.mark.usefixtures("unsynced")


class Lost(FakeBurnIn):
    """A burn-in in which every launch of a cell in round 1 loses its first attempt; another one makes up for it."""

    flips = False

    def __init__(self, folder: Path, lose: "Callable[[Lost, Cell], None]", of: Workload = Workload.SOAK) -> None:
        """lose: makes the attempt, of the first cell of such a workload on the second device."""
        self._lose = lose
        super().__init__(folder, DEVICES, "10m")
        self.cell = self.first(of, SECOND if of is not Workload.LINKS else FIRST)
        lose(self, self.cell)
        self.work()
        self.told = self.watched()

    def asked(self, configuration: Configuration) -> Configuration:
        """With a fault, where one is wanted."""
        made = super().asked(configuration)
        assert made.burn_in is not None
        fault = (InjectedFault(device=SECOND, round=0, flip_bits=1),) if self.flips else ()
        return msgspec.structs.replace(made, burn_in=msgspec.structs.replace(made.burn_in, injections=fault))

    def withdrawn(self, cell: Cell, **changes: object) -> None:
        """Add a launch beside somebody else, whose result is there and does not count."""
        found = msgspec.structs.replace(sound(cell), **changes)
        others = {uuid: sound(cell) for uuid in cell.devices[1:]}
        launch = self.measured(cell, verification=found, others=others)
        self._journal.append(End(launch=launch, at_ns=self.now_ns, failure=validity.contaminated("PID 4242 python")))

    def seen(self, cell: Cell, *found: Mismatch, rank: int = 0) -> None:
        """What a process of the first attempt writes when it finds it."""
        lines = b"".join(b"\n%s\n" % msgspec.json.encode(Seen(at=at, mismatch=one)) for at, one in enumerate(found))
        folder = self.paths.launch(cell.id, 1).of_rank(rank).folder
        folder.mkdir(parents=True, exist_ok=True)
        LaunchPaths(folder).mismatches.write_bytes(lines)

    def wrong(self, **changes: object) -> Mismatch:
        """One that was seen in the first attempt."""
        return mismatch(at_ns=self._begun_ns + 200_000_000, **changes)


def reason(gpu: GpuBurnIn, verdict: HealthVerdict = HealthVerdict.FAIL) -> str:
    """The reason for that verdict."""
    (found,) = (one.text for one in gpu.reasons if one.verdict is verdict)
    return found


def verdicts(told: BurnInReport) -> list[HealthVerdict]:
    """Of all GPUs."""
    return [gpu.verdict for gpu in told.gpus]


def withdrawn(burn_in_run: Lost, cell: Cell) -> None:
    """Somebody else computed on the GPU, and the product was wrong."""
    burn_in_run.withdrawn(cell, mismatches=1, kept=(burn_in_run.wrong(beyond_rounding=True),))


def ended(category: Category | None) -> Callable[[Lost, Cell], None]:
    """The launch ended like that after the product had been looked at; None: nobody wrote its end."""

    def lose(burn_in_run: Lost, cell: Cell) -> None:
        burn_in_run.seen(cell, burn_in_run.wrong(beyond_rounding=True))
        if category is None:
            burn_in_run.interrupted(cell)
        else:
            burn_in_run.failed(cell, category, phase=Phase.MEASURE)

    return lose


killed = ended(Category.KILLED)


def damaged(burn_in_run: Lost, cell: Cell) -> None:
    """Its result is not the one that the journal promised."""
    burn_in_run.seen(cell, burn_in_run.wrong(beyond_rounding=True))
    launch = burn_in_run.interrupted(cell)
    path = burn_in_run.paths.launch(cell.id, 1).result
    path.write_bytes(b"something else")
    burn_in_run._journal.append(End(launch=launch, at_ns=burn_in_run.now_ns, result_sha256="0" * 64))
    burn_in_run._journal.append(Left(launch=launch, exit_code=0, signal=None, teardown_ms=1.0))


@pytest.mark.parametrize("lose", [withdrawn, killed, ended(None), damaged])
def test_wrong_bits_of_a_launch_that_does_not_count_fail_its_gpu(
    tmp_path: Path, lose: Callable[[Lost, Cell], None]
) -> None:
    """Also where another launch of the round found nothing: with the check, the round and when; and no other GPU."""
    burn_in_run = Lost(tmp_path, lose)
    told = burn_in_run.told
    assert verdicts(told) == [HealthVerdict.PASS, HealthVerdict.FAIL, HealthVerdict.PASS]
    second = told.gpus[1]
    carried = (burn_in_run.cell.precision, "round 1, 20", "1 element, 1 bit", "all 10 repetitions")
    assert [part for part in carried if part not in reason(second)] == []
    assert burn_in_run.report().verdict.exit_code == ExitCode.HARDWARE
    soak = next(one for one in second.checks if one.check == Workload.SOAK)
    assert (soak.mismatches, soak.error_bound) == (1, None)
    assert soak.launches == next(one for one in told.gpus[0].checks if one.check == Workload.SOAK).launches


@pytest.mark.parametrize(
    "lose",
    [
        lambda burn_in_run, cell: burn_in_run.withdrawn(cell),
        lambda burn_in_run, cell: burn_in_run.failed(cell, Category.KILLED, phase=Phase.MEASURE),
    ],
    ids=["withdrawn", "killed"],
)
def test_without_wrong_bits_such_a_launch_is_no_finding(tmp_path: Path, lose: Callable[[Lost, Cell], None]) -> None:
    """It came from outside, and the next launch made up for it."""
    assert verdicts(Lost(tmp_path, lose).told) == [HealthVerdict.PASS] * 3


def test_bits_of_a_withdrawn_result_are_compared_with_others(tmp_path: Path) -> None:
    """Every product alike, and other than on the other GPUs: nothing in the launch itself can tell."""
    burn_in_run = Lost(tmp_path, lambda burn_in_run, cell: burn_in_run.withdrawn(cell, digests=("f" * 16,)))
    assert verdicts(burn_in_run.told) == [HealthVerdict.PASS, HealthVerdict.FAIL, HealthVerdict.PASS]
    assert "2 of 3 GPUs" in reason(burn_in_run.told.gpus[1])


def test_what_was_not_looked_at_closer_says_so(tmp_path: Path) -> None:
    """The process died on the way: no numbers that nobody has counted."""

    def lose(burn_in_run: Lost, cell: Cell) -> None:
        burn_in_run.seen(cell, burn_in_run.wrong(elements=0, bits=0, repeated=0))
        burn_in_run.failed(cell, Category.CRASHED, phase=Phase.MEASURE)

    burn_in_run = Lost(tmp_path, lose)
    assert re.search("element|bit wrong|repetition|when repeated", reason(burn_in_run.told.gpus[1])) is None


@pytest.fixture(scope="module")
def once_killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lost, bytes]:
    """A burn-in with a launch that was killed after it had found wrong bits, and its line in the file of mismatches."""
    burn_in_run = Lost(tmp_path_factory.mktemp("killed"), killed)
    return burn_in_run, burn_in_run.paths.launch(burn_in_run.cell.id, 1).mismatches.read_bytes()


@pytest.mark.parametrize(
    ("written", "mismatches"),
    [
        pytest.param(lambda line: line + b"\n" + line[:40], 1, id="torn end"),
        pytest.param(lambda line: line[:40], 1, id="torn alone"),
        pytest.param(lambda line: b"[" * 100_000 + b"\n" + line, 1, id="deep"),
        pytest.param(lambda line: line.replace(b'"at":0', b'"at":99') + line, 1, id="beyond"),
        pytest.param(lambda line: line + line.replace(b'"at":0', b'"at":3'), 2, id="two"),
        pytest.param(lambda line: line + line, 1, id="twice the same"),
        pytest.param(lambda line: line.replace(b'"at_ns":', b'"at_ns":99999999999'), 1, id="never"),
        pytest.param(lambda line: line.replace(b"product", b"\xff\xfe") + line, 1, id="no text"),
        pytest.param(lambda line: b"", 1, id="empty"),
        pytest.param(lambda line: line * 9_000, 1, id="too large"),
    ],
)
def test_what_is_whole_in_a_damaged_file_counts(
    once_killed: tuple[Lost, bytes], written: Callable[[bytes], bytes], mismatches: int
) -> None:
    """A torn end is normal after a kill. The file was begun for a mismatch: what is not whole hides none."""
    burn_in_run, line = once_killed
    burn_in_run.paths.launch(burn_in_run.cell.id, 1).mismatches.write_bytes(written(line))
    second = burn_in_run.chapter().gpus[1]
    assert second.verdict is HealthVerdict.FAIL
    assert sum(one.mismatches for one in second.checks) == mismatches


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, Path.mkdir, lambda file: file.symlink_to(file)],
    ids=["a pipe", "a folder", "a loop"],
)
def test_what_cannot_be_read_in_its_place_hides_no_wrong_bits(
    once_killed: tuple[Lost, bytes], make: Callable[[Path], None]
) -> None:
    """A pipe, a folder or a loop in place of the file leaves the GPU FAIL, and does not block the report."""
    burn_in_run, _ = once_killed
    file = burn_in_run.paths.launch(burn_in_run.cell.id, 1).mismatches
    file.unlink()
    make(file)
    second = burn_in_run.chapter().gpus[1]
    assert second.verdict is HealthVerdict.FAIL
    assert "1 mismatch without details" in reason(second)
    file.rmdir() if file.is_dir() else file.unlink()
    file.touch()


def of_all(seen: dict[int, dict[str, object]]) -> Callable[[Lost, Cell], None]:
    """A launch of links in which a device has seen that, by its place, and one has crashed."""

    def lose(burn_in_run: Lost, cell: Cell) -> None:
        for rank, changes in seen.items():
            burn_in_run.seen(cell, burn_in_run.wrong(**changes), rank=rank)
        burn_in_run.failed(cell, Category.CRASHED, phase=Phase.MEASURE, device=THIRD)

    return lose


F, U, W, P = HealthVerdict.FAIL, HealthVerdict.UNKNOWN, HealthVerdict.WARN, HealthVerdict.PASS


@pytest.mark.parametrize(
    ("seen", "expected", "unclear"),
    [
        ({}, [P, P, W], {}),
        ({0: {"sender": THIRD}, 1: {"sender": THIRD}}, [U, U, F], {0: "the fault of GPU 2"}),
        ({0: {"of_all": True}}, [U, P, W], {0: "not checked yet"}),  # a sum
        ({0: {"of_all": True}, 1: {}}, [U, F, W], {0: "the fault of GPU 1"}),  # a sum that may follow
        ({0: {"sender": THIRD}, 1: {"sender": "GPU-x"}}, [F, U, F], {1: "1 mismatch"}),  # a link; none of the run's
    ],
)
def test_links_of_a_launch_that_was_cut_off(
    tmp_path: Path, seen: dict[int, dict[str, object]], expected: list[HealthVerdict], unclear: dict[int, str]
) -> None:
    """They are blamed as in any launch; a sum wrong on one device, or a damaged line, is neither PASS nor FAIL."""
    told = Lost(tmp_path, of_all(seen), Workload.LINKS).told
    assert verdicts(told) == expected
    for place, words in unclear.items():
        assert words in reason(told.gpus[place], U)


def test_a_fault_that_was_injected_is_found_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a launch that died of something else meanwhile."""
    monkeypatch.setattr(Lost, "flips", True)
    burn_in_run = Lost(tmp_path, killed)
    (fault,) = burn_in_run.told.injected
    assert "found in 1," in fault.outcome  # the others of the round were healthy
    assert burn_in_run.told.gpus[1].verdict is F


# ── what nobody can read ──────────────────────────────────────────────────────────────────────────────────────────────


def barred(folder: Path) -> None:
    """There is no such folder, but a file in its place."""
    folder.rmdir()
    folder.write_bytes(b"")


def entered_by_its_owner_alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse access to a folder as the kernel does for other users, because root may enter every folder."""

    def refuse(call: Callable[..., object]) -> Callable[..., object]:
        def refused(path: object, *more: object, **options: object) -> object:
            if isinstance(path, str | Path) and Path(path).parent == folder:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return call(path, *more, **options)

        return refused

    for name in ("open", "stat", "lstat"):
        monkeypatch.setattr(os, name, refuse(getattr(os, name)))


@pytest.mark.parametrize("closed", [False, True])
def test_a_folder_that_cannot_be_entered_is_no_wrong_bits_and_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, closed: bool
) -> None:
    """Nobody can see there whether a file of mismatches was made: UNKNOWN, with the launch and why."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    cell = burn_in_run.first(Workload.SOAK, "cpu:1")
    burn_in_run.failed(cell, Category.KILLED, phase=Phase.MEASURE)
    folder = burn_in_run.paths.launch(cell.id, 1).folder
    folder.mkdir(parents=True, exist_ok=True)
    burn_in_run.work()
    burn_in_run.finish()
    if closed:
        entered_by_its_owner_alone(monkeypatch, folder)
    else:
        barred(folder)
    told = burn_in_run.chapter()
    assert [gpu.verdict for gpu in told.gpus] == [HealthVerdict.PASS, HealthVerdict.UNKNOWN]
    (reason,) = told.gpus[1].reasons
    carried = ("1 launch", "soak of matrix", os.strerror(errno.EACCES if closed else errno.ENOTDIR))
    assert [part for part in carried if part not in reason.text] == []
    assert reason.action is Action.AGAIN
