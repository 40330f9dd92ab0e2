"""What is shown of a plan, of the models and of the machine, and what the shell completes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator.cli import plan_notes
from orchestrator.cli.commands import benchmark
from orchestrator.cli.dry_run import describe
from orchestrator.config import catalogue
from orchestrator.config.run_configuration import BurnIn
from orchestrator.plan import planner
from protocol.cell import DeviceKind, Workload
from tests.fakes.commands import python
from tests.fakes.configurations import configuration, cpu, gpu
from tests.fakes.nvml import FakeNvml
from tests.fakes.runs import shipped

OTHERS = {model.name for model in catalogue.load().models} - {"lstm", "stylegan2"}

Invoke = Callable[..., Result]


def test_a_dry_run_shows_the_plan_and_writes_nothing(invoke: Invoke, executed: list[object], tmp_path: Path) -> None:
    """The golden files have its tables on one device. Several are at work all at once, or one after the other."""
    cpus = ("--gpu-ids", "cpu:0,cpu:1", "--dry-run")
    shown = invoke(*cpus, "-m", "resnet50,lstm", "-b", "1,8", "-p", "fp32,bf16")
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert f"Report: {tmp_path / 'benchmark_report.json'}" in lines
    assert any(line.startswith("Run: ") and line.endswith(f" {tmp_path / 'runs'}") for line in lines)
    rows = [line for line in lines if re.match(r" *\d+  ", line)]
    assert "all at once" in shown.output
    told = re.search(r"(\d+) cells, (\d+) launches, about .* in all", shown.output)
    assert told is not None
    assert (int(told[1]), int(told[2]) % (2 * len(rows))) == (2 * len(rows), 0)
    assert "all at once" not in invoke(*cpus, "--solo").output
    assert list(tmp_path.iterdir()) == []
    assert executed == []


def test_the_options_of_a_run_are_shown_on_two_screens(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fifty lines of 80 columns, those most used first."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("run", "--help").output.splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.endswith(":")][:2] == ["Options:", "Most used:"]


def test_cells_of_a_burn_in_are_not_doubted() -> None:
    """They end with their time, however long an iteration takes."""
    asked, machine = configuration(models=shipped("resnet50"), input_sizes=(99_999_999,)), (cpu(0),)
    planned = planner.make(asked, machine)
    assert list(plan_notes.deadline_warnings(planned, asked, machine))
    burning = replace(asked, burn_in=BurnIn(duration_s=600.0, level="quick", cell_s={DeviceKind.CPU: 10.0}))
    assert list(plan_notes.deadline_warnings(planned, burning, machine)) == []


def test_a_dry_run_has_a_table_for_each_kind_of_device() -> None:
    """A GPU measures probes that mean nothing on a CPU device."""
    asked, machine = configuration(models=shipped("lstm", "h2d")), (gpu(0), gpu(1), cpu(0))
    shown = describe(planner.make(asked, machine), asked, machine)
    on_gpus, on_cpu = shown.split("1 of 3 devices")
    assert "2 of 3 devices" in on_gpus
    assert "  h2d " in on_gpus
    assert "  h2d " not in on_cpu
    assert "h2d: not applicable" in on_cpu
    assert "(cpu:0)." in " ".join(on_cpu.split())


def test_a_dry_run_says_how_many_launches_may_be_added() -> None:
    """Four more of each cell of four identical GPUs, and nothing of it where none are added."""
    asked, machine = configuration(models=shipped("lstm"), launches=3), tuple(map(gpu, range(4)))
    asked = replace(asked, probes=(), workloads=(Workload.LOAD, Workload.INFERENCE), batch_sizes=(1, 8))
    told = r"Up to (\d+) .* (\d+)\s+of\s+a\s+cell"
    assert not re.search(told, describe(planner.make(asked, machine), asked, machine))
    asked = replace(asked, adds_launches=True)
    assert re.findall(told, describe(planner.make(asked, machine), asked, machine)) == [("32", "7")]
    assert not re.search(told, describe(planner.make(asked, machine[:3]), asked, machine[:3]))


@pytest.mark.parametrize("kind", catalogue.MODEL_TYPES)
def test_list_models_of_one_type(invoke: Invoke, kind: str) -> None:
    """For people and for programs, and nothing of another type."""
    names = [model.name for model in catalogue.load().models if model.type == kind]
    listed = json.loads(invoke("list-models", "--type", kind, "--json", command=benchmark).output)
    assert [(model["model_name"], model["model_type"]) for model in listed] == [(name, kind) for name in names]
    table = invoke("list-models", "--type", kind).output.partition("\n\n")[0]
    assert [line.split()[0] for line in table.splitlines()[1:]] == names


def test_list_models_for_programs(invoke: Invoke) -> None:
    """Everything that a program needs to choose from: sizes, inputs, parameters, memory, and whether it writes."""
    listed = {model["model_name"]: model for model in json.loads(invoke("list-models", "--json").output)}
    resnet = listed["resnet50"]
    assert (resnet["parameters_count"], resnet["input_size"], resnet["generation"]) == (25557032, 224, None)
    assert resnet["input_sizes"].keys() == {"unit", "default", "smallest", "largest", "step", "only"}
    assert (resnet["input_sizes"]["unit"], resnet["input_sizes"]["largest"]) == ("pixels", None)
    assert resnet["inputs"][0]["shape"] == ["batch", 3, "size", "size"]
    assert listed["bert-base"]["input_sizes"]["largest"] == 512
    assert listed["gemm"]["input_sizes"] is None
    assert listed["gpt2"]["generation"] == {"prompt_tokens": 512, "new_tokens": 64}


def test_info_without_gpus_says_why(invoke: Invoke) -> None:
    """The software as installed, the cores, and NVML's state with its reason."""
    shown = invoke("info").output
    facts = json.loads(invoke("info", "--json").output)
    assert facts["nvml"]["status"] == "absent"
    assert re.search(rf"NVML +absent: {facts['nvml']['reason']}", shown)
    assert facts["software"]["torch"]
    assert facts["gpus"] == []


