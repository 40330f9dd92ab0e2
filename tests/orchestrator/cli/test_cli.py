"""The two programs: every option, what is stored with a run, and the whole way from command to report."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from click.testing import Result

from orchestrator import TOOL_VERSION
from orchestrator.cli import decorators, program
from orchestrator.cli.commands import benchmark, orchestrate
from orchestrator.compare import references
from orchestrator.config.run_configuration import StoredRun
from orchestrator.gpu import devices
from orchestrator.store import folders
from protocol.paths import RunPaths
from tests.fakes.commands import ALL_COMMANDS, TINY, python
from tests.fakes.nvml import ROOT

HEAVY = {"torch", "torchvision", "transformers", "pandas", "numpy", "scipy", "zmq", "rich", "structlog", "jinja2"}

Invoke = Callable[..., Result]


# ── options and help ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [orchestrate, benchmark.commands["run"]])
def test_every_option_of_the_requirements_exists(command: click.Command) -> None:
    """Section 5.2.1 of the requirements document, for both programs."""
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    short = {"-m", "-b", "-p", "-i", "-w", "-o", "-f", "-v"}
    long = {"--models", "--batch-sizes", "--precision", "--iterations", "--warmup", "--output", "--format"}
    long |= {"--gpu-ids", "--multi-gpu", "--monitor-gpu", "--compare-baseline", "--verbose", "--config"}
    assert short | long <= names
    assert set(command.context_settings.get("help_option_names", program.SETTINGS["help_option_names"])) == {
        "-h",
        "--help",
    }


def test_both_programs_share_their_options_and_commands() -> None:
    """What can be said to one can be said to the other."""
    own = {option.name for option in orchestrate.params} - {"version"}
    assert own == {option.name for option in benchmark.commands["run"].params}
    assert set(orchestrate.commands) == set(benchmark.commands)
    measuring = {"run", "quick", "triage", "resume", "gate", "ops", "study"}
    looking = {"status", "watch", "stop", "report", "explain", "doctor", "info", "list-models", "completion"}
    assert set(benchmark.commands) == measuring | looking | {"selftest", "compare", "make-baseline", "history"}


def test_every_option_says_what_it_is() -> None:
    """--help has a line for each, and a parameter for each is read."""
    assert all(isinstance(option, click.Option) and option.help for option in orchestrate.params)
    names = {option.name for option in orchestrate.params} - {"version"}
    assert names == {option.name for option in decorators.OPTIONS if option.flags}


def asked_for(line: str, program: str) -> list[str]:
    """The words of an example behind the program's name, without what explains or surrounds them."""
    return shlex.split(re.split(r"  |[|)]", line[line.index(program) :])[0])[1:]


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[path for path, _ in ALL_COMMANDS])
def test_every_command_shows_examples_that_it_understands(invoke: Invoke, path: str, command: click.Command) -> None:
    """Two to five lines within 80 columns, of the program that was called, with valid commands and options."""
    program, *words = path.split()
    root = benchmark if program == benchmark.name else orchestrate
    shown = invoke(*words, "--help", command=root).output
    assert max(map(len, shown.splitlines())) <= 80
    examples = [line.strip() for line in shown.partition("\n  Examples:\n")[2].partition("\n\n")[0].splitlines()]
    assert 2 <= len(examples) <= 5
    for line in examples:
        meant, rest = root, asked_for(line, program)
        while isinstance(meant, click.Group) and rest and rest[0] in meant.commands:
            meant, rest = meant.commands[rest[0]], rest[1:]
        meant.make_context(program, rest, help_option_names=["-h", "--help"])  # raises for what it does not understand
    assert any(path in line for line in examples)
    assert "\b" not in shown


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ("--help", {*HEAVY, "pynvml", "msgspec", "yaml"}),
        ("info", HEAVY),
        ("list-models --json", HEAVY),
        ("--gpu-ids cpu:0 --dry-run", HEAVY),
    ],
)
def test_commands_that_run_nothing_import_nothing_heavy(tmp_path: Path, arguments: str, unwanted: set[str]) -> None:
    """--help takes 0.2 s without even the libraries that read configurations, `info` half a second."""
    source = f"""
import sys
from orchestrator.cli.commands import orchestrate
try:
    orchestrate({arguments.split()!r})
except SystemExit as end:
    print(end.code, file=sys.stderr)
print(sorted(set(sys.modules) & {unwanted!r}), file=sys.stderr)
"""
    assert python("-c", source, cwd=tmp_path).stderr.split("\n")[:2] == ["0", "[]"]


def test_without_words_a_program_that_needs_a_command_shows_its_help(invoke: Invoke) -> None:
    """As it is, and not as the text of an error; whoever called it in a script sees that nothing was done."""
    shown = invoke(command=benchmark)
    assert shown.exit_code == 2
    assert shown.output.startswith("Usage: torch-gpu-benchmark [OPTIONS] COMMAND")
    assert shown.output.rstrip().endswith("gpubench itself failed")


def test_both_programs_run_from_a_checkout(tmp_path: Path) -> None:
    """`python -m orchestrator` and `python -m orchestrator.cli`, without installing: which program, which version."""
    for module, name in (("orchestrator", "gpubench-orchestrate"), ("orchestrator.cli", "torch-gpu-benchmark")):
        shown = python("-m", module, "--version", cwd=tmp_path)
        assert (shown.returncode, shown.stdout) == (0, f"{name} {TOOL_VERSION}\n")


