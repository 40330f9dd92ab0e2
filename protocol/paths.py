"""Paths of all files of a run, made here and nowhere else.

runs/<time>-<id>/
  run.yaml   plan.json   journal.gpj   lock   zygote.log   sampler.log
  launches/<cell>/<n>/   stdout.log stderr.log fault.log phase mismatches error.json result.msgpack
                         of several processes also steps, and rank1/ rank2/ … with the logs of the others
  telemetry/<uuid>.samples   telemetry/health.records
  report.json .csv .txt .html   held_against.json
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.cell import slug

_LAUNCHES: Final = "launches"


def attempt_name(cell_id: str, attempt: int) -> str:
    """Folder of a cell's n-th attempt, from 1, within that of its run."""
    return f"{_LAUNCHES}/{cell_id}/{attempt}"


@dataclass(frozen=True)
class LaunchPaths:
    """Folder of one attempt; of several processes, the leader's, which holds those of the others."""

    folder: Path

    def of_rank(self, rank: int) -> "LaunchPaths":
        """Folder of one of the attempt's processes."""
        return self if rank == 0 else LaunchPaths(self.folder / f"rank{rank}")

    @property
    def steps(self) -> Path:
        """Step counters of a gang: protocol.messages.Gang."""
        return self.folder / "steps"

    @property
    def stdout(self) -> Path:
        """Standard output."""
        return self.folder / "stdout.log"

    @property
    def stderr(self) -> Path:
        """Standard error."""
        return self.folder / "stderr.log"

    @property
    def fault(self) -> Path:
        """Stacks dumped by faulthandler: on a crash, and shortly before a deadline."""
        return self.folder / "fault.log"

    @property
    def phase(self) -> Path:
        """Phase that the process has reached, known also if it dies before its message is sent."""
        return self.folder / "phase"

    @property
    def mismatches(self) -> Path:
        """Wrong bits that the process has found: lines of protocol.verification.Seen."""
        return self.folder / "mismatches"

    @property
    def error(self) -> Path:
        """Failure as the process saw it, written before it is sent."""
        return self.folder / "error.json"

    @property
    def unfinished_error(self) -> Path:
        """The error file while it is being written."""
        return self.folder / "error.tmp"

    @property
    def result(self) -> Path:
        """Result, written by the orchestrator before the journal mentions it."""
        return self.folder / "result.msgpack"


@dataclass(frozen=True)
class RunPaths:
    """Folder of one run."""

    folder: Path

    @property
    def config(self) -> Path:
        """Configuration as resolved."""
        return self.folder / "run.yaml"

    @property
    def plan(self) -> Path:
        """Planned cells (perhaps 100,000) and the order of their launches."""
        return self.folder / "plan.json"

    @property
    def held_against(self) -> Path:
        """Baseline, thresholds and price to compare the run with. Missing where none was requested."""
        return self.folder / "held_against.json"

    @property
    def journal(self) -> Path:
        """Append-only record of every attempt."""
        return self.folder / "journal.gpj"

    @property
    def lock(self) -> Path:
        """Lock of the one process that works on this run."""
        return self.folder / "lock"

    def log(self, process: str) -> Path:
        """Output of a long-lived process (zygote, sampler)."""
        return self.folder / f"{process}.log"

    @property
    def telemetry(self) -> Path:
        """Folder of the NVML samples."""
        return self.folder / "telemetry"

    def samples(self, uuid: str) -> Path:
        """Samples of one GPU."""
        return self.telemetry / f"{slug(uuid)}.samples"

    @property
    def health(self) -> Path:
        """Health records of the GPUs and of the machine."""
        return self.telemetry / "health.records"

    @property
    def launches(self) -> Path:
        """Folders of all attempts."""
        return self.folder / _LAUNCHES

    def launch(self, cell_id: str, attempt: int) -> LaunchPaths:
        """Folder of a cell's n-th attempt, from 1."""
        return LaunchPaths(self.folder / attempt_name(cell_id, attempt))

    def results(self) -> Iterator[Path]:
        """Existing results of all attempts."""
        return self.launches.glob("*/*/result.msgpack")

    def of_processes(self, pattern: str) -> Iterator[Path]:
        """Existing files that match `pattern`, of all processes of all attempts."""
        yield from self.launches.glob(f"*/*/{pattern}")
        yield from self.launches.glob(f"*/*/rank*/{pattern}")

    def report(self, suffix: str) -> Path:
        """Report in one of its formats."""
        return self.folder / f"report.{suffix}"
