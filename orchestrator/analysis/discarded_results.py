"""What burn-in launches without a result that counts have verified: wrong bits still count.

the result was withdrawn ──────────────────────────▶ its file, as the journal promised it
no result, or a damaged file ──────────────────────▶ the mismatches that each process wrote when it saw them
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.state.archive import Archive, ResultFileError
from orchestrator.state.attempts import Attempt
from orchestrator.system import safe_read
from protocol.paths import LaunchPaths
from protocol.verification import KEPT_MISMATCHES, Mismatch, Seen, Verification

CAP_BYTES: Final = 1 << 20
"""Expected: 16 mismatches, each written two or three times with 16 elements, 100 kB."""
_LONGEST_NS: Final = 366 * 86_400 * 10**9
UNREAD: Final = "what it found wrong"
"""Named as not tested for a launch whose folder cannot be entered."""
_SEEN: Final = msgspec.json.Decoder(Seen)


def verified(archive: Archive, attempt: Attempt, devices: tuple[str, ...]) -> dict[str, Verification]:
    """Map the devices of a launch without a counted result to what it verified there; empty where that is nothing."""
    if attempt.withdrawn is not None:
        with suppress(ResultFileError):  # damaged: use the files of mismatches
            result = archive.withdrawn_result(attempt)
            return {} if result.verification is None else {devices[0]: result.verification, **result.others}
    folder = archive.folder(attempt)
    seen = {device: _seen(folder.of_rank(rank), attempt, devices) for rank, device in enumerate(devices)}
    return seen if any(one.mismatches or one.not_tested for one in seen.values()) else {}


def _seen(paths: LaunchPaths, attempt: Attempt, devices: tuple[str, ...]) -> Verification:
    """Read one process's file of mismatches, which exists only after one: without a whole line it counts as one."""
    lines: list[bytes] = []
    try:
        lines = safe_read.read(paths.mismatches, cap_bytes=CAP_BYTES).split(b"\n")
    except FileNotFoundError:
        return Verification(key=(), method="", checks=0)
    except OSError:  # somebody else's, too large, damaged: it hides what it holds, not that there is something
        try:
            paths.mismatches.lstat()
        except FileNotFoundError:
            return Verification(key=(), method="", checks=0)
        except OSError as error:  # a folder that cannot be entered, or none
            return Verification(key=(), method="", checks=0, not_tested={UNREAD: error.strerror or str(error)})
    kept: dict[int, Mismatch] = {one.at: one.mismatch for one in _whole(lines, attempt, devices)}
    found = tuple(kept[at] for at in sorted(kept))
    return Verification(key=(), method="", checks=0, mismatches=len(found) or 1, kept=found)


def _whole(lines: list[bytes], attempt: Attempt, devices: tuple[str, ...]) -> Iterator[Seen]:
    """The valid lines: the last is torn where the worker died, others where the disk was full."""
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            one = _SEEN.decode(line)
            after_ns = one.mismatch.at_ns - attempt.start.at_ns
            known = one.mismatch.sender is None or one.mismatch.sender in devices
            if known and 0 <= one.at < KEPT_MISMATCHES and 0 <= after_ns <= _LONGEST_NS:
                yield one
