"""kinds/burn_in/links.py: what a launch on several devices says of each of them in the report of a burn-in."""

import hashlib
import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.burn_in import BurnInReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.kinds.burn_in.chapter import evidence
from orchestrator.kinds.burn_in.findings import cell_name
from orchestrator.kinds.burn_in.planning import LINKS, linked
from orchestrator.state.archive import ResultFileError
from orchestrator.state.attempts import Attempt
from protocol import codec, floats
from protocol.cell import Cell, Workload
from protocol.failure import Category, Phase
from protocol.result import Result
from protocol.verification import BEFORE_SENT, Mismatch, Verification
from tests.fakes import findings
from tests.fakes.burn_ins import FakeBurnIn, reasons, sound
from tests.fakes.runs import cpus, gpus

DEVICES = gpus(3)
FIRST, SECOND, THIRD = (device.uuid for device in DEVICES)
FAIL, UNKNOWN = HealthVerdict.FAIL, HealthVerdict.UNKNOWN

pytestmark = pytest.mark.usefixtures("unsynced")


def mismatch(sender: str | None) -> Mismatch:
    """One that a device has found in what came to it, or in its own numbers."""
    return findings.mismatch(what=BEFORE_SENT if sender is None else f"copy from {sender}", bits=2, sender=sender)


def found(cell: Cell, *kept: Mismatch, more: int = 0) -> Verification:
    """What a device verified, and what was wrong."""
    return msgspec.structs.replace(sound(cell), mismatches=len(kept) + more, kept=kept, verified_bytes=1 << 30)


TOTAL = findings.mismatch(what="sum over all devices", bits=2, of_all=True)


def reported(folder: Path, *launches: dict[str, tuple[Mismatch, ...]], more: int = 0) -> BurnInReport:
    """Launches of links, in each of which devices have seen what is given; more: without details."""
    burn_in_run = FakeBurnIn(folder, DEVICES)
    cell = burn_in_run.first(Workload.LINKS)
    for number, seen in enumerate(launches):
        said = {device.uuid: found(cell, *seen.get(device.uuid, ()), more=more) for device in DEVICES}
        burn_in_run.measured(
            cell,
            number=number,
            verification=said[FIRST],
            others={SECOND: said[SECOND], THIRD: said[THIRD]},
            series={
                name: floats.pack([ms] * 9) for name, ms in (("iteration", 8.0), ("copies", 2.0), ("all_reduce", 4.0))
            },
            bytes_per_iteration={"copies": 10**9, "all_reduce": 10**9},
        )
    return burn_in_run.finished()


def verdicts(report: BurnInReport) -> list[HealthVerdict]:
    """In the order of the devices."""
    return [gpu.verdict for gpu in report.gpus]


def test_a_result_that_names_a_stranger_is_refused(tmp_path: Path) -> None:
    """In a foreign folder a sender may be no device of the run, and the cell of a result may have more devices."""
    burn_in_run = FakeBurnIn(tmp_path, DEVICES)
    cell = burn_in_run.first(Workload.LINKS)
    said = found(cell, mismatch("GPU-x"))
    burn_in_run.measured(cell, verification=said, others={SECOND: said})
    burn_in_run.finish()
    (attempt,) = burn_in_run.archive().attempts
    with pytest.raises(ResultFileError, match="'GPU-x'"):
        burn_in_run.archive().result(attempt)
    assert [(one.cell, one.outcome) for one in burn_in_run.report().failures] == [(attempt.start.cell, "damaged")]
    path = burn_in_run.archive().folder(attempt).result
    told = codec.decode(path.read_bytes(), Result)
    cell = msgspec.structs.replace(told.cell, devices=(*told.cell.devices, "GPU-x"))
    data = codec.encode(msgspec.structs.replace(told, cell=cell))
    path.write_bytes(data)
    end = msgspec.structs.replace(attempt.end, result_sha256=hashlib.sha256(data).hexdigest())
    with pytest.raises(ResultFileError, match="devices"):
        burn_in_run.archive().result(Attempt(attempt.segment, attempt.start, end))


def wrong(report: BurnInReport) -> dict[str, int]:
    """Device → mismatches that count against it, where there are any."""
    checks = {gpu.gpu_uuid: next(one for one in gpu.checks if one.check == Workload.LINKS) for gpu in report.gpus}
    return {uuid: check.mismatches for uuid, check in checks.items() if check.mismatches}


def test_every_device_has_what_it_verified(tmp_path: Path) -> None:
    """The launch counts for each of them, not only for the one that leads; nobody is to blame."""
    report = reported(tmp_path, {})
    for gpu in report.gpus:
        (check,) = gpu.checks
        assert (check.check, check.launches, check.checks, check.verified_bytes) == (Workload.LINKS, 1, 1000, 1 << 30)
    assert wrong(report) == {}


