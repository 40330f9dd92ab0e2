"""How commands end: the exit code, and what is said with it."""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator import report
from orchestrator.cli import program
from orchestrator.cli.exit_notification import Ending, in_one_line
from orchestrator.cli.status import describe
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run
from orchestrator.engine.run_status import look
from orchestrator.errors import StorageError, UserError
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.exit_code import RunVerdict
from orchestrator.figures.report import CellCounts, Report
from orchestrator.gpu import inventory
from orchestrator.gpu.health.verdict import HealthVerdict as Health
from orchestrator.report import files
from orchestrator.report.as_text import to_text
from orchestrator.run_reports import reporting
from orchestrator.stats.stragglers import SiblingVerdict as Straggling
from orchestrator.store import run_files
from orchestrator.system.stop_signals import StopSignals
from protocol.exit_codes import MEANING, ExitCode
from protocol.paths import RunPaths
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.commands import TINY
from tests.fakes.runs import FakeRun, gpus, shipped

Invoke = Callable[..., Result]


def mount(folder: Path) -> Path:
    """Where the file system of a folder is mounted."""
    return next(place for place in (folder, *folder.parents) if place.is_mount())


def finished(stored: StoredRun, paths: RunPaths, *_: object, **__: object) -> Report:
    """In place of run.execute: write the report of a run that measured nothing."""
    made = FakeRun(paths.folder, models=shipped("lstm"))
    made.finish()
    asked = {"formats": stored.configuration.formats, "output_path": stored.configuration.output_path}
    return reporting.write(replace(made.stored, configuration=replace(made.stored.configuration, **asked)), paths)


def test_a_disk_that_refuses_ends_with_five(invoke: Invoke, executed: list[object]) -> None:
    """A storage error is told without a traceback, and with what to do about the run."""
    ended = invoke(*TINY, "--quiet")
    [(_, paths)] = executed
    assert ended.exit_code == ExitCode.INTERNAL
    folder = paths.folder
    remedies = rf" {mount(folder)}, .* {folder}, .*`gpubench-orchestrate report {folder}`.* resume {folder}`"
    assert re.fullmatch(rf"error: disk full\. .*{remedies}.*\n", ended.stderr)
    assert re.fullmatch(rf"{folder.name}: .*, exit code 5; run: {folder}\n", ended.stdout)


