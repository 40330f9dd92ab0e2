"""What launches of a burn-in verified whose result does not count, or that have none: wrong bits are wrong bits.

    the result was withdrawn ──────────────────────────▶ its file, as the journal promised it
    none came, or its file is damaged ─────────────────▶ the mismatches of each process, written when they were seen
     (killed, crashed, hung, ended with the run or with the other devices of a gang, interrupted)

A GPU that errs is one that may end its process next. Nothing else of such a launch says anything, neither its rates nor
the checks that found nothing; but bits of a withdrawn result are held against those of others, for nobody beside it
changes them.
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
"""Each of 16 mismatches is written two or three times, with 16 elements each: 100 kB."""
_LONGEST_NS: Final = 366 * 86_400 * 10**9
UNREAD: Final = "what it found wrong"
"""Of a launch whose folder cannot be entered: named as not tested, with why."""
_SEEN: Final = msgspec.json.Decoder(Seen)


def verified(archive: Archive, attempt: Attempt, devices: tuple[str, ...]) -> dict[str, Verification]:
    """Device → what a launch without a result that counts verified there; empty where that is nothing.

    devices: of its cell. From a file of mismatches no more is known than these.
    """
    if attempt.withdrawn is not None:
        with suppress(ResultFileError):  # damaged: the files of mismatches are left
            result = archive.withdrawn_result(attempt)
            return {} if result.verification is None else {devices[0]: result.verification, **result.others}
    folder = archive.folder(attempt)
    seen = {device: _seen(folder.of_rank(rank), attempt, devices) for rank, device in enumerate(devices)}
    return seen if any(one.mismatches or one.not_tested for one in seen.values()) else {}


def _seen(paths: LaunchPaths, attempt: Attempt, devices: tuple[str, ...]) -> Verification:
    """From the file of one process. It is made for a mismatch alone: without a line that is whole, one is in it.

    Where nobody can see whether it was made, UNREAD is not tested.
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
    kept: dict[int, Mismatch] = {one.at: one.mismatch for one in _whole(lines, attempt, devices)}
    found = tuple(kept[at] for at in sorted(kept))
    return Verification(key=(), method="", checks=0, mismatches=len(found) or 1, kept=found)


def _whole(lines: list[bytes], attempt: Attempt, devices: tuple[str, ...]) -> Iterator[Seen]:
    """Lines that are what a worker writes: the last one is torn where it died, others where the disk was full."""
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            one = _SEEN.decode(line)
            after_ns = one.mismatch.at_ns - attempt.start.at_ns
            known = one.mismatch.sender is None or one.mismatch.sender in devices
            if known and 0 <= one.at < KEPT_MISMATCHES and 0 <= after_ns <= _LONGEST_NS:
                yield one
