"""`explain` and the root cause: kinds of failure in words, and what went wrong in a run."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.cells import cell_len

from orchestrator.report import text
from orchestrator.report.chapters.failures import failures
from orchestrator.state.failure_policy import POLICY, RUN
from orchestrator.state.fault_placement import in_a_row
from protocol.cell import Device
from protocol.exit_codes import MEANING, ExitCode
from protocol.failure import Category, Phase
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

Invoke = Callable[..., Result]


def told(run: FakeRun) -> list[str]:
    """The chapter about failures, its lines without their indentation."""
    return [line.strip() for line in text.lines(failures(run.report()))]


def root(run: FakeRun) -> str:
    """The line that names the root cause."""
    return next(line for line in told(run) if line.startswith("Root cause"))


@pytest.mark.parametrize("words", ["out of memory", "OUT_OF_MEMORY", "out-of-memory", "Out of Memory"])
def test_a_kind_is_found_by_its_words_and_by_its_name(invoke: Invoke, words: str) -> None:
    """However it is written, with quotes or without."""
    assert invoke("explain", *words.split()).output == invoke("explain", words).output
    assert invoke("explain", words).output.startswith("out of memory\n")


@pytest.mark.parametrize(
    ("word", "guess"),
    [
        ("oom", "out of memory or host out of memory"),
        ("host", "host out of memory"),
        ("Zygote", "zygote died"),
        ("hung", ""),
        ("crash", "crashed"),
    ],
)
def test_a_word_of_a_kind_or_its_initials_is_enough_for_a_guess(invoke: Invoke, word: str, guess: str) -> None:
    """Nobody has to know how a kind is called here."""
    shown = invoke("explain", word)
    assert shown.exit_code == 2
    assert ("Did you mean" in shown.output) == bool(guess)
    assert f"Did you mean {guess}?" in shown.output or not guess


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("4", [f"exit code 4: {MEANING[ExitCode.INCOMPLETE]}"]),
        ("exit code 0", [f"exit code 0: {MEANING[ExitCode.PASSED]}"]),
        (
            "79",
            [
                "Xid 79, an error number of NVIDIA's driver: reboot the machine",
                "The GPU is taken out of the run: `explain device hardware error`",
            ],
        ),
        ("Xid 13", ["Xid 13, an error number of NVIDIA's driver: restart the application"]),
        ("xid 200", ["Xid 200, an error number of NVIDIA's driver: unknown number: suspect"]),
        ("xid 4", ["Xid 4, an error number of NVIDIA's driver: unknown number: suspect"]),
        (
            "SIGKILL",
            [
                "SIGKILL (9) to the process of a launch: "
                "`explain killed, cause unknown` or `explain host out of memory`",
                f"the orchestrator is killed: {RUN['the orchestrator is killed']}",
            ],
        ),
        ("sigsegv", ["SIGSEGV (11) to the process of a launch: `explain crashed`"]),
        ("SIGSTOP", ["SIGSTOP (19) to the process of a launch: `explain deadline exceeded`"]),
        (
            "SIGHUP",
            ["SIGHUP (1) to the process of a launch: ignored", "SIGHUP to the orchestrator: ignored"],
        ),
        (
            "SIGTERM",
            [
                "SIGTERM (15) to the process of a launch: `explain killed, cause unknown`",
                f"first SIGINT or SIGTERM to the orchestrator: {RUN['first SIGINT or SIGTERM']}",
                f"second SIGINT or SIGTERM to the orchestrator: {RUN['second SIGINT or SIGTERM']}",
            ],
        ),
    ],
)
def test_codes_signals_and_xids_are_told(invoke: Invoke, what: str, told: list[str]) -> None:
    """What people read in a log or see in `$?`."""
    shown = invoke("explain", *what.split())
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines() == told


@pytest.mark.parametrize("what", ["200", "6", "79x", "SIGNAL", "exit code 7"])
def test_a_number_that_no_table_has_is_refused(invoke: Invoke, what: str) -> None:
    """Nothing is made up."""
    assert invoke("explain", what).exit_code == 2


def test_a_folder_that_is_no_run_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    """With the words that every command has for it."""
    (tmp_path / "empty").mkdir()
    shown = invoke("explain", "./empty")
    assert shown.exit_code == 2
    assert "empty" in shown.output


def test_hardware_comes_before_what_happened_earlier(tmp_path: Path) -> None:
    """A lost GPU explains more than the exception before it."""
    run = FakeRun(tmp_path, devices=gpus(2))
    run.failed(run.cell(device=0), Category.EXCEPTION)
    run.failed(run.cell(device=1), Category.DEVICE_LOST)
    assert root(run).startswith("Root cause: GPU 1")


def test_what_cost_a_result_comes_before_what_a_retry_mended(tmp_path: Path) -> None:
    """The first failure was made good; the second was not."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(batch_size=1), Category.KILLED)
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.DEADLINE)
    assert "at batch size 8" in root(run)


