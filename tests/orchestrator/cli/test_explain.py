"""`explain` and the root cause: kinds of failure in words, and what went wrong in a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.cells import cell_len

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.quality import Quality
from orchestrator.report import text, write
from orchestrator.report.chapters.failures import failures
from orchestrator.state.failure_policy import POLICY
from orchestrator.state.fault_placement import in_a_row
from protocol.cell import Device
from protocol.failure import Category, Phase
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

Invoke = Callable[..., Result]


def failure_lines(run: FakeRun) -> list[str]:
    """Return the lines of the chapter about failures, without their indentation."""
    return [line.strip() for line in text.lines(failures(run.report()))]


@pytest.mark.parametrize("words", ["out of memory", "OUT_OF_MEMORY", "out-of-memory", "Out of Memory"])
def test_a_kind_is_found_by_its_words_and_by_its_name(invoke: Invoke, words: str) -> None:
    """However it is written, with quotes or without."""
    assert invoke("explain", *words.split()).output == invoke("explain", words).output
    assert invoke("explain", words).output.startswith("out of memory\n")


@pytest.mark.parametrize("word", [Quality.UNSETTLED, Quality.HOST_BOUND, Quality.NOISY])
def test_a_status_of_results_leads_to_its_page(invoke: Invoke, word: Quality) -> None:
    """It is no kind of failure, and no guess at one is made."""
    explained = invoke("explain", word)
    assert (explained.exit_code, "docs/reports.md" in explained.output) == (0, True)


Event = Callable[[FakeRun], object]


def fails(category: Category, device: int = 0, *, phase: Phase = Phase.WARM_UP, **cell: Any) -> Event:
    """A launch of a cell fails."""
    return lambda run: run.failed(run.cell(device=device, **cell), category, phase=phase)


def works(device: int = 0, **cell: Any) -> Event:
    """A launch of a cell has a result."""
    return lambda run: run.measured(run.cell(device=device, **cell))


@pytest.mark.parametrize(
    ("events", "badge", "words"),
    [
        # A lost GPU explains more than the exception before it.
        ([fails(Category.EXCEPTION), fails(Category.DEVICE_LOST, 1)], "root cause", "GPU 1"),
        # The same failure on both GPUs has one cause.
        ([fails(Category.EXCEPTION), fails(Category.EXCEPTION, 1)], "root cause", "GPU 0"),
        # The retry of the first failure succeeded; the second failure does not explain the first.
        ([fails(Category.KILLED), works(), fails(Category.DEADLINE, batch_size=8)], "cell failed", "at batch size 8"),
    ],
)
def test_the_gravest_failure_is_first(tmp_path: Path, events: list[Event], badge: str, words: str) -> None:
    """It is called the root cause only if it explains the others."""
    run = FakeRun(tmp_path, devices=gpus(2))
    for event in events:
        event(run)
    first = failures(run.report()).findings[0]
    assert (first.badge.text, words in first.title) == (badge, True)


def test_a_run_that_was_only_stopped_has_no_root_cause(tmp_path: Path) -> None:
    """A person stopped it, or killed the orchestrator: nothing is at fault."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(batch_size=1), Category.STOPPED)
    run.interrupted(run.cell(batch_size=8))
    assert not any(line.startswith("Root cause") for line in failure_lines(run))


def test_an_interrupted_run_begins_with_what_is_missing_and_how_to_continue(invoke: Invoke, tmp_path: Path) -> None:
    """A run that ended well has no such lines."""
    run = FakeRun(tmp_path / "run")
    run.measured(run.cell(batch_size=1))
    run.finish(interrupted=True, reason="stopped on request")
    first, why, missing, step, *_ = invoke("explain", str(run.paths.folder)).output.splitlines()
    assert "interrupted" in first
    assert ("stopped on request" in why, "1 of 2 cells" in missing) == (True, True)
    assert f"resume {run.stored.run_id}" in step
    whole = FakeRun(tmp_path / "whole")
    whole.everything()
    whole.finish()
    assert "resume" not in invoke("explain", str(whole.paths.folder)).output


