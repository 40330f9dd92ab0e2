"""Where everything of a run lies.

    runs/<time>-<id>/
      run.yaml   plan.json   journal.gpj   lock   zygote.log   sampler.log
      launches/<cell>/<n>/   stdout.log stderr.log fault.log phase mismatches error.json result.msgpack
                             of several processes also steps, and rank1/ rank2/ … with the logs of the others
      telemetry/<uuid>.samples   telemetry/health.records
      report.json .csv .txt .html   held_against.json

All paths of a run are made here and nowhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.cell import slug

_LAUNCHES: Final = "launches"


def attempt_name(cell_id: str, attempt: int) -> str:
    """The folder of the n-th attempt, counted from 1, at a cell, as reports name it: within that of its run."""
    return f"{_LAUNCHES}/{cell_id}/{attempt}"


@dataclass(frozen=True)
class LaunchPaths:
    """The folder of one attempt; of several processes, that of the one which leads, and holds those of the others."""

    folder: Path

    def of_rank(self, rank: int) -> "LaunchPaths":
        """Folder of one of the attempt's processes."""
        return self if rank == 0 else LaunchPaths(self.folder / f"rank{rank}")

    @property
    def steps(self) -> Path:
        """What the processes of a gang have begun together: protocol.messages.Gang."""
        return self.folder / "steps"

    @property
    def stdout(self) -> Path:
        """What the process printed."""
        return self.folder / "stdout.log"

    @property
    def stderr(self) -> Path:
        """What it complained about."""
        return self.folder / "stderr.log"

    @property
    def fault(self) -> Path:
        """Stacks that faulthandler dumped: on a crash, and shortly before a deadline."""
        return self.folder / "fault.log"

    @property
    def phase(self) -> Path:
        """The phase that the process has reached: known also when it dies before its message is on the way."""
        return self.folder / "phase"

    @property
    def mismatches(self) -> Path:
        """Wrong bits that the process has found, a line whenever more is known of them: protocol.verification.Seen."""
        return self.folder / "mismatches"

    @property
    def error(self) -> Path:
        """The failure as the process saw it, written before it is sent."""
        return self.folder / "error.json"

    @property
    def unfinished_error(self) -> Path:
        """The same while it is being written."""
        return self.folder / "error.tmp"

    @property
    def result(self) -> Path:
        """The result, written by the orchestrator before the journal says so."""
        return self.folder / "result.msgpack"


@dataclass(frozen=True)
class RunPaths:
    """The folder of one run."""

    folder: Path

    @property
    def config(self) -> Path:
        """The configuration as resolved."""
        return self.folder / "run.yaml"

    @property
    def plan(self) -> Path:
        """The planned cells, and the order of their launches: there may be a hundred thousand of them."""
        return self.folder / "plan.json"

    @property
    def held_against(self) -> Path:
        """What the run is held against: baseline, thresholds, price. Missing where nobody asked for any."""
        return self.folder / "held_against.json"

    @property
    def journal(self) -> Path:
        """Append-only record of every attempt."""
        return self.folder / "journal.gpj"

    @property
    def lock(self) -> Path:
        """Held by the one process that works on this run."""
        return self.folder / "lock"

    def log(self, process: str) -> Path:
        """What one of the long-lived processes (zygote, sampler) printed."""
        return self.folder / f"{process}.log"

    @property
    def telemetry(self) -> Path:
        """NVML samples of the whole run, a file for each GPU."""
        return self.folder / "telemetry"

    def samples(self, uuid: str) -> Path:
        """Samples of one GPU."""
        return self.telemetry / f"{slug(uuid)}.samples"

    @property
    def health(self) -> Path:
        """What the telemetry process saw of the health of the GPUs and of the machine."""
        return self.telemetry / "health.records"

    @property
    def launches(self) -> Path:
        """Folders of all attempts."""
        return self.folder / _LAUNCHES

    def launch(self, cell_id: str, attempt: int) -> LaunchPaths:
        """Folder of the n-th attempt, counted from 1, at a cell."""
        return LaunchPaths(self.folder / attempt_name(cell_id, attempt))

    def results(self) -> Iterator[Path]:
        """The results that are there, of all attempts."""
        return self.launches.glob("*/*/result.msgpack")

    def of_processes(self, pattern: str) -> Iterator[Path]:
        """The files of such a name that are there, of all processes of all attempts."""
        yield from self.launches.glob(f"*/*/{pattern}")
        yield from self.launches.glob(f"*/*/rank*/{pattern}")

    def report(self, suffix: str) -> Path:
        """The report in one of its formats."""
        return self.folder / f"report.{suffix}"
