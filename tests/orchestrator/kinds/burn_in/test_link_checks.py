"""kinds/burn_in/links.py: what a launch on several devices says of each of them in the report of a burn-in."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.kinds.burn_in.planning import LINKS, linked
from orchestrator.report.as_text import to_text
from orchestrator.report.text_burn_in import evidence
from orchestrator.state.archive import Attempt, ResultFileError
from protocol import codec, floats
from protocol.cell import Cell, Workload
from protocol.failure import Category, Phase
from protocol.result import Result
from protocol.verification import BEFORE_SENT, Mismatch, Verification
from tests.fakes import findings
from tests.fakes.nights import Night, sound
from tests.fakes.runs import cpus, gpus

DEVICES = gpus(3)
FIRST, SECOND, THIRD = (device.uuid for device in DEVICES)


def mismatch(sender: str | None, *, of_all: bool = False) -> Mismatch:
    """One that a device has found in what came to it, or in its own numbers."""
    what = BEFORE_SENT if sender is None else f"copy from {sender}"
    return findings.mismatch(what=what, bits=2, sender=sender, of_all=of_all)


def found(cell: Cell, *kept: Mismatch, more: int = 0) -> Verification:
    """What a device verified, and what was wrong."""
    return msgspec.structs.replace(sound(cell), mismatches=len(kept) + more, kept=kept, verified_bytes=1 << 30)


def a_night(folder: Path, seen: dict[str, tuple[Mismatch, ...]], *, more: int = 0) -> BurnInReport:
    """One launch of links, of which each device has seen what is given."""
    night = Night(folder, DEVICES)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    told = {device.uuid: found(cell, *seen.get(device.uuid, ()), more=more) for device in DEVICES}
    night.measured(
        cell,
        verification=told[FIRST],
        others={SECOND: told[SECOND], THIRD: told[THIRD]},
        series={name: floats.pack([ms] * 9) for name, ms in (("iteration", 8.0), ("copies", 2.0), ("all_reduce", 4.0))},
        bytes_per_iteration={"copies": 10**9, "all_reduce": 10**9},
    )
    night.finish()
    report = night.report().burn_in
    assert report is not None
    return report


def forged(folder: Path) -> Night:
    """One launch of links whose result, in somebody else's folder, names a sender that is no device of the run."""
    night = Night(folder, DEVICES)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    said = found(cell, mismatch("GPU-x"))
    night.measured(cell, verification=said, others={SECOND: said})
    night.finish()
    return night


def test_a_result_that_names_a_stranger_is_refused(tmp_path: Path) -> None:
    """What it says is not looked at, and the report says that its file is damaged."""
    night = forged(tmp_path)
    (attempt,) = night.archive().attempts
    with pytest.raises(ResultFileError, match="'GPU-x' is no device of its cell"):
        night.archive().result(attempt)
    assert [(one.cell, one.outcome) for one in night.report().failures] == [(attempt.start.cell, "damaged")]


def test_a_result_whose_own_cell_has_the_stranger_is_refused(tmp_path: Path) -> None:
    """The devices of the cell are held against those of the run."""
    night = forged(tmp_path)
    (attempt,) = night.archive().attempts
    path = night.archive().folder(attempt).result
    told = codec.decode(path.read_bytes(), Result)
    cell = msgspec.structs.replace(told.cell, devices=(*told.cell.devices, "GPU-x"))
    data = codec.encode(msgspec.structs.replace(told, cell=cell))
    path.write_bytes(data)
    assert attempt.end is not None
    end = msgspec.structs.replace(attempt.end, result_sha256=hashlib.sha256(data).hexdigest())
    with pytest.raises(ResultFileError, match="devices that the run does not have"):
        night.archive().result(Attempt(attempt.segment, attempt.start, end))


def wrong(night: BurnInReport) -> dict[str, int]:
    """Device → mismatches that count against it, where there are any."""
    checks = {gpu.gpu_uuid: next(one for one in gpu.checks if one.check == Workload.LINKS) for gpu in night.gpus}
    return {uuid: check.mismatches for uuid, check in checks.items() if check.mismatches}


def reasons(gpu: GpuBurnIn) -> str:
    """All that speaks for its verdict."""
    return "\n".join(f"{one.verdict}: {one.text}" for one in gpu.reasons)


def test_every_device_has_what_it_verified(tmp_path: Path) -> None:
    """The launch counts for each of them, not for the one that leads alone; nobody is to blame."""
    night = a_night(tmp_path, {})
    for gpu in night.gpus:
        (check,) = gpu.checks
        assert (check.check, check.launches, check.checks, check.verified_bytes) == (Workload.LINKS, 1, 1000, 1 << 30)
    assert wrong(night) == {}


