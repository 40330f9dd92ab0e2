"""What is raised in a launch becomes a category: real exceptions where a CPU can raise them, else recorded words."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec
from protocol.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT, Category, Failure, Phase
from tests.fakes.assignments import run_script
from tests.worker.fresh import Fresh
from worker import exception_categories
from worker.errors import DeviceInheritedError, DeviceUnavailableError, NotFiniteError, UnknownFamilyError
from worker.memory import Headroom

GIB = 1 << 30
CPU_ONLY = Headroom(available=8 * GIB)
ROOMY = Headroom(device_free=100 * GIB, device_total=140 * GIB)
FULL = Headroom(device_free=1 * GIB, device_total=140 * GIB)

ADVICE = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)


def classified(error: BaseException, phase: Phase = Phase.MEASURE, headroom: Headroom = ROOMY) -> Failure:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is to be classified
        return exception_categories.failure(raised, phase, headroom)


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    """`outer`, raised from `cause`."""
    outer.__cause__ = cause
    return outer


def no_gpu(cause: str) -> BaseException:
    return chained(DeviceUnavailableError("GPU 3"), RuntimeError(cause))


@pytest.mark.parametrize(
    ("words", "category", "code"),
    [
        ("CUDA error: out of memory" + ADVICE, Category.OUT_OF_MEMORY, 2),
        ("CUDA driver error: out of memory", Category.OUT_OF_MEMORY, 2),
        ("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …", Category.OUT_OF_MEMORY, None),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`", Category.OUT_OF_MEMORY, None),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", Category.OUT_OF_MEMORY, None),
        ("CUDA error: an illegal memory access was encountered" + ADVICE, Category.CUDA_STICKY, 700),
        ("CUDA error: device-side assert triggered" + ADVICE, Category.CUDA_STICKY, 710),
        ("CUDA error: unspecified launch failure" + ADVICE, Category.CUDA_STICKY, 719),
        ("CUDA error: unknown error" + ADVICE, Category.CUDA_STICKY, 999),
        ("CUDA error: uncorrectable ECC error encountered" + ADVICE, Category.DEVICE_HARDWARE, 214),
        ("CUDA error: no CUDA-capable device is detected" + ADVICE, Category.DEVICE_UNAVAILABLE, 100),
        ("CUDA error: invalid configuration argument" + ADVICE, Category.CUDA_ERROR, None),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`", Category.CUDA_ERROR, None),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", Category.CUDA_ERROR, None),
        ("FIND was unable to find an engine to execute this computation", Category.EXCEPTION, None),
        ("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)", Category.EXCEPTION, None),
    ],
)
def test_recorded_words(words: str, category: Category, code: int | None) -> None:
    """Words of torch 2.6 to 2.11 as they were read on GPUs, with plenty of memory free."""
    found = classified(RuntimeError(words))
    assert (found.category, found.code) == (category, code)


@pytest.mark.parametrize(
    ("headroom", "full"),
    [
        (Headroom(device_free=4 * GIB, device_total=100 * GIB), True),
        (Headroom(device_free=5 * GIB, device_total=100 * GIB), False),
        (Headroom(device_total=100 * GIB), False),
        (Headroom(device_free=4 * GIB), False),
        (CPU_ONLY, False),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "GET was unable to find an engine to execute this computation",
        "Unable to find an engine to execute this computation",
    ],
)
def test_vague_error_is_out_of_memory_on_a_full_device(words: str, headroom: Headroom, full: bool) -> None:
    """Libraries without a workspace say something else. Below a twentieth of the memory free, it is the reason."""
    assert (classified(RuntimeError(words), headroom=headroom).category is Category.OUT_OF_MEMORY) is full


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (2, Category.OUT_OF_MEMORY),
        (214, Category.DEVICE_HARDWARE),
        (700, Category.CUDA_STICKY),
        (715, Category.CUDA_STICKY),
        (999, Category.CUDA_STICKY),
        (46, Category.DEVICE_UNAVAILABLE),
        (802, Category.DEVICE_UNAVAILABLE),
        (9, Category.CUDA_ERROR),
    ],
)
def test_code_of_an_accelerator_error_decides(code: int, category: Category) -> None:
    """The errors of torch from 2.8 on carry CUDA's code."""
    error = torch.AcceleratorError("CUDA error: in words that nobody has seen yet")
    error.error_code = code
    found = classified(error)
    assert (found.category, found.code) == (category, code)


