"""Transcripts: commands on a machine of two cores and no GPU, with what they answer.

`= FILE` writes the lines behind it that begin with `| `. `$ WORDS` calls `gpubench-orchestrate`. Indented lines are its
answer; the last one is the exit code in brackets where it is not 0. `$ WORDS | grep WORD` leaves the sentences that
begin a line with the word. Other lines are comments.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from unittest import mock

from orchestrator.engine import run
from orchestrator.gpu import inventory
from tests.fakes import damages
from tests.fakes.histories import kept, record
from tests.golden.rendering import HERE, INPUTS, call, neutral_environment

TRANSCRIPTS: Final = HERE / "transcripts"
NO_GPU: Final = inventory.Inventory(
    gpus=(), nvml=inventory.NvmlStatus.ABSENT, reason="no NVIDIA driver on this machine"
)
_PROC: Final = re.compile(r"(/proc\S*: cannot be written): [^.]+")
"""The reason is another one for root."""


def _history(folder: Path) -> None:
    """Record three runs; the last one failed its burn-in."""
    records = [record(1), record(2, 90.0), record(3, burn_in="FAIL", burn_in_words="wrong bits")]
    kept(folder / "data" / "gpubench", records)


def _two_runs(folder: Path) -> None:
    """Copy two stored runs."""
    for name in ("before", "after"):
        shutil.copytree(INPUTS / name, folder / name)


PREPARED: Final[dict[str, Callable[[Path], None]]] = {
    "history": _history,
    "compare": _two_runs,
    "damaged": damages.prepare,
}


def names() -> list[str]:
    return sorted(path.stem for path in TRANSCRIPTS.glob("*.txt"))


def stored(name: str) -> str:
    return (TRANSCRIPTS / f"{name}.txt").read_text(encoding="utf-8")


def play(name: str) -> str:
    """Return the transcript with the answers of today. Raises AssertionError where a command changes a file."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place).resolve()
        PREPARED.get(name, lambda _: None)(folder)
        stack.enter_context(neutral_environment(folder))
        os.environ |= {"XDG_DATA_HOME": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
        for target, attribute, value in (
            (inventory, "look", lambda *_: inventory.Seen(inventory=NO_GPU)),
            (os, "sched_getaffinity", lambda _: {0, 1}),
            (run, "execute", mock.Mock(side_effect=AssertionError("a run was started"))),
        ):
            stack.enter_context(mock.patch.object(target, attribute, value))
        return "".join(f"{line}\n" for line in _played(stored(name), folder))


def _played(text: str, folder: Path) -> Iterator[str]:
    file = folder / "none"
    for line in text.splitlines():
        if line.startswith(" "):
            continue
        yield line
        if line.startswith("= "):
            file = folder / line[2:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("", encoding="utf-8")
        elif line.startswith("|"):
            with file.open("a", encoding="utf-8") as opened:
                opened.write(f"{line[2:]}\n")
        elif line.startswith("$ "):
            yield from _answer(line[2:], folder)


def _answer(words: str, folder: Path) -> Iterator[str]:
    before = _files(folder)
    words, _, wanted = words.partition(" | grep ")
    done = call(*shlex.split(words))
    assert _files(folder) == before, f"{words}: it wrote or left a file"
    answer = _PROC.sub(r"\1: REASON", (done.stdout + done.stderr).replace(str(folder), "/folder"))
    found = re.findall(rf"^{wanted}.*(?:\n  .*)*", answer, re.MULTILINE)
    for line in [" ".join(one.split()) for one in found] if wanted else answer.splitlines():
        yield f"    {line}".rstrip()
    if done.exit_code:
        yield f"    [{done.exit_code}]"


def _files(folder: Path) -> dict[Path, int]:
    """Return every file with the time of its last change, and every folder."""
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}