def test_a_device_is_blamed_for_what_others_received_from_it(tmp_path: Path) -> None:
    """Not those who received it; the copies are wrong transfers all the same, and the report says why they are more."""
    seen = {SECOND: (mismatch(None),), FIRST: (mismatch(SECOND),), THIRD: (mismatch(SECOND),)}
    night = a_night(tmp_path, seen)
    assert wrong(night) == {SECOND: 1}
    told = "links: 3,000 checks in 1 launch, 1 wrong by device (3 wrong transfers, some of which follow from others)"
    assert told in evidence(night)
    first, second, _ = night.gpus
    assert second.verdict is HealthVerdict.FAIL
    assert "transfers between devices in fp32, round 1" in reasons(second)
    assert "wrong" not in reasons(first)


def test_a_device_that_errs_now_and_then_is_told_from_its_links(tmp_path: Path) -> None:
    """One wrong copy a launch, with another device each: it fails, with why; those are told whose fault it may be."""
    night = Night(tmp_path, DEVICES)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    for number, sender in enumerate((FIRST, SECOND)):
        received = {FIRST: found(cell), SECOND: found(cell), THIRD: found(cell, mismatch(sender), mismatch(sender))}
        own = received.pop(FIRST)
        night.measured(cell, number=number, verification=own, others=received)
    night.finish()
    report = night.report()
    assert report.burn_in is not None
    assert [gpu.verdict for gpu in report.burn_in.gpus] == [
        HealthVerdict.UNKNOWN,
        HealthVerdict.UNKNOWN,
        HealthVerdict.FAIL,
    ]
    assert wrong(report.burn_in) == {FIRST: 2, SECOND: 2, THIRD: 4}
    first, second, third = map(reasons, report.burn_in.gpus)
    why = "probably the fault of GPU 2, whose copies with 2 devices were wrong, or of a way that these copies share"
    assert f"copy from GPU 1 to GPU 2 ({why}): 1" in third
    for gpu, others in ((first, "GPU 1"), (second, "GPU 0")):
        assert "UNKNOWN: transfers between devices in fp32, round" in gpu
        assert f"{why}; but a wrong copy does not" in gpu
        assert others not in gpu
        assert "FAIL" not in gpu
    assert report.burn_in.wrong_transfers == 4
    told = "links: 6,000 checks in 2 launches, 8 wrong by device (4 wrong transfers)"
    assert told in " ".join(to_text(report).split())  # the sum of the column


def test_a_device_whose_own_numbers_were_wrong_explains_a_copy_of_another_launch(tmp_path: Path) -> None:
    """It fails, with why; the other end is told whose fault it probably is."""
    night = Night(tmp_path, DEVICES)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    for number, sender in enumerate((SECOND, None)):
        others = {SECOND: found(cell), THIRD: found(cell)}
        night.measured(cell, number=number, verification=found(cell, mismatch(sender)), others=others)
    night.finish()
    report = night.report().burn_in
    assert report is not None
    first, second, third = map(reasons, report.gpus)
    why = "probably the fault of GPU 0, which had numbers wrong without any other device"
    assert "FAIL: transfers between devices in fp32, round 1, " in first
    assert f"copy from GPU 1 to GPU 0 ({why}): 1 element" in first
    assert f"{why}; but a wrong copy does not tell at which end, so this one is not cleared" in second
    assert "FAIL: transfers" not in second
    assert "transfers" not in third.replace("transfers between devices of peers", "")


ALGORITHM = {"elements": 1000, "wrong_again": 10, "beyond_rounding": False}


@pytest.mark.parametrize("workload", [Workload.SOAK, Workload.MEMORY, Workload.TRUTH])
@pytest.mark.parametrize(("changes", "proven"), [({}, True), (ALGORITHM, False)])
def test_a_device_that_another_check_has_proven_faulty_explains_a_copy(
    tmp_path: Path, workload: Workload, changes: dict[str, object], *, proven: bool
) -> None:
    """Its partner is not taken out of service for it. What may be another algorithm proves nothing."""
    night = Night(tmp_path, DEVICES)
    cells = night.stored.plan.cells
    alone = next(cell for cell in cells if cell.workload is workload and cell.devices == (FIRST,))
    night.measured(alone, verification=found(alone, findings.mismatch(**changes)))
    cell = next(cell for cell in cells if cell.workload is Workload.LINKS)
    others = {SECOND: found(cell, mismatch(FIRST)), THIRD: found(cell)}
    night.measured(cell, verification=found(cell), others=others)
    night.finish()
    report = night.report().burn_in
    assert report is not None
    assert [gpu.verdict == "FAIL" for gpu in report.gpus] == [True, not proven, False]
    why = "probably the fault of GPU 0, which had numbers wrong without any other device"
    assert (f"{why}; but a wrong copy does not" in reasons(report.gpus[1])) == proven


