"""From health records to the report: its verdicts and exit code."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.exit_code import CauseKind
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import State
from orchestrator.gpu.health.records import UNSUPPORTED, HealthRecord, NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.history import entry
from orchestrator.report.as_text import to_text
from protocol import codec
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.health import LINKS, UNLINKED, WELL
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
    refusals: dict[str, str] | None = None,
    **changes: int,
) -> None:
    """Looks at GPUs at the start and the end of a run; `changes` are those of GPU 1 at the end.

    at_first: values of GPU 1 before that. everywhere, refusals: of the others. counters: of the machine. hears: first
    record.
    """
    run.paths.telemetry.mkdir(exist_ok=True)
    file = FrameFile(run.paths.health)
    file.append(codec.encode(hears))
    for record in others:
        file.append(codec.encode(record))
    for at_ns in (1_000 * SECOND_NS, run.now_ns):
        for number, device in enumerate(run.stored.devices[:gpus]):
            shown = at_first | (changes if at_ns == run.now_ns else {}) if number == 1 else everywhere
            refused = (refusals or {}) if number != 1 else {}
            file.append(codec.encode(Vitals(at_ns=at_ns, uuid=device.uuid, values=shown, refusals=refused)))
        uncounted = {} if counters else {"aer_fatal": "the kernel does not count them"}
        file.append(codec.encode(NodeVitals(at_ns=at_ns, values=counters, refusals=uncounted)))
    file.close()


def finished(folder: Path, count: int = 2, *, name: str = "NVIDIA H200", broken: bool = False) -> FakeRun:
    """A complete run on some GPUs, with samples of all of them. broken: gpubench failed in the end."""
    run = FakeRun(folder, devices=gpus(count, name=name), watched=False)
    run.everything()
    for number in range(count):
        run.samples(number)
    run.finish(interrupted=broken, reason="no room" if broken else "", broken=broken)
    return run


def verdicts(report: Report) -> list[HealthVerdict]:
    """Those of the GPUs."""
    return [device.verdict for device in report.health.gpus]


@pytest.mark.parametrize(("broken", "exit_code"), [(False, 3), (True, 5)])
def test_a_fault_is_exit_code_3(tmp_path: Path, broken: bool, exit_code: int) -> None:
    """Though every cell has its result, with the GPU and its fault. An error of gpubench itself is code 5."""
    run = finished(tmp_path, broken=broken)
    write(run, gpus=2, rows_failed=1)
    report = run.report()
    assert report.verdict.exit_code == exit_code
    kinds = [cause.kind for cause in report.verdict.causes]
    assert kinds == [*([CauseKind.BROKEN] if broken else []), CauseKind.FAULT]
    assert report.verdict.causes[-1].text.startswith("GPU 1: ")
    assert "remapping" in report.verdict.causes[-1].text
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.FAIL]


def test_a_launch_that_the_hardware_ended_is_exit_code_3(tmp_path: Path) -> None:
    """CUDA error 214 in a worker is a fault of the hardware, also without a counter or an Xid."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    words = "CUDA error: ECC"
    run.failed(run.cell(batch_size=1, device=1), Category.DEVICE_HARDWARE, message=words, code=214)
    run.failed(run.cell(batch_size=1, device=0), Category.CUDA_STICKY, code=700)
    run.measured(run.cell(batch_size=1, device=0))
    for number in range(2):
        run.samples(number)
    run.finish()
    write(run, gpus=2)
    report = run.report()
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.FAIL]
    assert report.verdict.exit_code == 3
    assert report.verdict.reasons[0].startswith("GPU 1: ")
    assert f"{words} (code 214)" in report.verdict.reasons[0]


@pytest.mark.parametrize("name", ["NVIDIA H800", "NVIDIA H200"])
def test_links_are_compared_with_those_of_siblings(tmp_path: Path, name: str) -> None:
    """A GPU whose links are down from the start fails, whether the table has the board or not."""
    run = finished(tmp_path, name=name)
    write(run, gpus=2, at_first=WELL | {"nvlinks_up": 0})
    report = run.report()
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.FAIL]
    assert report.verdict.exit_code == 3
    assert "0 of 18" in report.verdict.reasons[0]


def test_links_of_an_unknown_board_are_not_applicable(tmp_path: Path) -> None:
    """Neither the table nor a sibling has any."""
    run = finished(tmp_path, name="NVIDIA H800")
    sibling = Vitals(at_ns=0, uuid=run.stored.devices[0].uuid, values={})
    write(run, sibling, gpus=0)
    links = [signal for device in run.report().health.gpus for signal in device.signals if signal.name == "nvlinks"]
    assert [signal.state for signal in links] == [State.NOT_APPLICABLE] * 2


