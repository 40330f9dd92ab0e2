"""orchestrator/engine/launches/process_failures.py: what only a parent can see about the end of a process."""

import signal

import pytest

from orchestrator.engine.launches import process_failures
from orchestrator.system.process_end import Exit
from protocol.exit_codes import WorkerExit
from protocol.failure import Category, Failure, Phase


def ended(exit_: Exit | None, *, oom: bool = False, limited: bool = False, stderr: str = "") -> Failure:
    """The failure of a launch whose process ended so."""
    return process_failures.ended(exit_, Phase.MEASURE, host_oom_kills=oom, memory_limited=limited, stderr_tail=stderr)


@pytest.mark.parametrize(
    ("exit_", "oom", "category", "message"),
    [
        (Exit(None, signal.SIGSEGV), False, Category.CRASHED, "SIGSEGV"),
        (Exit(None, signal.SIGBUS), True, Category.CRASHED, "SIGBUS"),
        (Exit(None, signal.SIGKILL), False, Category.KILLED, "SIGKILL"),
        (Exit(None, signal.SIGKILL), True, Category.HOST_OUT_OF_MEMORY, "out of memory"),
        (Exit(None, signal.SIGTERM), True, Category.KILLED, "SIGTERM"),
        (Exit(None, 77), False, Category.KILLED, "signal 77"),
        (Exit(0, None), False, Category.NO_OUTCOME, "exit code 0"),
        (Exit(3, None), False, Category.NO_OUTCOME, "exit code 3"),
        (Exit(WorkerExit.NOT_ADOPTED, None), False, Category.START_FAILED, "not a child"),
        (Exit(WorkerExit.WRONG_ROOMS, None), False, Category.START_FAILED, "another folder"),
        (Exit(WorkerExit.NO_ACKNOWLEDGEMENT, None), False, Category.PROTOCOL, "not acknowledge"),
        (None, False, Category.START_FAILED, ""),
    ],
)
def test_ends_of_processes(exit_: Exit | None, oom: bool, category: Category, message: str) -> None:
    """SIGKILL is the kernel's only when its count of out-of-memory kills rose."""
    failure = ended(exit_, oom=oom, stderr="last words")
    assert (failure.category, failure.phase) == (category, Phase.MEASURE)
    assert message in failure.message
    assert (failure.code, failure.signal) == ((exit_.code, exit_.signal) if exit_ else (None, None))
    assert failure.evidence == {"stderr": "last words"}


def test_every_exit_of_a_worker_has_a_category() -> None:
    """Other than a missing outcome."""
    found = {ended(Exit(status, None)).category for status in WorkerExit if status is not WorkerExit.DONE}
    assert Category.NO_OUTCOME not in found


@pytest.mark.parametrize(("limited", "category"), [(True, Category.OUT_OF_MEMORY), (False, Category.NO_OUTCOME)])
def test_openmp_without_memory_for_a_thread(limited: bool, category: Category) -> None:
    """Without a limit on memory, it may be a limit on processes, which no smaller batch helps."""
    words = "libgomp: Thread creation failed: Resource temporarily unavailable"
    assert ended(Exit(1, None), limited=limited, stderr=words).category is category


@pytest.mark.parametrize(
    ("category", "phase", "broken", "expected"),
    [
        (Category.CUDA_STICKY, Phase.BUILD, "GPU 1", Category.DEVICE_UNAVAILABLE),
        (Category.CRASHED, Phase.START, "GPU 1", Category.DEVICE_UNAVAILABLE),
        (Category.CUDA_ERROR, Phase.BUILD, "GPU 1", Category.DEVICE_UNAVAILABLE),
        (Category.CUDA_ERROR, Phase.MEASURE, "GPU 1", Category.CUDA_ERROR),
        (Category.CUDA_STICKY, Phase.BUILD, "", Category.CUDA_STICKY),
        (Category.CUDA_STICKY, Phase.MEASURE, "GPU 1", Category.CUDA_STICKY),
        (Category.DEVICE_HARDWARE, Phase.BUILD, "GPU 1", Category.DEVICE_HARDWARE),
        (Category.IMPORT_ERROR, Phase.BUILD, "GPU 1", Category.IMPORT_ERROR),
    ],
)
def test_start_up_after_another_gpu_broke(category: Category, phase: Phase, broken: str, expected: Category) -> None:
    """Only errors of CUDA's start-up are a consequence, with a message about the other GPU."""
    found = process_failures.collateral(Failure(category=category, message="m", phase=phase), broken)
    assert found.category is expected
    assert ("GPU 1" in found.message) is (category is not expected)


XID = Failure(category=Category.DEVICE_HARDWARE, message="Xid 79: the GPU was lost", phase=Phase.MEASURE)


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        (Category.CRASHED, Category.DEVICE_HARDWARE),
        (Category.CUDA_STICKY, Category.DEVICE_HARDWARE),
        (Category.DEADLINE, Category.DEVICE_HARDWARE),
        (Category.NOT_FINITE, Category.DEVICE_HARDWARE),
        (Category.DEVICE_LOST, Category.DEVICE_LOST),
        (Category.STOPPED, Category.STOPPED),
        (Category.IMPORT_ERROR, Category.IMPORT_ERROR),
        (Category.HOST_OUT_OF_MEMORY, Category.HOST_OUT_OF_MEMORY),
    ],
)
def test_a_fault_of_the_gpu_is_the_cause_of_other_failures(category: Category, expected: Category) -> None:
    """The end of the launch is evidence; what no GPU can do to a process keeps its category."""
    ended = Failure(category=category, message="m", phase=Phase.BUILD, signal=6, evidence={"stderr": "last words"})
    found = process_failures.outside(ended, XID, "GPU 1")
    assert found.category is expected
    if expected is not category:
        assert (found.message, found.phase, found.signal) == (XID.message, Phase.BUILD, 6)
        assert found.evidence == {"ended_as": f"{category}: m", "stderr": "last words"}


def test_a_crash_at_start_up_may_come_from_another_gpu() -> None:
    """Only after another GPU broke."""
    crash = Failure(category=Category.CRASHED, message="m", phase=Phase.BUILD)
    assert process_failures.outside(crash, None, "GPU 1").category is Category.DEVICE_UNAVAILABLE
    assert process_failures.outside(crash, None, "") == crash
