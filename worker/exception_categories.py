"""Classification of the exception that ended a launch, as a Failure. The orchestrator classifies processes that died.

This module never imports torch, because the import of torch may have failed.
"""

import errno
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from protocol.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT, Category, Failure, Phase
from worker import memory
from worker.errors import (
    CommunicationError,
    DeviceInheritedError,
    DeviceUnavailableError,
    NotBuiltError,
    NotFiniteError,
    UnsupportedError,
)
from worker.memory import Headroom

_OUT_OF_MEMORY_CODE: Final = 2
_HARDWARE: Final = frozenset({214})
_STICKY: Final = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999})  # CUDA: the process must end
_UNAVAILABLE: Final = frozenset({35, 46, 100, 101, 802, 803, 804})

_CODES: Final = {
    "out of memory": 2,
    "CUDA driver version is insufficient for CUDA runtime version": 35,
    "CUDA-capable device(s) is/are busy or unavailable": 46,
    "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101,
    "uncorrectable ECC error encountered": 214,
    "an illegal memory access was encountered": 700,
    "the launch timed out and was terminated": 702,
    "device-side assert triggered": 710,
    "hardware stack error": 714,
    "an illegal instruction was encountered": 715,
    "misaligned address": 716,
    "operation not supported on global/shared address space": 717,
    "invalid program counter": 718,
    "unspecified launch failure": 719,
    "system not yet initialized": 802,
    "system has unsupported display driver / cuda driver combination": 803,
    "unknown error": 999,
}
"""CUDA error message → error code, for torch before 2.8, whose exceptions hold no code."""

