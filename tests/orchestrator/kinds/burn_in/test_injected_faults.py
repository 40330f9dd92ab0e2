"""kinds/burn_in/injected_faults.py: which faults that were brought about on purpose were found."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.config.run_configuration import Configuration, InjectedFault
from orchestrator.figures.burn_in import Fate, InjectedReport, Pace
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.kinds.burn_in.rate_checks import OVER_TIME
from orchestrator.report.as_text import to_text
from protocol.cell import Device, Workload
from protocol.verification import Verification
from tests.fakes.burn_ins import FakeBurnIn, same, sound
from tests.fakes.findings import mismatch
from tests.fakes.runs import cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


class Tainted(FakeBurnIn):
    """A burn-in with one fault on its last device."""

    def __init__(self, folder: Path, devices: tuple[Device, ...], duration: str, fault: dict[str, object]) -> None:
        self._fault = msgspec.convert({"device": devices[-1].uuid, **fault}, InjectedFault)
        super().__init__(folder, devices, duration)

    def asked(self, configuration: Configuration) -> Configuration:
        """As of --burn-in with --inject."""
        made = super().asked(configuration)
        assert made.burn_in is not None
        asked = msgspec.structs.replace(made.burn_in, injections=(self._fault,))
        return msgspec.structs.replace(made, burn_in=asked, tainted=True)


def outcome(burn_in_run: FakeBurnIn) -> InjectedReport:
    """What is said of the fault; the text report says it too."""
    made = burn_in_run.ended()
    (fault,) = made.burn_in.injected
    assert fault.found is (fault.fate is Fate.FOUND)
    text = " ".join(to_text(made, BURN_IN.layout).split())
    assert f"injected: {fault.fate.upper()}: {fault.fault}: {fault.outcome.removeprefix(f'{fault.fate}: ')}" in text
    missed = "0 of 1 TOOK EFFECT" if fault.fate is Fate.UNDONE else "NOT ALL FOUND: 0 of 1"
    assert f" Injected faults: {'1 of 1 found' if fault.found else missed} " in text
    return fault


def test_flipped_bits_that_a_check_did_not_find_are_named(tmp_path: Path) -> None:
    """Of the round and the device alone; with the check that is blind."""
    burn_in_run = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 2})
    cells = {cell.workload: cell for cell in burn_in_run.stored.plan.cells}
    found: dict[tuple[int, Workload, int], Verification] = {}
    for workload, cell in cells.items():
        wrong = msgspec.structs.replace(sound(cell), mismatches=1, kept=(mismatch(),))
        found |= {(0, workload, 1): wrong, (1, workload, 1): wrong, (1, workload, 0): wrong}
    del found[1, Workload.MEMORY, 1]
    burn_in_run.work(verified=found)
    fault = outcome(burn_in_run)
    assert fault.gpu_uuid == burn_in_run.stored.devices[1].uuid
    assert "flips 2 bits" in fault.fault
    assert fault.fate is Fate.IN_PART
    assert fault.outcome.count("the memory test") == 1
    assert "soak of matrix" not in fault.outcome


def test_flipped_bits_that_every_check_found_are_found(tmp_path: Path) -> None:
    """In so many launches of so many."""
    burn_in_run = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 1})
    wrong = {
        (place, cell.workload, 1): msgspec.structs.replace(sound(cell), mismatches=1, kept=(mismatch(),))
        for place in (0, 1)
        for cell in burn_in_run.stored.plan.cells
    }
    burn_in_run.work(verified=wrong)
    launches = sum(burn_in_run.stored.devices[1].uuid in cell.devices for cell in burn_in_run.stored.plan.cells)
    fault = outcome(burn_in_run)
    assert (fault.found, fault.outcome) == (True, f"injected into {launches} launches, found in {launches}")


@pytest.mark.parametrize("received", [False, True])
def test_a_flip_that_only_another_one_shows_is_not_found(tmp_path: Path, received: bool) -> None:
    """received: the flip of the other device is also in what it sent, and in the sum of both: no proof for this one."""
    burn_in_run = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 1})
    sender = burn_in_run.stored.devices[0].uuid
    followed = (mismatch(what=f"copy from {sender}", sender=sender), mismatch(what="sum", of_all=True))
    wrong = {}
    for cell in burn_in_run.stored.plan.cells:
        links = followed if received else ()
        for place, kept in enumerate([(mismatch(),), links if cell.workload is Workload.LINKS else (mismatch(),)]):
            wrong[place, cell.workload, 1] = msgspec.structs.replace(sound(cell), mismatches=len(kept), kept=kept)
    burn_in_run.work(verified=wrong)
    fault = outcome(burn_in_run)
    assert fault.fate is Fate.IN_PART
    assert "not in transfers" in fault.outcome


def test_a_round_that_never_came_brought_nothing_about(tmp_path: Path) -> None:
    """There is nothing that could have been found, which the run's verdict says; not while it may still come."""
    burn_in_run = Tainted(tmp_path, cpus(1), "10m", {"round": 4, "flip_bits": 1})
    burn_in_run.work(last=3)
    so_far = merge(burn_in_run.archive(), evidence.gather(burn_in_run.archive(), goes_on=True), BURN_IN.report)
    undone = re.compile("1 of 1 injected fault .*effect")
    assert not any(map(undone.match, so_far.verdict.reasons))
    assert outcome(burn_in_run).fate is Fate.UNDONE
    assert any(map(undone.match, burn_in_run.report().verdict.reasons))


@pytest.mark.parametrize(
    ("devices", "rate", "found", "words"),
    [
        (gpus(4), lambda gpu, _hours: 0.9 if gpu == 3 else 1.0, True, "compared with siblings"),
        (gpus(4), same, False, 'soak": 100.0%'),
        (cpus(1), same, False, "not judged"),
    ],
)
def test_a_slowed_device_is_found_by_its_rates(
    tmp_path: Path, devices: tuple[Device, ...], rate: Callable[[int, float], float], found: bool, words: str
) -> None:
    """Or not, and then what the rates said."""
    burn_in_run = Tainted(tmp_path, devices, "1h", {"slow_percent": 11.0})
    burn_in_run.work(rate=rate)
    fault = outcome(burn_in_run)
    assert fault.found is found
    assert words in fault.outcome


def test_what_all_lose_over_the_burn_in_is_not_the_doing_of_one_that_is_slow(tmp_path: Path) -> None:
    """It would be slow from the first launch on: a room that warms says nothing of that."""
    burn_in_run = Tainted(tmp_path, gpus(4), "1h", {"slow_percent": 11.0})
    burn_in_run.work(rate=lambda _gpu, hours: 1 - 0.1 * hours)
    made = burn_in_run.ended().burn_in
    assert any(one.kind == OVER_TIME and one.pace is Pace.SLOWER for one in made.gpus[3].paces)
    (fault,) = made.injected
    assert fault.fate is Fate.MISSED
    assert 'soak": 100.0%' in fault.outcome


@pytest.mark.parametrize("ended", [True, False])
def test_heat_is_found_when_the_load_was_ended(tmp_path: Path, ended: bool) -> None:
    """Or it was not hot enough."""
    burn_in_run = Tainted(tmp_path, gpus(1), "10m", {"hot_c": 95})
    burn_in_run.work(last=3)
    if ended:
        burn_in_run.too_hot(0, "too hot: for 10 s at 95")
    fault = outcome(burn_in_run)
    assert (fault.found, fault.outcome.startswith("found")) == (ended, ended)