def test_mismatches_without_details_prove_a_device_faulty_too(tmp_path: Path) -> None:
    """They are FAIL for it, and so explain its copies."""
    night = Night(tmp_path, DEVICES)
    cells = night.stored.plan.cells
    alone = next(cell for cell in cells if cell.workload is Workload.SOAK and cell.devices == (FIRST,))
    night.measured(alone, verification=msgspec.structs.replace(found(alone), mismatches=1))
    cell = next(cell for cell in cells if cell.workload is Workload.LINKS)
    night.measured(cell, verification=found(cell), others={SECOND: found(cell, mismatch(FIRST)), THIRD: found(cell)})
    night.finish()
    report = night.report().burn_in
    assert report is not None
    assert [gpu.verdict == "FAIL" for gpu in report.gpus] == [True, False, False]


def test_a_sum_beside_wrong_numbers_of_another_device_names_it(tmp_path: Path) -> None:
    """Its own numbers were wrong before they were added: that explains the sums, and no copy of others does."""
    total = msgspec.structs.replace(mismatch(None, of_all=True), what="sum over all devices")
    first, second, _ = a_night(tmp_path, {FIRST: (total,), SECOND: (mismatch(None), total)}).gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.FAIL)
    why = "probably the fault of GPU 1, which had numbers wrong without any other device; but a wrong sum does not"
    assert why in reasons(first)


def test_what_receivers_did_not_keep_is_left_open(tmp_path: Path) -> None:
    """It counts against the sender; but it may be a receiver's own as well, which is no PASS for that one."""
    seen = {SECOND: (mismatch(None),), FIRST: (mismatch(SECOND),), THIRD: (mismatch(SECOND),)}
    night = a_night(tmp_path, seen, more=2)
    assert wrong(night) == {FIRST: 2, SECOND: 1 + 3 * 2, THIRD: 2}
    first, second, third = night.gpus
    assert (first.verdict, second.verdict, third.verdict) == (
        HealthVerdict.UNKNOWN,
        HealthVerdict.FAIL,
        HealthVerdict.UNKNOWN,
    )
    told = "UNKNOWN: transfers between devices: 2 mismatches without details, which may be its own, or follow"
    assert told in reasons(first)
    assert told in reasons(third)
    assert "FAIL" not in reasons(first)
    assert told not in reasons(second)
    assert first.checks[0].error_bound is None


def test_a_link_is_named_by_both_its_ends(tmp_path: Path) -> None:
    """In the words that people have for GPUs."""
    night = a_night(tmp_path, {FIRST: (mismatch(THIRD),)})
    assert wrong(night) == {FIRST: 1, THIRD: 1}
    first, second, third = night.gpus
    assert (first.verdict, third.verdict) == (HealthVerdict.FAIL, HealthVerdict.FAIL)
    assert "copy from GPU 2 to GPU 0 (one of the two is at fault, or what lies between them)" in reasons(first)
    assert second.verdict is not HealthVerdict.FAIL


def test_a_sum_that_is_wrong_beside_copies_of_others_is_left_open(tmp_path: Path) -> None:
    """It may follow from them or be the device's own: nobody can say, which is no PASS, and no bound on its errors."""
    total = msgspec.structs.replace(mismatch(None, of_all=True), what="sum over all devices")
    night = a_night(tmp_path, {SECOND: (mismatch(FIRST),), THIRD: (total,)}, more=2)
    assert wrong(night) == {FIRST: 1 + 3 * 2, SECOND: 1 + 3 * 2, THIRD: 1 + 3 * 2}
    first, second, third = night.gpus
    assert (first.verdict, second.verdict, third.verdict) == (
        HealthVerdict.FAIL,
        HealthVerdict.FAIL,
        HealthVerdict.UNKNOWN,
    )
    assert "UNKNOWN: transfers between devices in fp32, round 1" in reasons(third)
    assert "sums, copies or numbers of others were wrong too, so it may be one of them" in reasons(third)
    assert "FAIL" not in reasons(third)
    assert "which may be its own" not in reasons(third)
    assert third.checks[0].error_bound is None