@pytest.mark.parametrize(
    ("version_py", "cuda", "words"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "12.8", "torch for CUDA 12.8"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", None, "built without CUDA"),
    ],
)
def test_info_says_for_which_cuda_torch_was_built(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, version_py: str, cuda: str | None, words: str
) -> None:
    """By its files: importing it takes seconds."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    (tmp_path / "torch" / "version.py").write_text(version_py)
    monkeypatch.syspath_prepend(tmp_path)
    assert words in invoke("info").output
    assert json.loads(invoke("info", "--json").output)["torch_cuda_version"] == cuda


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


# ── completion ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("-m resnet5", {"resnet50"}),
        ("-m lstm,bert-b", {"lstm,bert-base"}),
        ("-m lstm,stylegan2,", {f"lstm,stylegan2,{name}" for name in ["all", *OTHERS]}),
        ("run --precision ", {"fp32", "tf32", "fp16", "bf16"}),
        ("--memory-format cha", {"channels_last"}),
        ("list-models --type t", {"transformer"}),
        ("--phases load,g", {"load,generation"}),
        ("--phases inference,t", {"inference,training"}),
        ("-f c", {"csv"}),
        ("--profile q", {"quick"}),
        ("--level ", {"quick", "standard", "full"}),
        ("--burn-in 8h --level f", {"full"}),
        ("--gpu-ids 0,", {"0,1", "0,all"}),
        ("--isolation f", {"fork"}),
        ("--require xi", {"xid"}),
        ("list", {"list-models"}),
        ("no-such-command --mul", {"--multi-gpu"}),
        ("--compare", {"--compare-baseline"}),
    ],
)
def test_the_shell_completes_names(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, words: str, offered: set[str]
) -> None:
    """Options, commands, models, precisions and devices, also behind a comma. bash says which word is being typed."""
    line = f"gpubench-orchestrate {words}"
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "CUDA_VISIBLE_DEVICES": "4,7"}
    for name, value in ({"_GPUBENCH_ORCHESTRATE_COMPLETE": "bash_complete"} | environment).items():
        monkeypatch.setenv(name, value)
    found = {line.partition(",")[2] for line in invoke().output.splitlines()}
    assert {text for text in found if "cpu:" not in text} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_names_the_program(invoke: Invoke, shell: str) -> None:
    """Each of the two programs has its own."""
    script = invoke("completion", shell, command=benchmark).output
    assert "_TORCH_GPU_BENCHMARK_COMPLETE" in script
    assert "torch-gpu-benchmark" in script