@pytest.mark.parametrize(
    ("error", "phase", "category"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), Phase.WARM_UP, Category.OUT_OF_MEMORY),
        (ModuleNotFoundError("No module named 'torchvision'"), Phase.IMPORT, Category.IMPORT_ERROR),
        (ImportError("libcudnn.so.9: cannot open shared object file"), Phase.BUILD, Category.IMPORT_ERROR),
        (chained(RuntimeError("no"), ImportError("really no")), Phase.BUILD, Category.IMPORT_ERROR),
        (ImportError("a module that the first forward wanted"), Phase.WARM_UP, Category.IMPORT_ERROR),
        (NotFiniteError("the loss is nan"), Phase.MEASURE, Category.NOT_FINITE),
        (DeviceUnavailableError("GPU 3"), Phase.BUILD, Category.DEVICE_UNAVAILABLE),
        (DeviceInheritedError("GPU 3"), Phase.BUILD, Category.START_FAILED),
        (UnknownFamilyError("model 'x'"), Phase.IMPORT, Category.EXCEPTION),
        (no_gpu("CUDA error: out of memory"), Phase.BUILD, Category.OUT_OF_MEMORY),
        (no_gpu("CUDA error: uncorrectable ECC error encountered"), Phase.BUILD, Category.DEVICE_HARDWARE),
        (no_gpu("CUDA error: unknown error"), Phase.BUILD, Category.DEVICE_UNAVAILABLE),
        (KeyError("images"), Phase.WARM_UP, Category.EXCEPTION),
        (SystemExit(3), Phase.WARM_UP, Category.EXCEPTION),
        (KeyboardInterrupt(), Phase.WARM_UP, Category.EXCEPTION),
    ],
)
def test_types_and_chains(error: BaseException, phase: Phase, category: Category) -> None:
    """The whole chain of exceptions counts, and the most certain sign wins."""
    failure = classified(error, phase)
    assert (failure.category, failure.phase) == (category, phase)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you …"),
    ],
)
def test_refused_host_memory_depends_on_the_device(error: BaseException) -> None:
    """Without a GPU a smaller batch helps. With one, the host's memory is another matter."""
    assert classified(error, headroom=CPU_ONLY).category is Category.OUT_OF_MEMORY
    assert classified(error, headroom=ROOMY).category is Category.HOST_OUT_OF_MEMORY


def test_torch_refused_by_the_kernel_is_out_of_memory(fresh: Fresh) -> None:
    """A process whose data segment is limited runs out of memory; the failure's evidence has the limit."""
    words = fresh.script("""
import resource, torch
from protocol.failure import Phase
from worker import exception_categories as classify
from worker import memory
limit = memory.headroom().data + (64 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    activations = [torch.ones(1 << 20) for _ in range(1000)]
except RuntimeError as error:
    failure = classify.failure(error, Phase.WARM_UP)
    print(failure.category.name, failure.evidence["data_limit_bytes"] == str(limit), failure.message)
""")
    assert words.startswith("OUT_OF_MEMORY True RuntimeError: ")


def test_error_of_the_device_explains_a_vague_library() -> None:
    """The assert that cuDNN stumbled over is named by the next call, with its code."""
    poisoned = Headroom(device_error=RuntimeError("CUDA error: device-side assert triggered" + ADVICE))
    failure = classified(RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), headroom=poisoned)
    assert (failure.category, failure.code) == (Category.CUDA_STICKY, 710)
    assert failure.evidence["device_error"].startswith("CUDA error: device-side assert triggered")


def test_evidence_names_the_chain_and_the_memory() -> None:
    """Everything that helps to doubt the category is kept."""
    failure = classified(chained(RuntimeError("outer"), ValueError("inner")), headroom=FULL)
    assert failure.evidence["chain"] == "RuntimeError ← ValueError"
    assert failure.evidence["device_free_bytes"] == str(GIB)
    assert failure.exception == "RuntimeError"
    assert "inner" in str(failure.traceback)


def test_message_and_traceback_are_short_and_safe_to_print() -> None:
    """No terminal is cleared by a model's error, and no report drowns in one."""
    failure = classified(RuntimeError("\x1b[2J\x1b]0;owned\x07red\x9b31m\nsecond line\r\n" + "long " * 10_000))
    assert failure.message == "RuntimeError: red31m"
    assert len(failure.traceback) <= TRACEBACK_LIMIT
    assert failure.traceback.endswith("long \n")
    assert not set(failure.traceback) & {"\x1b", "\x07", "\x9b", "\r"}


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


def _circle() -> BaseException:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    return one


@pytest.mark.parametrize("make", [_MuteError, _circle, lambda: ExceptionGroup("several", [ValueError("one")])])
def test_strange_exceptions_are_classified(make: Callable[[], BaseException]) -> None:
    """An exception without words, or that is its own cause, does not take the failure with it."""
    assert classified(make()).category is Category.EXCEPTION


@given(st.text(st.characters(codec=None), max_size=3000), st.sampled_from([RuntimeError, ValueError, ImportError]))
def test_any_words_make_a_failure_that_can_be_sent(words: str, kind: type[Exception]) -> None:
    """Lone surrogates, controls and endless lines included."""
    failure = classified(kind(words))
    assert len(failure.message) <= MESSAGE_LIMIT
    assert codec.decode(codec.encode(failure), Failure) == failure


def test_torch_is_not_imported_to_explain_that_it_is_missing() -> None:
    """A launch that failed to import torch is classified without it."""
    words = run_script("""
import sys
from protocol.failure import Phase
from worker import exception_categories as classify
print(classify.failure(ImportError("no torch"), Phase.IMPORT).category.name, "torch" in sys.modules)
""")
    assert words.split() == ["IMPORT_ERROR", "False"]


@pytest.mark.parametrize(("limit", "category"), [(2**30, Category.OUT_OF_MEMORY), (None, Category.EXCEPTION)])
def test_vague_error_of_onednn_is_out_of_memory_where_memory_is_limited(limit: int | None, category: Category) -> None:
    """OneDNN has one error for everything."""
    error = RuntimeError("could not execute a primitive")
    assert (
        exception_categories.failure(error, Phase.WARM_UP, Headroom(data=2**29, data_limit=limit)).category is category
    )