_CUDA_ERROR: Final = re.compile(r"CUDA (?:driver )?error: ([^\n]+)")
_LIBRARY_ERROR: Final = re.compile(r"CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|cuDNN error|CUSOLVER_STATUS_\w+|CUFFT_\w+")
_ALLOCATION_REFUSED: Final = re.compile(r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUDA out of memory")
_DISGUISED: Final = re.compile(r"CUBLAS_STATUS_NOT_INITIALIZED|unable to find an engine", re.IGNORECASE)
_ONEDNN_FAILED: Final = re.compile(r"could not (create|execute) a primitive")
_HOST_REFUSED: Final = re.compile(r"DefaultCPUAllocator: (?:can't|not enough) |Cannot allocate memory")
_LOW: Final = 0.05
"""Free share of the device's memory below which errors that match _DISGUISED count as out of memory."""

_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def failure(error: BaseException, phase: Phase, headroom: Headroom | None = None) -> Failure:
    """Classify an exception by the first of RULES that applies (else EXCEPTION), and describe it. Never raises.

    phase: in which `error` was raised. headroom: free memory at that time; None to read it now, while the frames of
    `error` still keep the model in memory.
    """
    seen = _Seen(tuple(_chain(error)), phase, memory.headroom() if headroom is None else headroom)
    category = next((category for category, applies in RULES if applies(seen)), Category.EXCEPTION)
    return Failure(
        category=category,
        message=one_line(error)[:MESSAGE_LIMIT],
        phase=phase,
        code=seen.code,
        exception=_name(error),
        traceback=_trimmed("".join(traceback.format_exception(error))),
        evidence=seen.evidence(),
    )


@dataclass(frozen=True)
class _Seen:
    """Input of RULES. chain: the error, then its causes. phase, headroom: phase and free memory when it was raised."""

    chain: tuple[BaseException, ...]
    phase: Phase
    headroom: Headroom

    @property
    def code(self) -> int | None:
        """First CUDA error code in the chain, otherwise that of Headroom.device_error; None if neither exists."""
        afterwards = (self.headroom.device_error,) if self.headroom.device_error is not None else ()
        return next((code for code in map(_cuda_code, (*self.chain, *afterwards)) if code is not None), None)

    def has(self, *kinds: type[BaseException]) -> bool:
        return any(isinstance(error, kinds) for error in self.chain)

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` is found in the message of any RuntimeError (such as torch's errors) in the chain."""
        return any(isinstance(error, RuntimeError) and pattern.search(message_of(error)) for error in self.chain)

    def evidence(self) -> dict[str, str]:
        causes = {"chain": " ← ".join(map(_name, self.chain))} if len(self.chain) > 1 else {}
        return causes | {name: plain(text)[:MESSAGE_LIMIT] for name, text in self.headroom.as_text().items()}


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _cuda_code(error: BaseException) -> int | None:
    torch = sys.modules.get("torch")
    accelerator_error = getattr(torch, "AcceleratorError", None)
    if accelerator_error is not None and isinstance(error, accelerator_error):
        code = getattr(error, "error_code", None)
        if isinstance(code, int):
            return code
    if isinstance(error, RuntimeError) and (match := _CUDA_ERROR.search(message_of(error))):
        return _CODES.get(match[1].strip())
    return None


# ── the rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _device_out_of_memory(seen: _Seen) -> bool:
    torch = sys.modules.get("torch")
    kind = getattr(torch, "OutOfMemoryError", None)
    refused = seen.code == _OUT_OF_MEMORY_CODE or seen.says(_ALLOCATION_REFUSED)
    return refused or (kind is not None and seen.has(kind))


def _out_of_memory_in_disguise(seen: _Seen) -> bool:
    free, total = seen.headroom.device_free, seen.headroom.device_total
    return seen.says(_DISGUISED) and free is not None and total is not None and free < _LOW * total


def _host_refused(seen: _Seen) -> bool:
    no_memory = any(isinstance(error, OSError) and error.errno == errno.ENOMEM for error in seen.chain)
    limited = seen.headroom.data_limit is not None or seen.headroom.address_limit is not None
    in_disguise = limited and seen.says(_ONEDNN_FAILED)  # oneDNN gives no reason under RLIMIT_DATA
    return no_memory or in_disguise or seen.has(MemoryError) or seen.says(_HOST_REFUSED)


def _host_refused_beside_a_gpu(seen: _Seen) -> bool:
    """Whether a launch on a GPU ran out of host memory. A smaller batch does not help then."""
    beside_a_gpu = seen.headroom.device_total is not None or seen.headroom.device_error is not None
    return _host_refused(seen) and beside_a_gpu


# The first that applies. Otherwise the category is EXCEPTION.
RULES: Final[tuple[tuple[Category, Callable[[_Seen], bool]], ...]] = (
    (Category.START_FAILED, lambda seen: seen.has(DeviceInheritedError)),
    (Category.DEVICE_HARDWARE, lambda seen: seen.code in _HARDWARE),
    (Category.OUT_OF_MEMORY, _device_out_of_memory),
    (Category.OUT_OF_MEMORY, _out_of_memory_in_disguise),
    (Category.HOST_OUT_OF_MEMORY, _host_refused_beside_a_gpu),
    (Category.OUT_OF_MEMORY, _host_refused),
    (Category.DEVICE_UNAVAILABLE, lambda seen: seen.has(DeviceUnavailableError) or seen.code in _UNAVAILABLE),
    (Category.CUDA_STICKY, lambda seen: seen.code in _STICKY),
    (Category.CUDA_ERROR, lambda seen: seen.code is not None or seen.says(_CUDA_ERROR) or seen.says(_LIBRARY_ERROR)),
    (Category.COMMUNICATION, lambda seen: seen.has(CommunicationError)),
    (Category.IMPORT_ERROR, lambda seen: seen.has(ImportError)),
    (Category.NOT_BUILT, lambda seen: seen.has(NotBuiltError)),
    (Category.NOT_FINITE, lambda seen: seen.has(NotFiniteError)),
    (Category.UNSUPPORTED, lambda seen: seen.has(UnsupportedError)),
)


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def message_of(error: BaseException) -> str:
    """Return the message of the error, or "<unreadable message: …>" if its __str__ raises."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - __str__ of a foreign exception may raise anything
        return f"<unreadable message: {type(broken).__name__}>"


def one_line(error: BaseException) -> str:
    """Return type and first line of the message, such as "ValueError: no such size"; only the type if it is empty."""
    lines = plain(message_of(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _trimmed(text: str) -> str:
    text = plain(text)
    mark = "[…]\n"  # the end of a traceback names the error
    return text if len(text) <= TRACEBACK_LIMIT else mark + text[-(TRACEBACK_LIMIT - len(mark)) :]


def plain(text: str) -> str:
    """Return `text` without escape sequences and control characters except tab and newline; "?" for lone surrogates."""
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return text.encode("utf-8", "replace").decode("utf-8")
