"""From health records to the report: the verdicts in it, its exit code and its text."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.records import HealthRecord, NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.report.as_text import to_text
from protocol import codec
from protocol.failure import Category
from protocol.messages import XidSeen
from tests.fakes.health import WELL
from tests.fakes.nights import Night
from tests.fakes.runs import BOOT, SECOND_NS, FakeRun, cpus, gpus

HEARS_ALL = Watch(at_ns=SECOND_NS, boot_id=BOOT, kernel_log=True)
COUNTED = {"aer_fatal": 0}


def write(
    run: FakeRun,
    *others: HealthRecord,
    gpus: int,
    hears: Watch = HEARS_ALL,
    counters: dict[str, int] = COUNTED,
    at_first: dict[str, int] = WELL,
    everywhere: dict[str, int] = WELL,
    **changes: int,
) -> None:
    """Looks at so many GPUs at the beginning and at the end of a run; `changes` at the last look at GPU 1.

    at_first: what GPU 1 shows before that. everywhere: what the others show. counters: of the machine. hears: who
    looks.
    """
    run.paths.telemetry.mkdir(exist_ok=True)
    file = FrameFile(run.paths.health)
    file.append(codec.encode(hears))
    for record in others:
        file.append(codec.encode(record))
    for at_ns in (1_000 * SECOND_NS, run.now_ns):
        for number, device in enumerate(run.stored.devices[:gpus]):
            shown = at_first | (changes if at_ns == run.now_ns else {}) if number == 1 else everywhere
            file.append(codec.encode(Vitals(at_ns=at_ns, uuid=device.uuid, values=shown)))
        refusals = {} if counters else {"aer_fatal": "the kernel does not count them"}
        file.append(codec.encode(NodeVitals(at_ns=at_ns, values=counters, refusals=refusals)))
    file.close()


def finished(folder: Path, count: int = 2, *, name: str = "NVIDIA H200", broken: bool = False) -> FakeRun:
    """A complete run on some GPUs, with samples of all of them. broken: gpubench failed in the end."""
    run = FakeRun(folder, devices=gpus(count, name=name), watched=False)
    run.everything()
    for number in range(count):
        run.samples(number)
    run.finish(interrupted=broken, reason="no room" if broken else "", broken=broken)
    return run


def test_a_sound_node_passes(tmp_path: Path) -> None:
    """All that could be read is well: PASS for each GPU and for the machine, with the number of signals read."""
    run = finished(tmp_path)
    write(run, gpus=2)
    report = run.report()
    assert report.health.verdict is HealthVerdict.PASS
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.PASS]
    assert report.verdict.exit_code == 0
    assert "GPU 0: PASS (19 of 19 applicable signals were read)" in to_text(report)


def test_a_fault_is_exit_code_3(tmp_path: Path) -> None:
    """Every cell has its result, and the run still ends with 3, the GPU named and what to do with it."""
    run = finished(tmp_path)
    write(run, gpus=2, rows_failed=1)
    report = run.report()
    assert (report.verdict.exit_code, report.verdict.word) == (3, "hardware fault")
    assert report.verdict.reasons[0] == (
        "GPU 1: memory rows that could not be remapped: remapping has failed (take it out of service)"
    )
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.FAIL]
    assert "FAIL: memory rows that could not be remapped" in to_text(report)


def test_a_launch_that_the_hardware_ended_is_exit_code_3(tmp_path: Path) -> None:
    """CUDA error 214 in a worker is the word of the hardware, also where NVML's counters and Xids say nothing."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    words = "CUDA error: uncorrectable ECC error encountered"
    run.failed(run.cell(batch_size=1, device=1), Category.DEVICE_HARDWARE, message=words, code=214)
    run.failed(run.cell(batch_size=1, device=0), Category.CUDA_STICKY, code=700)
    run.measured(run.cell(batch_size=1, device=0))
    for number in range(2):
        run.samples(number)
    run.finish()
    write(run, gpus=2)
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.FAIL]
    assert report.verdict.exit_code == 3
    assert report.verdict.reasons[0] == (
        "GPU 1: launches that the hardware ended: device hardware error: CUDA error: uncorrectable ECC error "
        "encountered (code 214) (reset the GPU)"
    )


def test_gpubench_that_failed_comes_before_hardware_that_did(tmp_path: Path) -> None:
    """Exit code 5, with the fault of the hardware among its reasons."""
    run = finished(tmp_path, broken=True)
    write(run, gpus=2, rows_failed=1)
    report = run.report()
    assert report.health.verdict is HealthVerdict.FAIL
    assert report.verdict.exit_code == 5
    assert "remapping has failed" in report.verdict.reasons[0]


@pytest.mark.parametrize("name", ["NVIDIA H800", "NVIDIA H200"])
def test_a_gpu_without_links_is_held_against_its_siblings(tmp_path: Path, name: str) -> None:
    """All its links are down from the start, the other's are up: FAIL, whether the table knows the board or not."""
    run = finished(tmp_path, name=name)
    write(run, gpus=2, at_first=WELL | {"nvlinks_up": 0})
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.FAIL]
    assert report.verdict.exit_code == 3
    assert report.verdict.reasons[0] == "GPU 1: NVLinks up: 0 of 18 (reset the GPU)"