EVIDENCE = {
    "exit": "killed by SIGSEGV",
    "progress": "measure, 40% done",
    "device_free_bytes": str(3 * 2**30),
    "available_bytes": "unreadable",
    "stderr": "first\nlast words \x1b[31m" + "x" * 200,
    "stacks": "\n".join(f"frame {number}" for number in range(30)),
}


def test_the_root_cause_has_its_evidence(tmp_path: Path) -> None:
    """Exit, progress, memory, the end of stderr, the innermost calls; harmless for a terminal of 80 columns."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(), Category.CRASHED, phase=Phase.MEASURE, evidence=EVIDENCE)
    lines = failure_lines(run)
    for line in (
        "Exit: killed by SIGSEGV",
        "Progress: measure, 40% done",
        "End of stderr:",
        "first",
        "frame 0",
        f"What to do: {POLICY[Category.CRASHED].advice}",
    ):
        assert line in lines, line
    assert any(re.match(r"Memory: 3\.0 GiB .*, unreadable ", line) for line in lines)
    assert "frame 29" not in lines
    assert "\x1b" not in "".join(lines)
    assert max(cell_len(line) for line in text.lines(failures(run.report()))) <= 80


def test_a_failure_that_repeats_is_shown_once(tmp_path: Path) -> None:
    """With the other launches that failed alike; another failure has its own place."""
    run = FakeRun(tmp_path, launches=5)
    for attempt in range(4):
        run.failed(run.cell(), Category.EXCEPTION, message="repeated", number=attempt)
    run.failed(run.cell(), Category.EXCEPTION, message="others", number=4)
    lines = failure_lines(run)
    assert sum("repeated" in line for line in lines) == 1
    assert sum("others" in line for line in lines) == 1
    assert any(" 3 more " in line for line in lines)


def test_the_file_of_a_report_is_explained_as_its_run(invoke: Invoke, tmp_path: Path) -> None:
    """Also where the folder of the run is gone."""
    run = FakeRun(tmp_path / "run")
    run.failed(run.cell(), Category.EXCEPTION, message="long words")
    run.finish()
    write(run.report(), run.paths, [ReportFormat.JSON])
    file = run.paths.report(ReportFormat.JSON)
    assert invoke("explain", str(file)).output == invoke("explain", str(run.paths.folder)).output
    assert "long words" in invoke("explain", str(file)).output


BOTH = ("resnet50", "lstm")
MEASURED_ON = "the device: the same cell was measured on GPU "
ALONE = "inconclusive: no other device has the same cell"
CRASH, HANG = Category.CRASHED, Category.DEADLINE
FAULTS: dict[str, tuple[tuple[Device, ...], list[Event], dict[int, str]]] = {
    "same failure elsewhere": (
        gpus(2),
        [fails(CRASH), fails(CRASH), fails(CRASH, 1)],
        {0: "the model: the same cell failed in the same way on GPU 1"},
    ),
    "measured elsewhere": (gpus(2), [fails(CRASH), fails(CRASH), works(1)], {0: f"{MEASURED_ON}1"}),
    "hung elsewhere": (
        gpus(2),
        [fails(CRASH), fails(CRASH), fails(HANG, 1)],
        {0: "inconclusive: the other devices have no result of this cell"},
    ),
    "one device": (cpus(1), [fails(CRASH), fails(CRASH)], {0: ALONE}),
    # Neither the cell nor the GPU is accused, whatever the sibling did.
    "mended by a retry": (
        gpus(2),
        [fails(CRASH), works(), fails(CRASH, 1), fails(CRASH, 1)],
        {0: "", 1: f"{MEASURED_ON}0", 2: f"{MEASURED_ON}0"},
    ),
    # The GPU works. A result before the failure says as little as none.
    "another model right after": (
        gpus(1),
        [fails(HANG), works(model="lstm"), fails(HANG, batch_size=8)],
        {0: "probably the model: lstm was measured on the same device right after", 1: ALONE},
    ),
    # Two models in a row say nothing of a GPU that had no part in it, nor of cores of one machine.
    "killed from outside": (gpus(1), [fails(Category.KILLED, model=one) for one in BOTH], {0: ALONE, 1: ALONE}),
    "slow imports": (gpus(1), [fails(HANG, model=one, phase=Phase.IMPORT) for one in BOTH], {0: ALONE, 1: ALONE}),
    "two models on a CPU": (cpus(1), [fails(HANG, model=one) for one in BOTH], {0: ALONE, 1: ALONE}),
    "never reached the device": (
        gpus(2),
        [fails(HANG, phase=Phase.IMPORT), works(1)],
        {0: "not the model: measured on GPU 1. Not the device: the process had not used it yet"},
    ),
    # A lost GPU can keep later processes from the others; before it was lost it cannot.
    "after a GPU was lost": (
        gpus(2),
        [fails(Category.DEVICE_UNAVAILABLE, 1), fails(Category.DEVICE_LOST), fails(Category.DEVICE_UNAVAILABLE, 1)],
        {0: "", 2: "perhaps a consequence: GPU 0 had failed before (device lost)"},
    ),
}
"""What happened on which devices, and whose fault each failure is, by its place; empty where nothing is said."""


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_said_whose_fault_a_failure_is(tmp_path: Path, name: str) -> None:
    """As far as the same cell elsewhere, or another model, tells."""
    devices, events, expected = FAULTS[name]
    run = FakeRun(tmp_path, devices=devices, models=shipped(*BOTH), batch_sizes=(1, 8))
    for event in events:
        event(run)
    found = [failure.evidence.get("fault", "") for failure in run.report().failures]
    assert [found[place] for place, words in expected.items() if not found[place].endswith(words)] == []
    assert [bool(found[place]) for place in expected] == [bool(words) for words in expected.values()]


def test_on_one_gpu_two_models_in_a_row_are_the_gpus_fault(tmp_path: Path) -> None:
    """Both say so, and the root cause names why it was taken out, as `explain` and the report show it."""
    run = FakeRun(tmp_path, models=shipped(*BOTH), batch_sizes=(1,))
    run.failed(run.cell("resnet50"), Category.DEADLINE)
    run.failed(run.cell("lstm"), Category.CRASHED)
    run.failed(run.cell("lstm"), Category.CRASHED)
    run.quarantined(in_a_row(BOTH))
    report = run.report()
    faults = [one.evidence["fault"] for one in report.failures]
    assert [re.match("probably .*: (lstm|resnet50) ", fault)[1] for fault in faults] == [
        "lstm",
        *["resnet50"] * 2,
    ]
    words = " ".join(failure_lines(run))
    assert f"At fault: {faults[0]}" in words
    assert re.search("GPU 0 was .*: resnet50 and lstm ", words)


@pytest.mark.parametrize(("lacking", "fault"), [({0}, "suspect: .* 8 .*GPU 1"), ({0, 1}, "$")])
def test_memory_that_only_one_of_identical_gpus_lacks_is_suspect(tmp_path: Path, lacking: set[int], fault: str) -> None:
    """What fits on its sibling should have fitted: something else holds its memory. Else the model is large."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    for device in range(2):
        if device in lacking:
            run.failed(run.cell(batch_size=8, device=device), Category.OUT_OF_MEMORY)
        run.measured(run.cell(batch_size=8, device=device), batch_size=4 if device in lacking else 8)
    faults = [failure.evidence.get("fault", "") for failure in run.report().failures]
    assert [bool(re.match(fault, found)) for found in faults] == [True] * len(lacking)


def test_what_a_launch_ended_in_stands_beside_its_cause(tmp_path: Path) -> None:
    """The driver's word is the cause; what CUDA did to the launch is told too, wherever the failure is."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    run.failed(run.cell(device=1), Category.CRASHED, message="killed by SIGSEGV")
    evidence = {"ended_as": "CUDA error: CUDA error 999", "exit": "exit code 0"}
    run.failed(run.cell(), Category.DEVICE_HARDWARE, message="Xid 48 of GPU 0", evidence=evidence)
    run.finish()
    ended_as = "Ended as: CUDA error: CUDA error 999"
    lines = failure_lines(run)
    root = lines.index(ended_as)
    assert lines[root - 1].startswith("Xid 48 ")
    assert "Exit: exit code 0" in lines[root + 1 :]