@pytest.mark.parametrize(
    ("values", "refusals", "expected"),
    [
        (UNLINKED, dict.fromkeys(LINKS, UNSUPPORTED), HealthVerdict.PASS),
        (WELL | {"nvlinks_up": 0, "fabric_state": 1, "peers": 0}, {}, HealthVerdict.PASS),
        (WELL | {"nvlinks_up": 0, "peers": 7}, {}, HealthVerdict.WARN),
        (WELL | {"nvlinks_up": 17, "peers": 0}, {}, HealthVerdict.FAIL),
        (UNLINKED | {"peers": 7}, dict.fromkeys(LINKS, "NVML error 10"), HealthVerdict.UNKNOWN),
    ],
)
def test_links_of_the_only_gpu_of_a_machine(
    tmp_path: Path, values: dict[str, int], refusals: dict[str, str], expected: HealthVerdict
) -> None:
    """Links of a GPU without a peer do not exist: a burn-in passes. Other links are compared, refused ones unread."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(1), "10m")
    burn_in_run.work()
    burn_in_run.climate(0)
    burn_in_run.well(values, refusals, node={})
    burn_in_run.finish()
    report = burn_in_run.report()
    assert (report.health.gpus[0].verdict, report.health.node.verdict) == (expected, HealthVerdict.NOT_APPLICABLE)
    assert report.burn_in is not None
    assert report.burn_in.gpus[0].verdict is expected
    signals = [one.text for one in report.health.gpus[0].signals if one.state in {State.WARN, State.FAIL}]
    reason = "; ".join(one.text for one in report.burn_in.gpus[0].reasons if one.verdict is expected)
    assert all(text in reason for text in signals)
    assert entry.of_report(report, tmp_path, tainted=False).devices[0].health_words == "; ".join(signals)
    assert bool(signals) is (expected in {HealthVerdict.WARN, HealthVerdict.FAIL})
    codes = {HealthVerdict.PASS: 0, HealthVerdict.WARN: 0, HealthVerdict.FAIL: 3, HealthVerdict.UNKNOWN: 4}
    assert report.verdict.exit_code == codes[expected]


@pytest.mark.parametrize(("memory_bytes", "expected"), [(0, HealthVerdict.WARN), (10 * 2**30, HealthVerdict.PASS)])
def test_only_boards_of_the_same_memory_are_compared(
    tmp_path: Path, memory_bytes: int, expected: HealthVerdict
) -> None:
    """GPU 0 lacks what GPU 1 has, which is a finding where both are the same board."""
    first, second = gpus(2)
    other = msgspec.structs.replace(second, memory_total_bytes=(second.memory_total_bytes or 0) - memory_bytes)
    run = FakeRun(tmp_path, devices=(first, other), watched=False)
    run.everything()
    for number in range(2):
        run.samples(number)
    run.finish()
    values = {name: value for name, value in WELL.items() if name != "ecc_corrected"}
    lacks = Vitals(at_ns=SECOND_NS, uuid=first.uuid, values=values, refusals={"ecc_corrected": UNSUPPORTED})
    write(run, lacks, gpus=2, everywhere=values, refusals=lacks.refusals)
    report = run.report()
    assert report.health.gpus[0].verdict is expected
    assert report.verdict.exit_code == 0


def test_a_machine_without_counters_is_unknown(tmp_path: Path) -> None:
    """As in many virtual machines, with the reason; the GPUs pass, and a benchmark still ends with 0."""
    run = finished(tmp_path)
    write(run, gpus=2, counters={})
    report = run.report()
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.PASS]
    assert (report.health.node.verdict, report.verdict.exit_code) == (HealthVerdict.UNKNOWN, 0)
    assert re.search(r"machine: UNKNOWN \(2 of 7 .*the kernel does", to_text(report), re.DOTALL)


def test_the_report_has_the_source_of_xids_that_was_not_heard(tmp_path: Path) -> None:
    """GPU 1 passes by the kernel's log, where NVML's events failed."""
    run = finished(tmp_path)
    write(run, gpus=2, hears=msgspec.structs.replace(HEARS_ALL, deaf={run.stored.devices[1].uuid: "no permission"}))
    report = run.report()
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.PASS]
    said = [signal.message for device in report.health.gpus for signal in device.signals if signal.name == "xid"]
    assert said[0] == ""
    assert "no permission" in said[1]
    assert to_text(report).count("not heard") == 1


def test_a_warning_leaves_the_exit_code(tmp_path: Path) -> None:
    """A warning is a remark on a run that passed."""
    run = finished(tmp_path)
    write(run, gpus=2, ecc_corrected=99)
    report = run.report()
    assert report.health.verdict is HealthVerdict.WARN
    assert report.verdict.exit_code == 0
    assert any("memory errors, corrected: 99 " in reason for reason in report.verdict.reasons)


def test_without_readings_health_is_unknown_and_the_run_incomplete(tmp_path: Path) -> None:
    """Exit code 4 though every cell has its result, with a reason for each GPU."""
    report = finished(tmp_path).report()
    assert report.health.verdict is HealthVerdict.UNKNOWN
    assert (report.verdict.exit_code, report.summary.cells.missing) == (4, 0)
    assert [reason.partition(":")[0] for reason in report.verdict.reasons] == ["GPU 0", "GPU 1"]
    assert all("no readings" in reason for reason in report.verdict.reasons)
    assert "GPU 0: UNKNOWN" in to_text(report)


@pytest.mark.parametrize("unread", ["gpu_margin_c", "xid", "clocks"])
def test_a_benchmark_requires_the_signals_of_every_board(tmp_path: Path, unread: str) -> None:
    """Temperature, errors and clocks must be read on any board."""
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
    assert any(reason.startswith("GPU 0: ") and reason.endswith(lacking) for reason in report.verdict.reasons)


def test_a_gpu_whose_failed_work_passes_elsewhere_does_not_pass(tmp_path: Path) -> None:
    """A cell hung on GPU 1 and was measured on GPU 0: WARN, whatever its counters show; GPU 0 passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,), watched=False)
    run.failed(run.cell(device=1), Category.DEADLINE)
    run.measured(run.cell(device=0))
    for number in range(2):
        run.samples(number)
    run.finish()
    write(run, gpus=2)
    report = run.report()
    assert verdicts(report) == [HealthVerdict.PASS, HealthVerdict.WARN]
    assert "(deadline exceeded)" in to_text(report)