# ── what is stored ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_resolved_whole_is_stored_with_the_run(
    invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]], tmp_path: Path
) -> None:
    """run.yaml holds the configuration as resolved, the devices and the command; the plan lies beside it."""
    invoke(*TINY, "-o", "out/report.csv", "--seed", "5")
    [(stored, paths)] = executed
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", paths.folder.name)
    assert paths.folder.parent == tmp_path / "runs"
    assert stored.command == ("gpubench-orchestrate", *TINY, "-o", "out/report.csv", "--seed", "5")
    assert [cell.model for cell in stored.plan.cells] == ["lstm"]
    written = yaml.safe_load(paths.config.read_text())
    assert written["configuration"]["output_path"] == str(tmp_path / "out/report.csv")
    assert (written["configuration"]["seed"], written["configuration"]["formats"]) == (5, ["csv"])
    assert written["devices"][0]["uuid"] == "cpu:0"
    assert [cell["model"] for cell in json.loads(paths.plan.read_text())["cells"]] == ["lstm"]


def test_a_list_may_be_given_piece_by_piece(invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]]) -> None:
    """No piece is dropped. -b sets the batch sizes of all phases."""
    words = "--gpu-ids cpu:0 --gpu-ids cpu:1 -m lstm -m resnet50 -b 1 -f csv -f txt -p fp32"
    invoke("run", *words.split(), "-b", "8, 2", command=benchmark)
    [(stored, _)] = executed
    assert stored.command[0] == "torch-gpu-benchmark"
    assert [device.uuid for device in stored.devices] == ["cpu:0", "cpu:1"]
    made = stored.configuration
    assert [model.name for model in made.models] == ["lstm", "resnet50"]
    assert made.batch_sizes == made.training_batch_sizes == made.generation_batch_sizes == (1, 8, 2)
    assert (made.formats, made.precisions) == (("csv", "txt"), ("fp32",))


def test_folders_of_packages_may_be_given_one_by_one(
    invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]], tmp_path: Path
) -> None:
    """They are searched in the order in which they were given."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "net.py").write_text("def net(): return made()\n")
    words = "--gpu-ids cpu:0 -m net.py:net --allow-code --pythonpath a --pythonpath b"
    invoke("run", *words.split())
    own = executed[0][0].configuration.models[0].own
    assert own is not None
    assert own.pythonpath == (f"{tmp_path}/a", f"{tmp_path}/b")


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [("--multi-gpu", "all"), ("--multi-gpu --gpu-ids cpu:0", "cpu:0"), ("", "3")],
)
def test_multi_gpu_means_all_of_them_unless_some_are_named(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, ids: str
) -> None:
    """It wins over the ids of a file, but not over --gpu-ids beside it."""
    (tmp_path / "one.yaml").write_text("gpu: {ids: 3, multi_gpu: false}\n")
    asked: list[str] = []
    monkeypatch.setattr(devices, "resolve", lambda gpu_ids, **_: asked.append(gpu_ids) or 1 / 0)
    invoke("--config", "one.yaml", *arguments.split())
    assert asked == [ids]


def test_a_comparison_of_a_file_is_that_of_the_flags(
    invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]], tmp_path: Path
) -> None:
    """The same limits, baseline and price are stored with the run."""
    limits = str(ROOT / "configs" / "thresholds" / "example.yaml")
    (tmp_path / "night.yaml").write_text(f"compare: {{baseline: h200-141gb, thresholds: {limits}, price: 2}}\n")
    invoke(*TINY, "--compare-baseline", "h200-141gb", "--thresholds", limits, "--price", "2")
    invoke(*TINY, "--config", "night.yaml")
    first, second = (references.stored(paths) for _, paths in executed)
    assert first == second
    assert first.price_per_hour == 2


# ── the whole way ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_resume_and_report_on_a_cpu_device(tmp_path: Path) -> None:
    """One command measures and reports; the finished run resumes to the same, and renders again."""
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = python(
        *("-m", "orchestrator", *TINY, "--seq-len", "16", "-i", "3", "-w", "1", "-o", "out/report.json"),
        cwd=tmp_path,
        **environment,
    )
    assert first.returncode == 0, first.stderr
    assert re.search(r"importing .* 10 s\)$", first.stderr, re.MULTILINE)
    assert "RESULT    COMPLETE" in first.stdout
    [folder] = (tmp_path / "runs").iterdir()
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert [(result["model_name"], result["input_size"]) for result in report["results"]] == [("lstm", 16)]

    again = python("-m", "orchestrator.cli", "resume", str(folder), cwd=tmp_path, **environment)
    assert re.search("1 cell, 1 launch, none .*cpu:0", again.stderr)
    assert "RESULT    COMPLETE" in again.stdout
    assert again.returncode == 0
    line = rf"{folder.name}: complete, 1 of 1 .*: {tmp_path / 'out/report.json'}"
    assert re.fullmatch(line, again.stdout.splitlines()[-1])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.json"]
    assert folders.existing_run(None, str(tmp_path / "runs")).folder == folder

    rendered = python("-m", "orchestrator", "report", str(folder), "-f", "csv,txt", cwd=tmp_path)
    assert rendered.stdout.split() == [str(folder / "report.csv"), str(folder / "report.txt")]
    assert "lstm" in (folder / "report.csv").read_text()
