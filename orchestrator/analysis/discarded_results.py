"""Read the wrong bits (mismatches) found by burn-in launches whose result is missing, damaged or withdrawn.

A result is withdrawn if its device was throttled or used by others. Wrong bits are faults of the device nevertheless.
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

CAP_BYTES: Final = 1 << 20  # Expected: 16 mismatches, each written two or three times with 16 elements, 100 kB
_LONGEST_NS: Final = 366 * 86_400 * 10**9
UNREAD: Final = "what it found wrong"  # Named as not tested for a launch whose folder cannot be entered
_SEEN: Final = msgspec.json.Decoder(Seen)


def read_verification(archive: Archive, attempt: Attempt, devices: tuple[str, ...]) -> dict[str, Verification]:
    """Return device UUID → what the device verified in an attempt without a valid result, with its mismatches.

    devices: UUIDs, that of rank 0 first. Reads the withdrawn result, or the files of mismatches if it is missing or
    damaged. {} if the result verified nothing, or the files show nothing.
    """
    if attempt.withdrawn is not None:
        with suppress(ResultFileError):  # damaged: use the files of mismatches
            result = archive.withdrawn_result(attempt)
            return {} if result.verification is None else {devices[0]: result.verification, **result.others}
    folder = archive.folder(attempt)  # each process writes a mismatch when it sees it
    found = {device: _read_mismatches(folder.of_rank(rank), attempt, devices) for rank, device in enumerate(devices)}
    return found if any(verification.mismatches or verification.not_tested for verification in found.values()) else {}


def _read_mismatches(paths: LaunchPaths, attempt: Attempt, devices: tuple[str, ...]) -> Verification:
    """Return the mismatches that one process of a launch wrote to its file.

    paths: files of this process. devices: UUIDs of all devices of the launch. A process creates the file at its first
    mismatch. No file therefore means no mismatch, and a file that is unreadable or has no valid line means one. If the
    folder cannot be read, `not_tested` says why.
    """
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
    kept: dict[int, Mismatch] = {seen.at: seen.mismatch for seen in _read_lines(lines, attempt, devices)}
    mismatches = tuple(kept[at] for at in sorted(kept))
    return Verification(key=(), method="", checks=0, mismatches=len(mismatches) or 1, kept=mismatches)


def _read_lines(lines: list[bytes], attempt: Attempt, devices: tuple[str, ...]) -> Iterator[Seen]:
    """Yield the mismatches in the lines of a file of mismatches, without the invalid lines.

    A line is invalid if it is broken, its time or index is impossible in `attempt`, or its sender is not in `devices`,
    the UUIDs of the launch.
    """
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            seen = _SEEN.decode(line)
            after_ns = seen.mismatch.at_ns - attempt.start.at_ns
            is_known_sender = seen.mismatch.sender is None or seen.mismatch.sender in devices
            if is_known_sender and 0 <= seen.at < KEPT_MISMATCHES and 0 <= after_ns <= _LONGEST_NS:
                yield seen
