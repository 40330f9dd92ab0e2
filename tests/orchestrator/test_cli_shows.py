"""What is shown of a plan, of the models and of the machine, and what the shell completes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from orchestrator.cli import benchmark, orchestrate
from tests.fakes.commands import python
from tests.fakes.nvml import FakeNvml

Invoke = Callable[..., Result]


def test_a_dry_run_shows_the_plan_and_writes_nothing(invoke: Invoke, executed: list[object], tmp_path: Path) -> None:
    """Cell by cell, in the order of the run, with an estimate, within 80 columns; and where the files would go."""
    shown = invoke("--gpu-ids", "cpu:0,cpu:1", "-m", "resnet50,lstm", "-b", "1,8", "-p", "fp32,bf16", "--dry-run")
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("Report:", "Run:"))) <= 80
    assert f"Report: {tmp_path / 'benchmark_report.json'}" in lines
    assert f"Run:    a new folder in {tmp_path / 'runs'}" in lines
    cells = [line.split()[1:5] for line in lines if re.match(r" *\d+  ", line)]
    assert sorted(map(tuple, cells)) == sorted(
        (model, phase, precision, size)
        for model in ("resnet50", "lstm")
        for precision in ("fp32", "bf16")
        for phase, size in (
            ("load", "1"),
            ("inference", "1"),
            ("inference", "8"),
            ("training", "1"),
            ("training", "8"),
        )
    )
    assert "all at once" in shown.output
    assert re.search(r"40 cells, 40 launches, about .* in all", shown.output)
    assert list(tmp_path.iterdir()) == []
    assert executed == []


def test_a_dry_run_says_how_devices_share_the_time(invoke: Invoke) -> None:
    """Solo runs are one after the other; one device alone is said to be alone."""
    assert "one after the other" in invoke("--gpu-ids", "cpu:0,cpu:1", "--solo", "--dry-run").output
    assert "One device" in invoke("--gpu-ids", "cpu:0", "--dry-run").output


def test_a_dry_run_tries_where_the_files_would_go(invoke: Invoke, tmp_path: Path) -> None:
    """What a run would refuse, its dry run refuses, and makes no folder to find out."""
    refused = invoke("--gpu-ids", "cpu:0", "-o", "/proc/none/report.json", "--dry-run")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "-o/--output: /proc/none: cannot be written" in refused.stderr
    assert invoke("--gpu-ids", "cpu:0", "-o", "new/deep/report.json", "--dry-run").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_list_models_for_people_and_for_programs(invoke: Invoke) -> None:
    """A table, or JSON, of all or of one type."""
    table = invoke("list-models").output
    assert [line.split()[0] for line in table.splitlines()] == ["Model", "bert-base", "resnet50", "lstm"]
    listed = json.loads(invoke("list-models", "--type", "cnn", "--json", command=benchmark).output)
    assert [model["model_name"] for model in listed] == ["resnet50"]
    assert listed[0]["parameters_count"] == 25557032
    assert invoke("list-models", "--type", "generative").output == "There is no model of the type generative yet.\n"
    assert json.loads(invoke("list-models", "--type", "generative", "--json").output) == []


def test_info_without_gpus_says_why(invoke: Invoke) -> None:
    """The software as installed, the cores, and NVML's state with its reason."""
    shown = invoke("info").output
    assert "NVML       absent: no NVIDIA driver on this machine" in shown
    facts = json.loads(invoke("info", "--json").output)
    assert facts["nvml"] == {"status": "absent", "reason": "no NVIDIA driver on this machine"}
    assert facts["software"]["torch"]
    assert facts["gpus"] == []


def test_info_shows_everything_about_each_gpu(tmp_path: Path) -> None:
    """As NVML gives it: names, addresses, limits, switches; what cannot be read is said to be so."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.set({"gpu.1.serial": None})
    environment = {name: fake.environment[name] for name in ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML")}
    shown = python("-m", "orchestrator.cli", "info", cwd=tmp_path, **environment)
    for text in ("GPU 0: NVIDIA H200", "UUID         GPU-", "692-2G520-0280-001", "700 W", "580.95.05", "not readable"):
        assert text in shown.stdout
    facts = json.loads(python("-m", "orchestrator.cli", "info", "--json", cwd=tmp_path, **environment).stdout)
    assert [gpu["gpu_id"] for gpu in facts["gpus"]] == [0, 1]
    assert facts["gpus"][1]["serial"] is None
    assert facts["nvml"]["status"] == "ok"


@pytest.mark.parametrize("command", [orchestrate, benchmark])
def test_help_names_the_program_that_was_called(invoke: Invoke, command: click.Command) -> None:
    """The two programs share their commands, not their examples."""
    other = (benchmark if command is orchestrate else orchestrate).name
    for words in ("run", "completion"):
        shown = invoke(words, "--help", command=command).output
        assert other not in shown
        assert "\b" not in shown
    assert f"  {command.name} run --gpu-ids 0,1" in invoke("run", "--help", command=command).output
    assert f"source <({command.name} completion bash)" in invoke("completion", "--help", command=command).output


# ── completion ────────────────────────────────────────────────────────────────────────────────────────────────────────


def completed(words: str, tmp_path: Path, **environment: str) -> set[str]:
    """What bash would offer after `words`, the last of which is being typed."""
    line = f"gpubench-orchestrate {words}"
    environment |= {
        "_GPUBENCH_ORCHESTRATE_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    offered = python("-m", "orchestrator", cwd=tmp_path, **environment).stdout.splitlines()
    return {line.partition(",")[2] for line in offered}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("-m res", {"resnet50"}),
        ("-m lstm,", {"lstm,all", "lstm,bert-base", "lstm,resnet50"}),
        ("run --precision ", {"fp32", "bf16"}),
        ("--phases inference,t", {"inference,training"}),
        ("-f c", {"csv"}),
        ("--profile q", {"quick"}),
        ("--gpu-ids 0,", {"0,1", "0,all"}),
        ("--isolation f", {"fork"}),
        ("list", {"list-models"}),
        ("--compare", {"--compare-baseline"}),
    ],
)
def test_the_shell_completes_names(tmp_path: Path, words: str, offered: set[str]) -> None:
    """Options, commands, models, precisions and devices, also behind a comma."""
    found = {text for text in completed(words, tmp_path, CUDA_VISIBLE_DEVICES="4,7") if "cpu:" not in text}
    assert found == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_names_the_program(invoke: Invoke, shell: str) -> None:
    """Each of the two programs has its own."""
    script = invoke("completion", shell, command=benchmark).output
    assert "_TORCH_GPU_BENCHMARK_COMPLETE" in script
    assert "torch-gpu-benchmark" in script