def test_a_device_is_blamed_for_what_others_received_from_it(tmp_path: Path) -> None:
    """Not those who received it; the copies count as wrong transfers all the same."""
    report = reported(tmp_path, {SECOND: (mismatch(None),), FIRST: (mismatch(SECOND),), THIRD: (mismatch(SECOND),)})
    assert wrong(report) == {SECOND: 1}
    assert report.wrong_transfers == 3
    assert re.search(r"\b3 wrong transfers\n.* column .*\b1\b", "\n".join(evidence(report)))  # one of three
    first, second, _ = report.gpus
    assert second.verdict is FAIL
    assert "round 1" in reasons(second)
    assert "wrong" not in reasons(first)


def test_a_device_with_wrong_copies_of_two_others_is_to_blame(tmp_path: Path) -> None:
    """One wrong copy a launch, with another device each: it fails, and the others name it."""
    received = [{THIRD: (mismatch(sender), mismatch(sender))} for sender in (FIRST, SECOND)]
    report = reported(tmp_path, *received)
    assert verdicts(report) == [UNKNOWN, UNKNOWN, FAIL]
    assert wrong(report) == {FIRST: 2, SECOND: 2, THIRD: 4}
    first, second, third = map(reasons, report.gpus)
    assert "GPU 1 to GPU 2" in third
    assert [bool(re.search("fault of GPU 2, .* 2 devices", told)) for told in (first, second, third)] == [True] * 3
    assert ["GPU 1" in first, "GPU 0" in second, "FAIL" in first + second] == [False] * 3
    assert report.wrong_transfers == 4
    assert re.search(r"\b4 wrong transfers\n.*\b8\b.* column", "\n".join(evidence(report)))  # the sum of the column


def test_a_device_whose_own_numbers_were_wrong_explains_a_copy_of_another_launch(tmp_path: Path) -> None:
    """It fails; the other end is UNKNOWN and names it."""
    report = reported(tmp_path, {FIRST: (mismatch(SECOND),)}, {FIRST: (mismatch(None),)})
    first, second, third = map(reasons, report.gpus)
    why = "fault of GPU 0"
    assert re.search(r"FAIL: wrong .* transfers .*fp32 \(.*; round 1, ", first)
    assert re.search(rf"GPU 1 to GPU 0 \(.*{why}", first)
    assert (why in second, "FAIL: wrong" in second) == (True, False)
    assert not re.search(f"{why}|FAIL", third)


@pytest.mark.parametrize(
    ("workload", "changes", "proven"),
    [
        (Workload.SOAK, {}, True),
        (Workload.MEMORY, None, True),  # without details
        (Workload.TRUTH, {"elements": 1000, "wrong_again": 10, "beyond_rounding": False}, False),  # another algorithm
    ],
)
def test_a_device_that_another_check_has_proven_faulty_explains_a_copy(
    tmp_path: Path, workload: Workload, changes: dict[str, object] | None, *, proven: bool
) -> None:
    """Its partner is not taken out of service for it. What may be another algorithm proves nothing."""
    burn_in_run = FakeBurnIn(tmp_path, DEVICES)
    alone, cell = burn_in_run.first(workload, FIRST), burn_in_run.first(Workload.LINKS)
    kept = () if changes is None else (findings.mismatch(**changes),)
    burn_in_run.measured(alone, verification=found(alone, *kept, more=changes is None))
    burn_in_run.measured(
        cell, verification=found(cell), others={SECOND: found(cell, mismatch(FIRST)), THIRD: found(cell)}
    )
    report = burn_in_run.finished()
    assert [verdict is FAIL for verdict in verdicts(report)] == [True, not proven, False]
    assert ("fault of GPU 0" in reasons(report.gpus[1])) == proven


def test_what_receivers_did_not_keep_is_left_open(tmp_path: Path) -> None:
    """It counts against the sender; but it may be a receiver's own as well, which is no PASS for that one."""
    seen = {SECOND: (mismatch(None),), FIRST: (mismatch(SECOND),), THIRD: (mismatch(SECOND),)}
    report = reported(tmp_path, seen, more=2)
    assert wrong(report) == {FIRST: 2, SECOND: 1 + 3 * 2, THIRD: 2}
    assert verdicts(report) == [UNKNOWN, FAIL, UNKNOWN]
    unclear = [bool(re.search(f"{UNKNOWN}: 2 mismatches without", reasons(gpu))) for gpu in report.gpus]
    assert unclear == [True, False, True]
    assert report.gpus[0].checks[0].error_bound is None