def test_a_run_that_was_only_stopped_has_no_root_cause(tmp_path: Path) -> None:
    """A person stopped it, or killed the orchestrator: nothing is at fault."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(batch_size=1), Category.STOPPED)
    run.interrupted(run.cell(batch_size=8))
    assert not any(line.startswith("Root cause") for line in told(run))


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
    lines = told(run)
    for line in (
        "Exit: killed by SIGSEGV",
        "Progress: measure, 40% done",
        "Memory: 3.0 GiB free on the device, unreadable available on the host",
        "End of stderr:",
        "first",
        "frame 0",
        f"What to do: {POLICY[Category.CRASHED].advice}",
    ):
        assert line in lines, line
    assert "frame 29" not in lines
    assert "\x1b" not in "".join(lines)
    assert max(cell_len(line) for line in text.lines(failures(run.report()))) <= 80


@pytest.mark.parametrize(
    ("devices", "elsewhere", "words"),
    [
        (gpus(2), Category.CRASHED, "the model's: the same cell failed in the same way on GPU 1"),
        (gpus(2), None, "the device's: the same cell was measured on GPU 1"),
        (gpus(2), Category.DEADLINE, "which could not be told: the other devices gave no answer"),
        (cpus(1), None, "which could not be told: no other device has the same cell"),
    ],
)
def test_it_is_said_whose_fault_a_crash_is(
    tmp_path: Path, devices: tuple[Device, ...], elsewhere: Category | None, words: str
) -> None:
    """As far as the same cell on another device tells; one device alone cannot."""
    run = FakeRun(tmp_path, devices=devices)
    run.failed(run.cell(), Category.CRASHED)
    run.failed(run.cell(), Category.CRASHED)
    if len(devices) > 1 and elsewhere is None:
        run.measured(run.cell(device=1))
    elif elsewhere is not None:
        run.failed(run.cell(device=1), elsewhere)
    first = run.report().failures[0]
    assert first.evidence["fault"].endswith(words)


def test_what_a_retry_mended_was_nobodys_fault(tmp_path: Path) -> None:
    """The cell was measured in the end: neither it nor the GPU is accused, whatever the sibling did."""
    run = FakeRun(tmp_path, devices=gpus(2))
    run.failed(run.cell(), Category.CRASHED)
    run.measured(run.cell())
    run.failed(run.cell(device=1), Category.CRASHED)
    run.failed(run.cell(device=1), Category.CRASHED)
    mended, *others = run.report().failures
    assert "fault" not in mended.evidence
    assert [one.evidence["fault"] for one in others] == ["the device's: the same cell was measured on GPU 0"] * 2


BOTH = ("resnet50", "lstm")


def test_on_one_gpu_another_model_tells(tmp_path: Path) -> None:
    """It was measured right after the hang: the GPU works. Before that, or in between, is as good as never."""
    run = FakeRun(tmp_path, models=shipped(*BOTH), batch_sizes=(1, 8))
    run.failed(run.cell("resnet50", batch_size=1), Category.DEADLINE)
    run.measured(run.cell("lstm", batch_size=1))
    run.failed(run.cell("resnet50", batch_size=8), Category.DEADLINE)
    first, second = run.report().failures
    assert first.evidence["fault"] == ("the model's, most likely: lstm was measured on the same device right after")
    assert second.evidence["fault"].endswith("which could not be told: no other device has the same cell")


def test_on_one_gpu_two_models_in_a_row_are_the_gpus_fault(tmp_path: Path) -> None:
    """Both say so, and the root cause names why it was taken out, as `explain` and the report show it."""
    run = FakeRun(tmp_path, models=shipped(*BOTH), batch_sizes=(1,))
    run.failed(run.cell("resnet50"), Category.DEADLINE)
    run.failed(run.cell("lstm"), Category.CRASHED)
    run.failed(run.cell("lstm"), Category.CRASHED)
    run.taken_out(in_a_row(BOTH))
    report = run.report()
    assert [one.evidence["fault"] for one in report.failures] == [
        "the device's, most likely: lstm failed on it too, with no result between",
        *["the device's, most likely: resnet50 failed on it too, with no result between"] * 2,
    ]
    words = " ".join(told(run))
    assert "Whose fault: the device's, most likely: lstm failed on it too" in words
    assert "GPU 0 was taken out of the run: resnet50 and lstm failed on it one after the other" in words


@pytest.mark.parametrize(
    ("devices", "category", "phase"),
    [
        (gpus(1), Category.KILLED, Phase.MEASURE),
        (gpus(1), Category.DEADLINE, Phase.IMPORT),
        (cpus(1), Category.DEADLINE, Phase.MEASURE),
    ],
)
def test_what_a_gpu_does_not_do_is_not_told_of_it(
    tmp_path: Path, devices: tuple[Device, ...], category: Category, phase: Phase
) -> None:
    """A signal from outside, a slow import, or cores of one machine: two models in a row tell nothing."""
    run = FakeRun(tmp_path, models=shipped(*BOTH), batch_sizes=(1,), devices=devices)
    for model in BOTH:
        run.failed(run.cell(model), category, phase=phase)
    assert all("could not be told" in one.evidence["fault"] for one in run.report().failures)


def test_what_never_reached_the_device_is_nobodys(tmp_path: Path) -> None:
    """A slow import here, a measured cell there: neither the model nor the device."""
    run = FakeRun(tmp_path, devices=gpus(2))
    run.failed(run.cell(), Category.DEADLINE, phase=Phase.IMPORT)
    run.measured(run.cell(device=1))
    (failure,) = run.report().failures
    assert failure.evidence["fault"] == "not the model's, which was measured on GPU 1; the device was not reached"


def test_memory_that_only_one_of_identical_gpus_lacks_is_suspect(tmp_path: Path) -> None:
    """What fits on its sibling should have fitted: something else holds its memory."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8), batch_size=4)
    run.measured(run.cell(batch_size=8, device=1))
    (failure,) = run.report().failures
    assert failure.evidence["fault"].startswith("suspect: batch size 8 fits on GPU 1")