def test_a_disk_that_refuses_the_plan_begins_nothing(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do is said, and no folder is left, or named, that is none of a run."""

    def store(*_: object, **__: object) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(run_files, "store", store)
    ended = invoke(*TINY, "--quiet")
    assert (ended.exit_code, ended.stdout) == (ExitCode.USAGE, "")
    assert re.fullmatch(r"error: --runs-folder: disk full\. .*another folder\.\n", ended.stderr)
    assert list(Path("runs").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "remedy", "options"),
    [
        (errno.ENOSPC, "Free space", ()),
        (errno.EACCES, "Get write permission", ("--log-format", "json")),
        (errno.EIO, "Fix", ()),
    ],
)
def test_a_report_that_cannot_be_copied_is_no_run_that_broke_off(
    *,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: int,
    remedy: str,
    options: tuple[str, ...],
) -> None:
    """The run is over and its report is in its folder; why only -o has none; nothing is said of measuring the rest."""

    def refuse(*_: object, **__: object) -> None:
        cause = OSError(number, os.strerror(number))
        raise StorageError(f"/out.json: cannot be written: {cause.strerror}") from cause

    monkeypatch.setattr(report, "publish", refuse)
    monkeypatch.setattr(run, "execute", finished)
    told = tmp_path / "told"
    hook = ("--on-failure", f"sh -c 'echo $GPUBENCH_EXIT_CODE $GPUBENCH_VERDICT $GPUBENCH_REPORT > {told}'")
    ended = invoke(*TINY, "--quiet", *options, *hook)
    [folder] = (tmp_path / "runs").iterdir()
    file = folder / "report.json"
    assert ended.exit_code == ExitCode.INTERNAL
    assert re.fullmatch(rf"{folder.name}: incomplete, .* code 5: [^;]+; report: {file}\n", ended.stdout)
    *before, error = ended.stderr.splitlines()
    if "json" in options:
        over, said = json.loads(before[-1]), json.loads(error)
        assert (over["event"], over["exit_code"], over["verdict"]) == ("run_ended", 5, "incomplete")
        assert over["reports"] == [str(file)]
        assert (said["level"], said["message"][:10]) == ("error", "/out.json:")
    assert os.strerror(number) in error
    assert re.search(rf" is over .* {file}; .* -o ", error)
    assert remedy in error
    assert ("Free space" in error) is (number == errno.ENOSPC)
    assert "resume" not in error
    assert told.read_text() == f"5 incomplete {file}\n"


@pytest.mark.parametrize(("refused", "named"), [("*.html", "runs/*/report.json"), ("runs/*/*", "out.html")])
def test_whoever_is_told_gets_the_report_that_is_there(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: str, named: str
) -> None:
    """Asked for a page: where the disk refuses it, the JSON; where only the run's folder is full, the page at -o."""
    write = files.write_parts_durably

    def full(path: Path, parts: Iterable[bytes], **how: Any) -> None:
        if path.match(refused):
            raise StorageError(f"{path}: full")
        write(path, parts, **how)

    monkeypatch.setattr(files, "write_parts_durably", full)
    monkeypatch.setattr(run, "execute", finished)
    ended = invoke(*TINY, "--quiet", "-o", "out.html", "--on-failure", "sh -c 'echo $GPUBENCH_REPORT > told'")
    [report_file] = tmp_path.glob(named)
    assert (ended.exit_code, Path("told").read_text()) == (ExitCode.INTERNAL, f"{report_file}\n")
    assert re.search(rf"exit code 5: [^;]+; report: {report_file}\n$", ended.stdout)
    assert f" is in {report_file}" in ended.stderr


@pytest.mark.parametrize("command", ["run -m nosuch", "ops --op nosuch", "study nosuch", "gate --ab lstm nosuch"])
def test_a_refused_run_runs_the_users_commands(invoke: Invoke, tmp_path: Path, command: str) -> None:
    """Whichever command measures: a mistake in a cron job would otherwise stay unnoticed."""
    told = tmp_path / "told"
    ended = invoke(*command.split(), "--gpu-ids", "cpu:0", "--on-failure", f"sh -c 'echo $GPUBENCH_EXIT_CODE > {told}'")
    assert ended.exit_code == ExitCode.USAGE
    assert told.read_text() == "2\n"


def test_what_is_refused_ends_without_a_line(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was run, so nothing has ended."""

    def execute(*_: object, **__: object) -> None:
        raise UserError("in use")

    monkeypatch.setattr(run, "execute", execute)
    ended = invoke(*TINY, "--quiet")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (ExitCode.USAGE, "", "error: in use\n")


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (
            ZeroDivisionError("of ours"),
            ExitCode.INTERNAL,
            ("\nZeroDivisionError: of ours\n", "CONTRIBUTING.md says how"),
        ),
        (KeyboardInterrupt(), ExitCode.INCOMPLETE, ("error: interrupted\n",)),
    ],
)
def test_an_end_before_the_run_has_its_code(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: ExitCode, told: tuple[str, ...]
) -> None:
    """A mistake of ours has a traceback, and what to do with it. Ctrl-C while devices are looked for is no failure."""

    def look(*_: object) -> None:
        raise raised

    monkeypatch.setattr(inventory, "look", look)
    ended = invoke("info")
    assert (ended.exit_code, [part for part in told if part not in ended.stderr]) == (code, [])
    assert ("Traceback" in ended.stderr) is (code is ExitCode.INTERNAL)


def test_messages_are_folded_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal to its width below "error: ", elsewhere on one line, for grep."""
    text = "error: " + "word " * 40
    assert program.wrapped(text) == text
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    lines = program.wrapped(text).splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("       word") for line in lines[1:])


@pytest.mark.parametrize(
    "what",
    ["", "a suspect", "degraded", "referred", "does_not_fit", "a GPU", "the machine", "the burn-in", "a straggler"],
)
def test_strict_counts_what_is_imperfect(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    """A cell, WARN of a GPU, of the machine or of a burn-in, and a straggler pass unless --strict is given.

    The report of what passed mentions --strict exactly then.
    """
    burn_in_run = FakeBurnIn(tmp_path / "pretended", gpus(1))
    burn_in_run.finish()
    told = burn_in_run.report()
    assert told.burn_in is not None
    gpu, node, whole = (Health.WARN if what == who else Health.PASS for who in ("a GPU", "the machine", "the burn-in"))
    (only,) = told.health.gpus
    health = replace(told.health, gpus=(replace(only, verdict=gpu),), node=replace(told.health.node, verdict=node))
    counts = {name: int(name == what) for name in ("degraded", "referred", "does_not_fit")}
    told = replace(
        told,
        verdict=RunVerdict(exit_code=0, word="passed", meaning=MEANING[ExitCode.PASSED], reasons=()),
        summary=replace(told.summary, cells=replace(told.summary.cells, **counts)),
        health=health,
        burn_in=replace(told.burn_in, verdict=whole),
        stragglers=tuple(
            replace(standing(verdict), gpu_uuid=only.gpu_uuid)
            for verdict in (Straggling.STRAGGLER, Straggling.SUSPECT)
            if what == f"a {verdict.lower()}"
        ),
    )
    imperfect = what not in {"", "a suspect"}
    assert ("--strict" in to_text(told)) is imperfect
    monkeypatch.setattr(run, "execute", lambda *_, **__: told)
    assert invoke(*TINY, "--quiet").exit_code == ExitCode.PASSED
    silent = invoke(*TINY, "-qq", "--strict")
    assert (silent.exit_code, silent.output) == (ExitCode.MISSED if imperfect else ExitCode.PASSED, "")


def standing(verdict: Straggling) -> Standing:
    """How a GPU stands beside its siblings."""
    nothing = dict.fromkeys(("percent", "low_percent", "high_percent", "p", "reason", "launches_wanted"))
    return msgspec.convert(
        {
            **{"gpu_uuid": "GPU-a", "gpu_id": 0, "gpu_name": "a GPU", "verdict": verdict, "why": "", "identical": 8},
            **{"effects": (), "slowest_cells": (), "reason_text": "", "next_step": "", "not_comparable": {}},
            **nothing,
        },
        Standing,
    )


@pytest.mark.parametrize("dropped", [14, 0])
def test_the_last_line_says_why_there_is_less_and_yet_nothing_failed(dropped: int) -> None:
    """Exit code 0 beside cells that are missing needs its reason where it is read."""
    none = dict.fromkeys(CellCounts.__struct_fields__, 0)
    cells = CellCounts(**none | {"planned": 19, "ok": 5, "dropped": dropped})
    numbers = re.findall(r"\d+", in_one_line("run", "complete", cells, 0, None))
    assert numbers == ["5", "19", *(["14"] if dropped else []), "0"]


def test_the_last_line_says_why_the_code_is_not_0() -> None:
    """All cells may be ok, and the code 4 all the same."""
    cells = CellCounts(**dict.fromkeys(CellCounts.__struct_fields__, 0) | {"planned": 4, "ok": 4})
    told = in_one_line("run", "incomplete", cells, 4, "r.json", why="GPU 0: unknown")
    assert re.fullmatch("run: incomplete, 4 of 4 .* 4: GPU 0: unknown; .*r.json", told)


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["PASS"] * 8, "8 PASS"),
        (["PASS", "PASS", "FAIL", "PASS"], "3 PASS, GPU 2 FAIL"),
        (["WARN", "UNKNOWN", "FAIL"], "GPU 2 FAIL, GPU 1 UNKNOWN, GPU 0 WARN"),
        (["UNKNOWN"] * 7 + ["FAIL"], "GPU 7 FAIL, 7 UNKNOWN"),
    ],
)
def test_the_last_line_of_a_burn_in_has_its_verdicts(verdicts: list[str], words: str) -> None:
    """With --quiet it is all that is told: who did not pass is named, unless there are many."""
    cells = CellCounts(**dict.fromkeys(CellCounts.__struct_fields__, 0) | {"planned": 13, "ok": 13})
    judged = {f"GPU {number}": verdict for number, verdict in enumerate(verdicts)}
    told = in_one_line("run", "complete", cells, 3, "r.json", burn_in=judged)
    end = f"burn-in: {words}; exit code 3; report: r.json"
    assert re.fullmatch(rf"run: complete, 13 of 13 [^;]*; {end}", told)


def test_a_burn_in_that_is_over_says_it_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its end, to who is told, and in `status`."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda _fd: None)
    burn_in_run = FakeBurnIn(tmp_path / "run", gpus(2), "10m")
    burn_in_run.work(last=2)
    burn_in_run.well()
    burn_in_run.finish()
    report = reporting.write(burn_in_run.stored, burn_in_run.paths)
    with StopSignals() as stop_signals:
        ending = Ending(stop_signals)
    ending.paths = burn_in_run.paths
    ending.reported(report, None, ExitCode.INCOMPLETE, "")
    status, _ = look(run_files.load(burn_in_run.paths), burn_in_run.paths)
    for line in (ending.line(), describe(status)):
        assert "; burn-in: GPU 0 UNKNOWN, GPU 1 UNKNOWN; exit code 4" in line