def test_links_of_a_board_that_nobody_knows_are_not_applicable(tmp_path: Path) -> None:
    """Neither the table nor a sibling says that there should be any."""
    run = finished(tmp_path, name="NVIDIA H800")
    sibling = Vitals(at_ns=0, uuid=run.stored.devices[0].uuid, values={})
    write(run, sibling, gpus=0)
    links = [signal for device in run.report().health.gpus for signal in device.signals if signal.name == "nvlinks"]
    assert [signal.state for signal in links] == [State.NOT_APPLICABLE] * 2


def test_a_machine_whose_counters_nobody_could_read_is_unknown(tmp_path: Path) -> None:
    """As in many virtual machines: no PASS, with the reason; the GPUs pass, and a benchmark still ends with 0."""
    run = finished(tmp_path)
    write(run, gpus=2, counters={})
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.PASS]
    assert (report.health.node.verdict, report.verdict.exit_code) == (HealthVerdict.UNKNOWN, 0)
    assert (
        "The machine: UNKNOWN (2 of 7 applicable signals were read)\n    unread: the kernel does not count"
        in to_text(report)
    )


def test_a_source_of_xids_that_was_deaf_stands_in_the_report(tmp_path: Path) -> None:
    """NVML's events failed for GPU 1, the kernel's log was read: it passes, and the report says by which of them."""
    run = finished(tmp_path)
    write(run, gpus=2, hears=msgspec.structs.replace(HEARS_ALL, deaf={run.stored.devices[1].uuid: "no permission"}))
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.PASS]
    said = [signal.message for device in report.health.gpus for signal in device.signals if signal.name == "xid"]
    assert said == ["", "NVML's events not heard (no permission), the kernel's log heard"]
    assert to_text(report).count("not heard") == 1


def test_a_warning_leaves_the_exit_code(tmp_path: Path) -> None:
    """A warning is a remark beside a run that passed."""
    run = finished(tmp_path)
    write(run, gpus=2, ecc_corrected=99)
    report = run.report()
    assert report.health.verdict is HealthVerdict.WARN
    assert report.verdict.exit_code == 0
    assert any("memory errors, corrected: 99 in this run" in reason for reason in report.verdict.reasons)


def test_an_xid_stands_in_the_report_with_its_time(tmp_path: Path) -> None:
    """Number, meaning and moment of the day; the GPU fails, the other one does not."""
    run = finished(tmp_path)
    uuid = run.stored.devices[1].uuid
    write(run, XidSeen(uuid=uuid, xid=79, at_ns=1_000 * SECOND_NS + 5 * SECOND_NS), gpus=2)
    report = run.report()
    assert [(xid.xid, xid.meaning) for xid in report.health.gpus[1].xids] == [(79, "reboot the machine")]
    assert report.health.gpus[1].xids[0].at.startswith("2024-01-15T10:30:0")
    assert report.verdict.exit_code == 3
    assert report.health.gpus[0].verdict is HealthVerdict.PASS


def test_without_readings_health_is_unknown_and_the_run_incomplete(tmp_path: Path) -> None:
    """Every cell has its result, and nobody knows whether the GPUs are sound: exit code 4, with the reason for each."""
    report = finished(tmp_path).report()
    assert report.health.verdict is HealthVerdict.UNKNOWN
    assert (report.verdict.exit_code, report.summary.cells.missing) == (4, 0)
    why = "its health is unknown: nothing was read: NVML could not be used, or telemetry was off"
    assert report.verdict.reasons == (f"GPU 0: {why}", f"GPU 1: {why}")
    assert "GPU 0: UNKNOWN" in to_text(report)
    assert "nothing was read" in to_text(report)


@pytest.mark.parametrize("unread", ["gpu_margin_c", "xid", "clocks"])
def test_a_benchmark_requires_what_every_board_tells(tmp_path: Path, unread: str) -> None:
    """Two of nineteen signals are no PASS: temperature, errors and clocks have to be read on any board."""
    run = FakeRun(tmp_path, devices=gpus(1), watched=False)
    run.everything()
    if unread != "clocks":
        run.samples()
    run.finish()
    deaf = Watch(at_ns=SECOND_NS, boot_id=BOOT, deaf={run.stored.devices[0].uuid: "no permission"})
    values = {name: value for name, value in WELL.items() if name != unread}
    write(run, gpus=1, hears=deaf if unread == "xid" else HEARS_ALL, everywhere=values)
    report = run.report()
    lacking = {"gpu_margin_c": "gpu_temperature", "xid": "xid", "clocks": "slowdown"}[unread]
    assert (report.health.gpus[0].verdict, report.health.gpus[0].lacking) == (HealthVerdict.UNKNOWN, (lacking,))
    assert report.verdict.exit_code == 4
    assert f"GPU 0: its health is unknown: required and unread: {lacking}" in report.verdict.reasons


