"""Paths of all files of a run.

runs/<time>-<id>/
  run.yaml   plan.json   journal.gpj   lock   zygote.log   sampler.log
  launches/<cell>/<n>/   stdout.log stderr.log fault.log phase shape mismatches error.json result.msgpack
                         with several processes also steps, and rank1/ rank2/ … with the files of the others
  launches/<cell>/compiler_caches/   until the run is over
  telemetry/<uuid>.samples   telemetry/health.records
  report.json .csv .txt .html   compared_with.json
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.cell import slug

_LAUNCHES: Final = "launches"
_COMPILER_CACHES: Final = "compiler_caches"


class _Inside:
    """Descriptor of LaunchPaths or RunPaths: the path of the entry `name` in its folder, whether it exists or not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: "LaunchPaths | RunPaths", _kind: object = None) -> Path:
        return owner.folder / self._name


def attempt_name(cell_id: str, attempt: int) -> str:
    """Return the folder of a cell's n-th attempt (from 1), relative to the folder of the run.

    cell_id: Cell.id of the cell as planned. The attempt may have another batch size.
    """
    return f"{_LAUNCHES}/{cell_id}/{attempt}"


@dataclass(frozen=True)
class LaunchPaths:
    """Files of one attempt at a cell. With several processes, `folder` is the leader's and contains the others'.

    steps: how many transfers and barriers each of several processes has begun. fault: log of faulthandler. phase,
    shape, mismatches: phase, operator shape and wrong results so far, in case the process dies. error, result: outcome
    of the launch. unfinished_error: `error` while it is written.
    """

    folder: Path

    steps = _Inside("steps")
    stdout = _Inside("stdout.log")
    stderr = _Inside("stderr.log")
    fault = _Inside("fault.log")
    """Stacks dumped by faulthandler: on a crash, and shortly before a deadline."""
    phase = _Inside("phase")
    """Phase that the process has reached, in case it dies before its message is sent."""
    shape = _Inside("shape")
    """Operator shape that the process is measuring, in case it dies meanwhile."""
    mismatches = _Inside("mismatches")  # lines of protocol.verification.Seen
    error = _Inside("error.json")
    """Failure of the launch as its process saw it, written before it is sent."""
    unfinished_error = _Inside("error.tmp")
    result = _Inside("result.msgpack")
    """Result of the launch. The orchestrator writes it before it records the launch in the journal."""

    @property
    def compiler_caches(self) -> Path:
        """Folder of the compiler caches that all attempts at the cell share. It is removed when the run is over."""
        return self.folder.parent / _COMPILER_CACHES

    @property
    def fatal_shape(self) -> str:
        """Name of the operator shape at which the attempt died without a result or an error; otherwise ""."""
        died = not self.result.exists() and not self.error.exists() and self.shape.exists()
        return self.shape.read_text(encoding="utf-8") if died else ""

    def fatal_shapes(self) -> set[str]:
        """Return the operator shapes to skip, because other attempts at the cell died there.

        These are the shape at which the newest other attempt died, if it did, and each shape at which two or more died.
        """
        folders = (folder for folder in self.folder.parent.glob("[0-9]*") if folder != self.folder)
        shapes = [LaunchPaths(one).fatal_shape for one in sorted(folders, key=lambda folder: int(folder.name))]
        return {shape for shape in shapes if shape and (shape == shapes[-1] or shapes.count(shape) > 1)}

    def of_rank(self, rank: int) -> "LaunchPaths":
        """Return the files of the attempt's process with this rank (protocol.messages.Gang)."""
        return self if rank == 0 else LaunchPaths(self.folder / f"rank{rank}")


@dataclass(frozen=True)
class RunPaths:
    """Files of one run, all in `folder`.

    config: settings of the run, without its plan. plan: the cells to measure. compared_with: baseline, thresholds and
    price to compare the run with. lock: held by the process that works on the run, and names it. telemetry: folder of
    the samples. health: health records of the GPUs. launches: folder of the launches.
    """

    folder: Path

    config = _Inside("run.yaml")
    plan = _Inside("plan.json")
    compared_with = _Inside("compared_with.json")
    """Baseline, thresholds and price to compare the run with. Missing if none were requested."""
    journal = _Inside("journal.gpj")
    lock = _Inside("lock")
    telemetry = _Inside("telemetry")
    health = _Inside("telemetry/health.records")
    launches = _Inside(_LAUNCHES)

    def log(self, process: str) -> Path:
        """Return the path of the log of a long-lived process (zygote, sampler)."""
        return self.folder / f"{process}.log"

    def samples(self, uuid: str) -> Path:
        """Return the path of one GPU's samples of power, clocks and temperature."""
        return self.telemetry / f"{slug(uuid)}.samples"

    def launch(self, cell_id: str, attempt: int) -> LaunchPaths:
        """Return the files of a cell's n-th attempt.

        cell_id: Cell.id of the cell as planned. attempt: number of the attempt, from 1.
        """
        return LaunchPaths(self.folder / attempt_name(cell_id, attempt))

    def results(self) -> Iterator[str]:
        """Yield the folders in `launches` that hold a result, as "<cell>/<n>", in no order. Skip unreadable ones."""
        for cell in _folders(self.launches):
            for attempt in _folders(cell):
                if os.access(f"{attempt.path}/result.msgpack", os.F_OK):
                    yield f"{cell.name}/{attempt.name}"

    def compiler_caches(self) -> Iterator[Path]:
        """Yield the existing caches of the compiler, a folder for each cell that is compiled or may compile itself."""
        yield from self.launches.glob(f"*/{_COMPILER_CACHES}")

    def of_processes(self, pattern: str) -> Iterator[Path]:
        """Yield the existing files whose names match the glob `pattern`, of all processes of all launches."""
        yield from self.launches.glob(f"*/*/{pattern}")
        yield from self.launches.glob(f"*/*/rank*/{pattern}")

    def report(self, suffix: str) -> Path:
        """Return the path of the report with this suffix, given without a dot: "json"."""
        return self.folder / f"report.{suffix}"


def _folders(path: os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(path) as entries:
        yield from (entry for entry in entries if entry.is_dir())