def test_a_link_is_named_by_both_its_ends(tmp_path: Path) -> None:
    """In the words that people have for GPUs."""
    report = reported(tmp_path, {FIRST: (mismatch(THIRD),)})
    assert wrong(report) == {FIRST: 1, THIRD: 1}
    assert [verdict is FAIL for verdict in verdicts(report)] == [True, False, True]
    assert "GPU 2 to GPU 0" in reasons(report.gpus[0])


def test_a_sum_that_is_wrong_beside_copies_of_others_is_left_open(tmp_path: Path) -> None:
    """It may follow from them or be the device's own: nobody can say, which is no PASS, and no bound on its errors."""
    report = reported(tmp_path, {SECOND: (mismatch(FIRST),), THIRD: (TOTAL,)}, more=2)
    assert wrong(report) == dict.fromkeys((FIRST, SECOND, THIRD), 1 + 3 * 2)
    assert verdicts(report) == [FAIL, FAIL, UNKNOWN]
    (reason,) = (one for one in report.gpus[2].reasons if "; round 1" in one.text)
    assert (reason.verdict, report.gpus[2].checks[0].error_bound) == (UNKNOWN, None)


def test_rates_are_those_of_all_devices_together(tmp_path: Path) -> None:
    """GB/s of one device; on the bus of three each sends 4/3 of its bytes."""
    (rates,) = reported(tmp_path, {}).links
    assert rates.gpu_uuids == (FIRST, SECOND, THIRD)
    assert (rates.copies_gb_per_second, rates.all_reduce_gb_per_second) == (500, 250)
    assert rates.all_reduce_bus_gb_per_second == pytest.approx(250 * 4 / 3)
    assert rates.to_host_gb_per_second is None


def test_a_launch_that_failed_is_a_gap_for_every_device(tmp_path: Path) -> None:
    """UNKNOWN, with the words that name the one which hung; without links there is no PASS."""
    burn_in_run = FakeBurnIn(tmp_path, DEVICES)
    words = "GPU 1 made no progress"
    burn_in_run.failed(
        burn_in_run.first(Workload.LINKS), Category.DEADLINE, phase=Phase.MEASURE, message=words, device=SECOND
    )
    for gpu in burn_in_run.finished().gpus:
        assert words in reasons(gpu)
        assert f"{UNKNOWN}: {cell_name(burn_in_run.first(Workload.LINKS))} never" in reasons(gpu)
    assert [(one.gpu_uuid, one.gpu_id) for one in burn_in_run.report().failures] == [(SECOND, 1)]


def test_a_quarantined_device_leaves_the_links_of_the_others_untested(tmp_path: Path) -> None:
    """They name it."""
    burn_in_run = FakeBurnIn(tmp_path, DEVICES)
    burn_in_run.quarantined("it is lost", device=1)
    first, _, third = burn_in_run.finished().gpus
    for gpu in (first, third):
        assert "GPU 1 was quarantined" in str(gpu.not_tested)
        assert re.search(f"{cell_name(burn_in_run.first(Workload.LINKS))} [^:]*: GPU 1 was quarantined", reasons(gpu))


def test_what_has_no_links_needs_none() -> None:
    """One CPU device and slices of a GPU have none; one GPU has the way to the host."""
    assert linked(cpus(1)[0], cpus(1)) == ()
    assert linked(cpus(2)[0], (*cpus(2), *gpus(1))) == ("cpu:0", "cpu:1")
    assert linked(gpus(1)[0], gpus(1)) == (gpus(1)[0].uuid,)
    sliced = msgspec.structs.replace(gpus(2)[1], slice_of="GPU-parent", slice_index=0)
    assert linked(sliced, (gpus(1)[0], sliced)) == ()
    assert linked(gpus(1)[0], (gpus(1)[0], sliced)) == (gpus(1)[0].uuid,)


def test_one_cpu_device_passes_without_links(tmp_path: Path) -> None:
    """They are no required check there, and are listed as not tested."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(1), "10m")
    burn_in_run.work(last=3)
    (gpu,) = burn_in_run.finished().gpus
    assert "links" in gpu.not_tested
    assert "transfers" not in reasons(gpu)


def test_all_devices_have_their_links_in_the_same_place(tmp_path: Path) -> None:
    """One cell for all, in the order of each, once a round, and counted once."""
    burn_in_run = FakeBurnIn(tmp_path, DEVICES)
    made = burn_in_plan.make(burn_in_run.stored.configuration, DEVICES, levels.load())
    (cell,) = [cell for cell in made.cells if cell.model == LINKS]
    assert cell.devices == (FIRST, SECOND, THIRD)
    places = [[slot[0] == cell.id for slot in queue] for queue in made.order.values()]
    assert places[0] == places[1] == places[2]
    assert made.launches == len(made.slots) == sum(map(len, made.order.values())) - 2 * sum(places[0])
