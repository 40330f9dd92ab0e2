"""Damaged files of a run: every command gives advice."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.store.journal import MAGIC, Journal
from orchestrator.store.records import Finished
from protocol.exit_codes import ExitCode
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]
Damage = Callable[[FakeRun], object]


def unknown_record(run: FakeRun) -> None:
    """Append a record of a later version."""

    class Unheard(Finished, frozen=True, kw_only=True, tag=True):
        """A kind that this version has never heard of."""

    with Journal(run.paths.journal) as journal:
        journal.append(Unheard(at_ns=1, interrupted=False))


def flipped(path: Path, place: int) -> None:
    """Flip a bit of the file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def senseless(run: FakeRun) -> None:
    """Start the run twice, with correct checksums."""
    with Journal(run.paths.journal) as journal:
        journal.append(journal.recovered[0])


DAMAGES: dict[str, tuple[str, Damage]] = {
    "no YAML": ("run.yaml", lambda run: run.paths.config.write_text("a: [")),
    "not what is stored": ("run.yaml", lambda run: run.paths.config.write_text("tool_version: 1")),
    "no plan": ("plan.json", lambda run: run.paths.plan.unlink()),
    "no JSON": ("plan.json", lambda run: run.paths.plan.write_text("{")),
    "too large": ("run.yaml", lambda run: run.paths.config.write_bytes(b"#" * (16 << 20) + b"\n")),
    "no journal": ("journal.gpj", lambda run: run.paths.journal.unlink()),
    "another file": ("journal.gpj", lambda run: run.paths.journal.write_text("something else entirely, and long")),
    "empty journal": ("journal.gpj", lambda run: run.paths.journal.write_bytes(MAGIC)),
    "flipped bit": ("journal.gpj", lambda run: flipped(run.paths.journal, len(MAGIC) + 30)),
    "unknown record": ("journal.gpj", unknown_record),
    "begins twice": ("journal.gpj", senseless),
}


@pytest.mark.parametrize("command", ["report", "explain"])
@pytest.mark.parametrize(("file", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_comes_with_advice(
    invoke: Invoke, tmp_path: Path, command: str, file: str, damage: Damage
) -> None:
    """The file to restore, what to do without it, and where the results are."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell())
    run.finish()
    damage(run)
    refused = invoke(command, str(run.paths.folder))
    assert refused.exit_code == ExitCode.USAGE
    put_back = f"Put a sound {file} of this run back: then `gpubench-orchestrate report {run.paths.folder}`"
    assert put_back in refused.stderr
    assert "Without one, begin a new run." in refused.stderr
    assert f"The raw results are still in {run.paths.launches}" in refused.stderr
    (run.paths.folder / "report.txt").touch()
    again = invoke(command, str(run.paths.folder)).stderr
    assert f"The report that was made before is still there: {run.paths.folder / 'report.txt'}." in again


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_records_can_be_resumed(invoke: Invoke, tmp_path: Path, begun: bool) -> None:
    """Killed before its first record, it is not damaged."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.paths.journal.unlink()
    if begun:
        run.paths.journal.write_bytes(MAGIC)
    refused = invoke("report", str(run.paths.folder))
    assert (refused.exit_code, refused.stderr) == (
        ExitCode.USAGE,
        f"error: {run.paths.folder}: nothing was recorded yet, so there is nothing to report. `gpubench-orchestrate "
        f"resume {run.paths.folder}` begins the run.\n",
    )
