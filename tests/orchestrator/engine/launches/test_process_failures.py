"""orchestrator/engine/launches/process_failures.py: what only a parent can see about a death, in words."""

import signal

import pytest

from orchestrator.engine.launches import process_failures
from orchestrator.system.process_end import Exit
from protocol.exit_codes import WorkerExit
from protocol.failure import Category, Failure, Phase


@pytest.mark.parametrize(
    ("exit_", "oom", "category", "message"),
    [
        (Exit(None, signal.SIGSEGV), False, Category.CRASHED, "killed by SIGSEGV"),
        (Exit(None, signal.SIGBUS), True, Category.CRASHED, "killed by SIGBUS"),
        (Exit(None, signal.SIGKILL), False, Category.KILLED, "killed by SIGKILL, cause unknown"),
        (Exit(None, signal.SIGKILL), True, Category.HOST_OUT_OF_MEMORY, "out of memory"),
        (Exit(None, signal.SIGTERM), True, Category.KILLED, "killed by SIGTERM"),
        (Exit(None, 77), False, Category.KILLED, "killed by signal 77"),
        (Exit(0, None), False, Category.NO_OUTCOME, "exit code 0, but it told no outcome"),
        (Exit(3, None), False, Category.NO_OUTCOME, "exit code 3"),
        (Exit(WorkerExit.NOT_ADOPTED, None), False, Category.START_FAILED, "not adopted"),
        (Exit(WorkerExit.WRONG_ROOMS, None), False, Category.START_FAILED, "another folder"),
        (Exit(WorkerExit.NO_ACKNOWLEDGEMENT, None), False, Category.PROTOCOL, "not acknowledged"),
        (None, False, Category.START_FAILED, "never came into being"),
    ],
)
def test_deaths(exit_: Exit | None, oom: bool, category: Category, message: str) -> None:
    """A signal is named; SIGKILL is the kernel's only when its count of out-of-memory kills rose."""
    failure = process_failures.ended(
        exit_, Phase.MEASURE, host_oom_kills=oom, memory_limited=False, stderr_tail="last words"
    )
    assert failure.category is category
    assert message in failure.message
    assert failure.phase is Phase.MEASURE
    if exit_ is not None:
        assert (failure.code, failure.signal) == (exit_.code, exit_.signal)
    assert failure.evidence == {"stderr": "last words"}


def test_every_exit_of_a_worker_is_known() -> None:
    """A status that the worker uses is never 'told no outcome' without a reason."""
    for status in WorkerExit:
        if status is not WorkerExit.DONE:
            failure = process_failures.ended(
                Exit(status, None), Phase.START, host_oom_kills=False, memory_limited=False, stderr_tail=""
            )
            assert failure.category is not Category.NO_OUTCOME


@pytest.mark.parametrize("limited", [True, False])
def test_openmp_without_memory_for_a_thread(limited: bool) -> None:
    """Under a limit on memory it is that; without one it may be a limit on processes, which no smaller batch helps."""
    words = "libgomp: Thread creation failed: Resource temporarily unavailable"
    failure = process_failures.ended(
        Exit(1, None), Phase.WARM_UP, host_oom_kills=False, memory_limited=limited, stderr_tail=words
    )
    assert failure.category is (Category.OUT_OF_MEMORY if limited else Category.NO_OUTCOME)


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
    """Only what CUDA's start-up ends in, and only then, is taken for a consequence, and says so."""
    found = process_failures.collateral(Failure(category=category, message="m", phase=phase), broken)
    assert found.category is expected
    assert ("GPU 1 had failed before" in found.message) is (category is not expected)


XID = Failure(category=Category.DEVICE_HARDWARE, message="Xid 79: reboot the machine", phase=Phase.MEASURE)


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
def test_the_gpu_is_the_cause_of_what_its_hardware_may_lead_to(category: Category, expected: Category) -> None:
    """What the launch ended in is evidence then; what no GPU can do to a process keeps its name."""
    ended = Failure(category=category, message="m", phase=Phase.BUILD, signal=6, evidence={"stderr": "last words"})
    found = process_failures.outside(ended, XID, "GPU 1")
    assert found.category is expected
    if expected is not category:
        assert (found.message, found.phase, found.signal) == (XID.message, Phase.BUILD, 6)
        assert found.evidence == {"ended_as": f"{category}: m", "stderr": "last words"}


def test_without_a_hazard_of_its_own_another_gpus_may_be_why() -> None:
    """A crash at the start, after another GPU broke, is a consequence; by itself it is a crash."""
    crash = Failure(category=Category.CRASHED, message="m", phase=Phase.BUILD)
    assert process_failures.outside(crash, None, "GPU 1").category is Category.DEVICE_UNAVAILABLE
    assert process_failures.outside(crash, None, "") == crash
