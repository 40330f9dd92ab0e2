"""history/entry.py and wording.py: what is kept of a report, and who is told of again."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis.sibling_cells import UNSTEADY
from orchestrator.figures.report import Report
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.history import entry, wording
from orchestrator.history.records import Offence
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.report.as_text import to_text
from protocol.cell import Device, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.burn_ins import FakeBurnIn, sound
from tests.fakes.findings import mismatch
from tests.fakes.runs import FakeRun, cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """A run of two GPUs: one cell measured by three launches, one that failed, on each."""
    run = FakeRun(tmp_path, devices=gpus(2), launches=3)
    for device in (0, 1):
        for number in range(3):
            run.measured(run.cell(batch_size=1, device=device), number=number, forward_ms=10.0 + number)
            run.failed(run.cell(batch_size=8, device=device), Category.EXCEPTION, number=number)
    return run.ended()


def test_everything_that_trends_are_made_of_is_kept(tmp_path: Path, report: Report) -> None:
    """The run and its stack, each device, each cell with its launches and all its figures, failed ones too."""
    made = entry.of_report(report, tmp_path, tainted=False)
    assert (made.run.run_id, made.run.test_date) == (report.metadata.run_id, report.metadata.test_date)
    assert (made.run.verdict, made.run.exit_code) == (report.verdict.word, report.verdict.exit_code)
    assert (made.run.planned, made.run.ok, made.run.devices) == (4, 2, ("2 x NVIDIA H200",))
    assert made.run.stack["driver"] == "580.95.05"
    assert [one.device.gpu_uuid for one in made.devices] == [device.uuid for device in gpus(2)]
    assert [one.health for one in made.devices] == [one.verdict for one in report.health.gpus]
    measured = [cell for cell in made.cells if cell.launches]
    metric = report.results[0].inference_metrics["batch_size_1"]
    assert [cell.gpu_uuid for cell in measured] == [device.uuid for device in gpus(2)]
    assert (measured[0].launches, len(measured[0].launches)) == (metric.launch_values, 3)
    assert measured[0].figures["throughput_samples_per_sec"] == metric.throughput_samples_per_sec
    assert measured[0].figures["peak_memory_mb"] == metric.peak_memory_mb
    failed = [cell for cell in made.cells if not cell.launches]
    assert [(cell.status, cell.doubt, cell.key.batch_size) for cell in failed] == [
        ("failed", "without a result (failed)", 8)
    ] * 2


@pytest.mark.parametrize(
    ("devices", "watched", "steady", "doubt"),
    [
        (gpus(1), True, True, ""),
        (gpus(1), False, True, "throttling unknown"),
        (gpus(1), False, False, UNSTEADY),
        (cpus(1), False, True, ""),
    ],
)
def test_what_nobody_watched_is_no_sound_point(
    tmp_path: Path, devices: tuple[Device, ...], *, watched: bool, steady: bool, doubt: str
) -> None:
    """A GPU without telemetry may have been throttled; a CPU device never has any."""
    run = FakeRun(tmp_path, devices=devices, batch_sizes=(1,))
    steady_state = SteadyState.REACHED if steady else SteadyState.NONE
    run.measured(run.cell(batch_size=1), blocks=20, steady_state=steady_state)
    if watched:
        run.samples()
    [kept] = entry.of_report(run.ended(), tmp_path, tainted=False).cells
    assert (bool(kept.doubt), len(kept.launches)) == (bool(doubt), 1)
    assert kept.doubt.endswith(doubt)


def test_a_name_that_is_no_text_can_be_kept(report: Report) -> None:
    """A folder's name is bytes; what cannot be written as text is replaced."""
    made = entry.of_report(report, Path("/runs/caf\udce9"), tainted=False)
    assert made.run.folder == "/runs/caf�"


def test_why_a_burn_in_failed_is_kept(tmp_path: Path) -> None:
    """Of the GPU that failed alone; the run is marked where its faults were injected."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(4), "10m")
    wrong = mismatch(at_ns=burn_in_run.now_ns, beyond_rounding=True)
    found = msgspec.structs.replace(sound(burn_in_run.first(Workload.SOAK)), mismatches=3, kept=(wrong,))
    burn_in_run.work(verified={(2, Workload.SOAK, 0): found})
    burn_in_run.well()
    made = entry.of_report(burn_in_run.ended(), tmp_path, tainted=True)
    assert made.run.tainted
    assert made.run.burn_in == "FAIL"
    [failed] = [one for one in made.devices if one.burn_in == "FAIL"]
    assert failed.device.label == "GPU 2"
    assert "wrong" in failed.burn_in_words
    others = [one.burn_in_words for one in made.devices if one.burn_in == "UNKNOWN"]
    assert [bool(re.search(r"checks: soak [1-9][0-9,]*, .*; 0 wrong$", words)) for words in others] == [True] * 3
    assert made.run.profile == "burn-in quick"


def offence(day: int = 1, **changes: object) -> Offence:
    """That the first GPU failed on a day of April."""
    made = Offence(
        run_id=f"run-{day}",
        test_date=f"2026-04-{day:02}T21:30:00Z",
        gpu_uuid=gpus(1)[0].uuid,
        health="PASS",
        health_words="",
        burn_in="FAIL",
        burn_in_words="wrong bits",
    )
    return msgspec.structs.replace(made, **changes)


WARNED = offence(day=3, health=HealthVerdict.WARN, health_words="hot", burn_in="PASS", burn_in_words="")
BOTH = offence(health="FAIL", health_words="rows failed", burn_in="WARN", burn_in_words="slow")


@pytest.mark.parametrize(
    ("offences", "told"),
    [
        ([offence()], r"FAIL .*burn-in .*2026-04-01 \(run run-1\): wrong bits"),
        ([WARNED], r"WARN .*health .*2026-04-03 \(run run-3\): hot"),
        # the newest of the gravest, and how many there are
        (
            [offence(day=1), offence(day=2), WARNED],
            r"FAIL .*burn-in .*2026-04-02 \(run run-2\): wrong bits.*3 runs .*",
        ),
        # the verdict and its reason belong together
        ([BOTH], r"FAIL .*health .*2026-04-01 \(run run-1\): rows failed"),
        (
            [offence(burn_in_words="x" * 1000)],
            rf"FAIL .*burn-in .*2026-04-01 \(run run-1\): {'x' * wording.LONGEST}…",
        ),
    ],
)
def test_who_failed_before_is_named_and_who_did_not_is_not(offences: list[Offence], told: str) -> None:
    """With the verdict, the day, the run and the reason, which is cut."""
    [(gpu, words)] = wording.earlier_findings(gpus(3), offences).items()
    assert gpu == gpus(1)[0].uuid
    assert re.fullmatch(told, words)


def test_the_report_says_it_again(tmp_path: Path) -> None:
    """Beside the health of that GPU, and in a burn-in beside its verdict."""
    run, burn_in_run = FakeRun(tmp_path / "run", devices=gpus(2)), FakeBurnIn(tmp_path / "burn-in", gpus(2), "10m")
    for one in (run, burn_in_run):
        earlier = {gpus(2)[1].uuid: "FAIL in a burn-in on 2026-04-01"}
        one.store(msgspec.structs.replace(one.stored, earlier=earlier))
    made = run.ended()
    assert [one.earlier for one in made.health.gpus] == ["", *earlier.values()]
    assert f"  earlier: {earlier[gpus(2)[1].uuid]}" in to_text(made).splitlines()
    assert f"earlier: GPU 1: {earlier[gpus(2)[1].uuid]}" in to_text(burn_in_run.ended(), BURN_IN.layout).splitlines()