def test_a_gpu_that_others_work_tells_to_be_at_fault_does_not_pass(tmp_path: Path) -> None:
    """One cell hung on GPU 1 and was measured on GPU 0: WARN, whatever its counters say; GPU 0 passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,), watched=False)
    run.failed(run.cell(device=1), Category.DEADLINE)
    run.measured(run.cell(device=0))
    for number in range(2):
        run.samples(number)
    run.finish()
    write(run, gpus=2)
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.PASS, HealthVerdict.WARN]
    assert "1 failed by what may be its fault, as other work tells (deadline exceeded)" in " ".join(
        to_text(report).split()
    )


def test_readings_that_break_off_are_unknown(tmp_path: Path) -> None:
    """The telemetry process hung or died long before the end: what it saw until then is no PASS."""
    run = finished(tmp_path)
    write(run, gpus=2)
    run = FakeRun(tmp_path / "longer", devices=gpus(1), watched=False)
    write(run, gpus=1)
    run.measured(run.cell(batch_size=1), forward_ms=100.0)
    report = run.report()
    assert report.health.gpus[0].verdict is HealthVerdict.UNKNOWN
    assert "the readings broke off" in report.health.gpus[0].note


def test_a_gap_in_the_middle_is_unknown(tmp_path: Path) -> None:
    """One look before all work and one after it, as of a process that was stopped in between: no PASS."""
    run = FakeRun(tmp_path, devices=gpus(1), watched=False)
    run.everything(forward_ms=100.0)
    run.samples()
    run.finish()
    assert run.now_ns > 1_040 * SECOND_NS
    write(run, gpus=1)
    device = run.report().health.gpus[0]
    assert device.verdict is HealthVerdict.UNKNOWN
    assert "the readings broke off for" in device.note


def test_telemetry_that_is_known_to_have_ended_is_forgiven_nothing(tmp_path: Path) -> None:
    """Work of a moment after its end makes that GPU UNKNOWN; the one whose work was done by then passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    for number in (1, 0):
        run.samples(number)
        run.measured(run.cell(batch_size=1, device=number))
        if number == 1:
            write(run, gpus=2)
            run.telemetry_ended()
    run.finish()
    report = run.report()
    assert [device.verdict for device in report.health.gpus] == [HealthVerdict.UNKNOWN, HealthVerdict.PASS]
    assert report.health.gpus[0].note.endswith("telemetry ended too early")
    assert report.health.node.verdict is HealthVerdict.UNKNOWN


def test_a_gpu_without_work_of_its_own_is_judged_over_all_work(tmp_path: Path) -> None:
    """Nothing was launched on GPU 1, and telemetry ended before the work on GPU 0 did: neither passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    for number in range(2):
        run.samples(number)
    write(run, gpus=2)
    run.telemetry_ended()
    run.measured(run.cell(batch_size=1, device=0))
    assert [device.verdict for device in run.report().health.gpus] == [HealthVerdict.UNKNOWN, HealthVerdict.UNKNOWN]


def test_a_launch_on_several_gpus_is_work_of_each(tmp_path: Path) -> None:
    """Telemetry ended before it did: that is a gap for all of them, not for the GPU that leads alone."""
    night = Night(tmp_path, gpus(2))
    cells = night.stored.plan.cells
    for device in night.stored.devices:
        night.measured(next(cell for cell in cells if cell.devices == (device.uuid,)))
    night.well()
    night.telemetry_ended()
    night.measured(next(cell for cell in cells if len(cell.devices) == 2))
    assert all(gpu.note.endswith("telemetry ended too early") for gpu in night.report().health.gpus)


def test_cpu_devices_have_no_health(tmp_path: Path) -> None:
    """Nothing of NVML applies to them: no verdict, no chapter, and the exit code is that of the measurements."""
    run = FakeRun(tmp_path, devices=cpus(2))
    run.everything()
    run.finish()
    report = run.report()
    assert {device.verdict for device in report.health.gpus} == {HealthVerdict.NOT_APPLICABLE}
    assert report.health.node.verdict is HealthVerdict.NOT_APPLICABLE
    assert report.verdict.exit_code == 0
    assert "Health of the Hardware" not in to_text(report)


def test_a_reboot_is_a_finding_about_the_machine(tmp_path: Path) -> None:
    """A run that was resumed on another boot says that the machine was started anew."""
    run = FakeRun(tmp_path, devices=cpus(1))
    run.segment(boot_id="another", now_ns=SECOND_NS)
    run.everything()
    run.finish()
    report = run.report()
    assert report.health.node.verdict is HealthVerdict.WARN
    assert "started anew in the middle of the run" in to_text(report)


def test_gpus_that_are_configured_differently_are_named(tmp_path: Path) -> None:
    """One of four GPUs with a lower power limit: the machine's verdict says which, and what the others have."""
    odd = msgspec.structs.replace(gpus(3)[2], power_limit_w=500.0)
    run = FakeRun(tmp_path, devices=(*gpus(2), odd, gpus(4)[3]))
    report = run.report()
    siblings = next(signal for signal in report.health.node.signals if signal.name == "siblings")
    assert siblings.message == "GPU 2: power limit in W 500.0, others 700.0"