def test_memory_that_all_of_them_lack_is_not(tmp_path: Path) -> None:
    """Then the model is large."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    for device in range(2):
        run.failed(run.cell(batch_size=8, device=device), Category.OUT_OF_MEMORY)
        run.measured(run.cell(batch_size=8, device=device), batch_size=4)
    assert not any("fault" in failure.evidence for failure in run.report().failures)


def test_what_cannot_start_after_a_gpu_was_lost_may_be_a_consequence(tmp_path: Path) -> None:
    """A lost GPU can keep later processes from the others; before it was lost it cannot."""
    run = FakeRun(tmp_path, devices=gpus(2))
    run.failed(run.cell(device=1), Category.DEVICE_UNAVAILABLE)
    run.failed(run.cell(device=0), Category.DEVICE_LOST)
    run.failed(run.cell(device=1), Category.DEVICE_UNAVAILABLE)
    before, _, after = run.report().failures
    assert "fault" not in before.evidence
    assert after.evidence["fault"] == "maybe nobody's here: GPU 0 had failed before (device lost)"


def test_what_a_launch_ended_in_stands_beside_its_cause(tmp_path: Path) -> None:
    """The driver's word is the cause; what CUDA did to the launch is told too, wherever the failure is."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1,))
    run.failed(run.cell(device=1), Category.CRASHED, message="killed by SIGSEGV")
    evidence = {"ended_as": "CUDA error: CUDA error 999", "exit": "exit code 0"}
    run.failed(run.cell(), Category.DEVICE_HARDWARE, message="Xid 48 of GPU 0", evidence=evidence)
    run.finish()
    ended_as = "Ended as: CUDA error: CUDA error 999"
    lines = told(run)
    root = lines.index(ended_as)
    assert lines[root - 1] == "Xid 48 of GPU 0"
    assert "Exit: exit code 0" in lines[root + 1 :]
