"""kinds/burn_in/injected_faults.py: which faults that were brought about on purpose were found."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.config.run_configuration import Configuration
from orchestrator.figures.burn_in import Fate, InjectedReport
from orchestrator.kinds.burn_in.findings import TITLES
from orchestrator.kinds.burn_in.injections import Asked
from orchestrator.kinds.burn_in.rate_checks import BESIDE
from protocol.cell import Cell, Device, Workload
from protocol.verification import Mismatch, Verification
from tests.fakes.findings import mismatch
from tests.fakes.nights import Night, same, sound
from tests.fakes.runs import cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


class Tainted(Night):
    """A burn-in with one fault on its last device."""

    def __init__(self, folder: Path, devices: tuple[Device, ...], duration: str, fault: dict[str, object]) -> None:
        self._fault = msgspec.convert({"device": devices[-1].uuid, **fault}, Asked)
        super().__init__(folder, devices, duration)

    def asked(self, configuration: Configuration) -> Configuration:
        """As of --burn-in with --inject."""
        made = super().asked(configuration)
        assert made.burn_in is not None
        asked = msgspec.structs.replace(made.burn_in, injections=(self._fault,))
        return msgspec.structs.replace(made, burn_in=asked, tainted=True)


def outcome(night: Night) -> InjectedReport:
    """The report on the fault."""
    (fault,) = night.finished().injected
    assert fault.fate is not None
    assert fault.found is (fault.fate is Fate.FOUND)
    return fault


def wrong_in(cell: Cell, *kept: Mismatch) -> Verification:
    """What a launch found, with these mismatches."""
    return msgspec.structs.replace(sound(cell), mismatches=len(kept), kept=kept)


def test_a_check_that_did_not_find_flipped_bits_is_named(tmp_path: Path) -> None:
    """Only those of the round and the device count."""
    night = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 2})
    found = {
        (place, cell.workload, number): wrong_in(cell, mismatch())
        for cell in night.stored.plan.cells
        for place, number in ((0, 1), (1, 1), (1, 0))
    }
    del found[1, Workload.MEMORY, 1]
    night.work(verified=found)
    fault = outcome(night)
    assert fault.gpu_uuid == night.stored.devices[1].uuid
    assert ("2 bits" in fault.fault, fault.fate) == (True, Fate.IN_PART)
    assert (TITLES[Workload.MEMORY] in fault.outcome, TITLES[Workload.SOAK] in fault.outcome) == (True, False)


def test_flipped_bits_that_every_check_found_are_found(tmp_path: Path) -> None:
    """In so many launches of so many."""
    night = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 1})
    cells = night.stored.plan.cells
    night.work(verified={(at, cell.workload, 1): wrong_in(cell, mismatch()) for at in (0, 1) for cell in cells})
    launches = sum(night.stored.devices[1].uuid in cell.devices for cell in cells)
    fault = outcome(night)
    assert (fault.found, re.findall(r"\d+", fault.outcome)) == (True, [str(launches)] * 2)


@pytest.mark.parametrize("received", [False, True])
def test_a_flip_that_only_another_one_shows_is_not_found(tmp_path: Path, received: bool) -> None:
    """Links are one launch of all: what the other device has flipped there is no proof for this one.

    received: also in what came from that one, and in the sum of both.
    """
    night = Tainted(tmp_path, cpus(2), "10m", {"round": 1, "flip_bits": 1})
    sender = night.stored.devices[0].uuid
    followed = (mismatch(what=f"copy from {sender}", sender=sender), mismatch(what="sum over all devices", of_all=True))
    links = followed if received else ()
    wrong = {}
    for cell in night.stored.plan.cells:
        mine = links if cell.workload is Workload.LINKS else (mismatch(),)
        wrong |= {(0, cell.workload, 1): wrong_in(cell, mismatch()), (1, cell.workload, 1): wrong_in(cell, *mine)}
    night.work(verified=wrong)
    fault = outcome(night)
    assert (fault.fate, TITLES[Workload.LINKS] in fault.outcome) == (Fate.IN_PART, True)


def test_a_fault_in_a_round_that_never_came_was_not_injected(tmp_path: Path) -> None:
    """Nothing could have been found, which is a reason of the run's verdict; not while the round may still come."""
    night = Tainted(tmp_path, cpus(1), "10m", {"round": 4, "flip_bits": 1})
    night.work(last=3)
    so_far = merge(night.archive(), evidence.gather(night.archive(), goes_on=True))
    assert outcome(night).fate is Fate.UNDONE
    for report, expected in ((so_far, False), (night.report(), True)):
        assert any(reason.startswith("1 of 1 fault") for reason in report.verdict.reasons) is expected


@pytest.mark.parametrize(
    ("devices", "rate", "found", "carried"),
    [
        (gpus(4), lambda gpu, _hours: 0.9 if gpu == 3 else 1.0, True, BESIDE),
        (gpus(4), same, False, f"{BESIDE}: 100.0%"),
        # It would be slow from the first launch on: a room that warms says nothing of that.
        (gpus(4), lambda _gpu, hours: 1 - 0.1 * hours, False, f"{BESIDE}: 100.0%"),
        (cpus(1), same, False, "no rate"),
    ],
)
def test_a_slowed_device_is_found_by_its_rates(
    tmp_path: Path, devices: tuple[Device, ...], rate: Callable[[int, float], float], found: bool, carried: str
) -> None:
    """Or not, and then with its rates."""
    night = Tainted(tmp_path, devices, "1h", {"slow_percent": 11.0})
    night.work(rate=rate)
    fault = outcome(night)
    assert (fault.found, carried in fault.outcome) == (found, True)


@pytest.mark.parametrize("ended", [True, False])
def test_heat_is_found_when_the_load_was_ended(tmp_path: Path, ended: bool) -> None:
    """Or it was not hot enough."""
    night = Tainted(tmp_path, gpus(1), "10m", {"hot_c": 95})
    night.work(last=3)
    if ended:
        night.too_hot(0, "too hot: for 10 s at 95")
    assert outcome(night).found is ended