def test_a_gap_in_the_middle_is_unknown(tmp_path: Path) -> None:
    """One look before all work and one after it, as of a process that was stopped meanwhile, are no PASS."""
    run = FakeRun(tmp_path, devices=gpus(1), watched=False)
    run.everything(forward_ms=100.0)
    run.samples()
    run.finish()
    assert run.now_ns > 1_040 * SECOND_NS
    write(run, gpus=1)
    device = run.report().health.gpus[0]
    assert device.verdict is HealthVerdict.UNKNOWN
    assert "no readings for" in device.note


def test_work_after_the_end_of_telemetry_is_unwatched(tmp_path: Path) -> None:
    """A moment of it makes that GPU UNKNOWN; the one whose work was done by then passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    for number in (1, 0):
        run.samples(number)
        run.measured(run.cell(batch_size=1, device=number))
        if number == 1:
            write(run, gpus=2)
            run.telemetry_ended()
    run.finish()
    report = run.report()
    assert verdicts(report) == [HealthVerdict.UNKNOWN, HealthVerdict.PASS]
    assert report.health.gpus[0].note.endswith("too early")
    assert report.health.node.verdict is HealthVerdict.UNKNOWN


def test_a_gpu_without_work_of_its_own_is_judged_over_all_work(tmp_path: Path) -> None:
    """Nothing was launched on GPU 1, and telemetry ended before the work on GPU 0 did: neither passes."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    for number in range(2):
        run.samples(number)
    write(run, gpus=2)
    run.telemetry_ended()
    run.measured(run.cell(batch_size=1, device=0))
    assert verdicts(run.report()) == [HealthVerdict.UNKNOWN, HealthVerdict.UNKNOWN]


def test_a_launch_on_several_gpus_is_work_of_each(tmp_path: Path) -> None:
    """Its time without telemetry is a gap for all of them, not only for the leading GPU."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(2))
    cells = burn_in_run.stored.plan.cells
    for device in burn_in_run.stored.devices:
        burn_in_run.measured(next(cell for cell in cells if cell.devices == (device.uuid,)))
    burn_in_run.well()
    burn_in_run.telemetry_ended()
    burn_in_run.measured(next(cell for cell in cells if len(cell.devices) == 2))
    assert all(gpu.note.endswith("too early") for gpu in burn_in_run.report().health.gpus)


def test_a_reboot_is_a_finding_about_the_machine(tmp_path: Path) -> None:
    """Of a run that was resumed on another boot."""
    run = FakeRun(tmp_path, devices=cpus(1))
    run.segment(boot_id="another", now_ns=SECOND_NS)
    run.everything()
    run.finish()
    report = run.report()
    assert report.health.node.verdict is HealthVerdict.WARN
    assert [signal.name for signal in report.health.node.signals if signal.state is State.WARN] == ["reboot"]


def test_gpus_that_are_configured_differently_are_a_finding(tmp_path: Path) -> None:
    """With the GPU that has a lower power limit, and the limit of the others."""
    odd = msgspec.structs.replace(gpus(3)[2], power_limit_w=500.0)
    run = FakeRun(tmp_path, devices=(*gpus(2), odd, gpus(4)[3]))
    report = run.report()
    siblings = next(signal for signal in report.health.node.signals if signal.name == "siblings")
    assert re.match(r"GPU 2: .*500.0.*700.0", siblings.message)