@pytest.mark.parametrize(
    ("devices", "verdicts"),
    [
        ((FIRST, SECOND, THIRD), [HealthVerdict.UNKNOWN] * 3),
        ((THIRD,), [HealthVerdict.UNKNOWN, HealthVerdict.UNKNOWN, HealthVerdict.FAIL]),
    ],
)
def test_a_sum_that_is_wrong_everywhere_takes_nobody_out(
    tmp_path: Path, devices: tuple[str, ...], verdicts: list[HealthVerdict]
) -> None:
    """What one device gave to it is in all of them, so nobody is blamed; one that has it wrong alone is."""
    total = msgspec.structs.replace(mismatch(None, of_all=True), what="sum over all devices")
    night = a_night(tmp_path, dict.fromkeys(devices, (total,)))
    assert [gpu.verdict for gpu in night.gpus] == verdicts
    way = "sum over all devices (the device is at fault, or the way to it)"
    assert [way in reasons(gpu) for gpu in night.gpus] == [one == "FAIL" for one in verdicts]
    assert ["take it out of service" in gpu.action for gpu in night.gpus] == [one == "FAIL" for one in verdicts]


def test_rates_are_told_of_all_devices_together(tmp_path: Path) -> None:
    """GB/s of one device; on the bus of three each sends 4/3 of its bytes."""
    (rates,) = a_night(tmp_path, {}).links
    assert rates.gpu_uuids == (FIRST, SECOND, THIRD)
    assert (rates.copies_gb_per_second, rates.all_reduce_gb_per_second) == (500, 250)
    assert rates.all_reduce_bus_gb_per_second == pytest.approx(250 * 4 / 3)
    assert rates.to_host_gb_per_second is None


def test_a_launch_that_failed_is_a_gap_for_every_device(tmp_path: Path) -> None:
    """UNKNOWN, with the words that name the one which hung; without links there is no PASS."""
    night = Night(tmp_path, DEVICES)
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    words = "GPU 1 made no progress: its process was stopped"
    night.failed(cell, Category.DEADLINE, phase=Phase.MEASURE, message=words, device=SECOND)
    night.finish()
    report = night.report()
    assert report.burn_in is not None
    for gpu in report.burn_in.gpus:
        assert words in reasons(gpu)
        assert "UNKNOWN: transfers between devices of peers in fp32 never came to an end" in reasons(gpu)
    assert [(one.gpu_uuid, one.gpu_id) for one in report.failures] == [(SECOND, 1)]


def test_a_device_that_was_taken_out_leaves_the_links_of_the_others_untested(tmp_path: Path) -> None:
    """They say so, and why."""
    night = Night(tmp_path, DEVICES)
    night.taken_out("it is lost", device=1)
    night.finish()
    report = night.report().burn_in
    assert report is not None
    first, _, third = report.gpus
    for gpu in (first, third):
        assert "GPU 1 was taken out, and all of them are needed" in str(gpu.not_tested)
        assert "transfers between devices of peers in fp32 never came to an end: GPU 1 was taken out" in reasons(gpu)


def test_what_has_no_links_needs_none() -> None:
    """One CPU device and slices of a GPU have none; one GPU has the way to the host."""
    assert linked(cpus(1)[0], cpus(1)) == ()
    assert linked(cpus(2)[0], (*cpus(2), *gpus(1))) == ("cpu:0", "cpu:1")
    assert linked(gpus(1)[0], gpus(1)) == (gpus(1)[0].uuid,)
    sliced = msgspec.structs.replace(gpus(2)[1], slice_of="GPU-parent", slice_index=0)
    assert linked(sliced, (gpus(1)[0], sliced)) == ()
    assert linked(gpus(1)[0], (gpus(1)[0], sliced)) == (gpus(1)[0].uuid,)


def test_one_cpu_device_passes_without_links(tmp_path: Path) -> None:
    """They are no required check there, and the report says that they were not tested."""
    night = Night(tmp_path, cpus(1))
    night.work()
    night.finish()
    report = night.report().burn_in
    assert report is not None
    (gpu,) = report.gpus
    assert gpu.not_tested["links"] == "it has none in this run"
    assert "transfers" not in reasons(gpu)


def test_all_devices_have_their_links_in_the_same_place(tmp_path: Path) -> None:
    """One cell for all, in the order of each, once a round, and counted once."""
    night = Night(tmp_path, DEVICES)
    made = burn_in_plan.make(night.stored.configuration, DEVICES, levels.load())
    (cell,) = [cell for cell in made.cells if cell.model == LINKS]
    assert cell.devices == (FIRST, SECOND, THIRD)
    places = [[slot[0] == cell.id for slot in queue] for queue in made.order.values()]
    assert places[0] == places[1] == places[2]
    assert made.launches == len(made.slots) == sum(map(len, made.order.values())) - 2 * sum(places[0])
