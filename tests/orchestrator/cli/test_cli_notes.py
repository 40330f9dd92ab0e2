"""What is said before anything runs: options without effect, numbers out of bounds, a limit too short; and --help."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from orchestrator.cli import unused_options
from orchestrator.cli.commands import benchmark, orchestrate
from orchestrator.cli.options import RunParams
from orchestrator.cli.quick import DEFAULTS
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.settings import LARGEST, MOST_LAUNCHES, LayeredSettings, Settings
from orchestrator.engine.display_events import Notice
from orchestrator.plan import planner
from orchestrator.terminal import plain
from protocol.cell import Precision, Workload
from tests.fakes.configurations import configuration, gpu
from tests.fakes.runs import shipped

Invoke = Callable[..., Result]
Night = Callable[[str], Path]
CPU = ("--gpu-ids", "cpu:0")


def words(result: Result) -> str:
    """The output with its lines joined."""
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ("-m resnet50 --seq-len 64", "--seq-len changes nothing: none of the models takes tokens"),
        ("-m lstm --input-size 64", "--input-size changes nothing: none of the models has a size in pixels"),
        ("-m lstm --memory-format contiguous", "--memory-format changes nothing: none of the models sees images"),
        ("-m gemm -b 4", "-b/--batch-sizes changes nothing: neither probes nor loading have a batch size"),
        ("-m lstm --phases load -b 4", "-b/--batch-sizes changes nothing: neither probes nor loading"),
        ("-m lstm --require xid", "--require changes nothing: neither CPU devices nor slices of a GPU are judged"),
        ("-m gemm --phases load", "--phases changes nothing: probes have no phases"),
        ("-m lstm --solo", "--solo changes nothing: there is one device alone"),
        ("-m lstm --phases load -i 5", "-i/--iterations changes nothing: loading is repeated as often as the profile"),
        ("-m lstm --phases load -w 5", "-w/--warmup changes nothing: a load has no warm-up"),
        ("-m lstm --phases inference -b auto --launches 3", "--launches changes nothing: a scan for the batch size is"),
        ("-m hbm -p bf16", "-p/--precision changes nothing: these probes move bytes"),
        ("-m lstm -p fp32,tf32", "-p/--precision: tf32 is fp32 on cpu:0, which cannot round to TF32."),
        ("-m lstm --no-monitor-gpu", "--monitor-gpu changes nothing: there is no GPU to be read"),
        ("-m lstm --allow-busy", "--allow-busy changes nothing: it is about GPUs, and there is none in this run"),
        ("-m lstm --multi-gpu", "--multi-gpu changes nothing: --gpu-ids names the devices"),
        ("-m lstm --allow-code", "--allow-code changes nothing: no model of yours is measured"),
        ("-m lstm --pythonpath .", "--pythonpath changes nothing: no model of yours is measured"),
    ],
)
def test_an_option_without_effect_is_said(invoke: Invoke, options: str, note: str) -> None:
    """It is no mistake, but whoever gave it waits for its effect."""
    shown = invoke(*CPU, *options.split(), "--dry-run")
    assert shown.exit_code == 0
    assert f"Note: {note}" in words(shown)


def test_options_with_an_effect_have_no_note(invoke: Invoke) -> None:
    """Each of them changes something for one of the models; defaults are nobody's."""
    options = "-m lstm,resnet50 --seq-len 64 --input-size 64 --memory-format contiguous -b 4 --phases inference"
    solo = "--gpu-ids cpu:1 --solo -m lstm -i 5 -w 5 --launches 2 -p fp32,bf16 --phases load,training -b 4"
    probes = "-m gemm,hbm -i 5 -w 5 -p fp32,bf16 --launches 2"
    for given in (options, solo, probes, "-m gemm"):
        shown = invoke(*CPU, *given.split(), "--dry-run")
        assert (shown.exit_code, "Note:" in words(shown)) == (0, False)


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (
            "training_batch_sizes: 4",
            "night.yaml, line 3, training_batch_sizes changes nothing: no training is measured",
        ),
        ("generation_batch_sizes: 4", "night.yaml, line 3, generation_batch_sizes changes nothing: no generation is"),
        ("monitoring: {interval_ms: 50}", "night.yaml, line 3, monitoring.interval_ms changes nothing: no GPU is read"),
        (
            "run: {cache: c}",
            "night.yaml, line 3, run.cache changes nothing: weights are kept for load cells, and there",
        ),
        (
            "gpu: {ids: 'cpu:0', multi_gpu: true}",
            "line 3, gpu.multi_gpu changes nothing: night.yaml, line 3, gpu.ids names",
        ),
        ("batch_sizes: 4", ""),
        ("generation_batch_sizes: 4\nmodels: gpt2\nbenchmark: {phases: generation}", ""),
        ("run: {cache: c}\nmodels: lstm\nbenchmark: {phases: load}", ""),
    ],
)
def test_a_key_without_effect_is_said(invoke: Invoke, night: Night, said: str, note: str) -> None:
    """With its line; each of the keys for batch sizes stands for one phase, as -b for all of them does not."""
    night(said if "models" in said else f"models: lstm\nbenchmark: {{phases: inference}}\n{said}\n")
    shown = invoke(*(() if "ids" in said else CPU), "--config", "night.yaml", "--dry-run")
    assert shown.exit_code == 0
    assert note in words(shown)
    assert words(shown).count("Note:") == (1 if note else 0)


def test_options_of_own_models_have_an_effect_on_those_alone(invoke: Invoke) -> None:
    """Whoever gives a file of models and then measures others has mistaken a name, perhaps."""
    Path("net.py").write_text("class Net: ...")
    Path("mine.yaml").write_text("models: [{name: mine, class: 'net.py:Net', input_shape: [1, 4]}]\n")
    given = ("--models-file", "mine.yaml", "--pythonpath", ".", "--allow-code")
    measured = invoke(*CPU, *given, "--dry-run")
    assert (measured.exit_code, "Note:" in words(measured)) == (0, False), measured.stderr
    shown = words(invoke(*CPU, *given, "-m", "lstm", "--dry-run"))
    for option in ("--models-file", "--pythonpath", "--allow-code"):
        assert f"Note: {option} changes nothing: no model of yours is measured." in shown


def test_on_gpus_their_options_have_an_effect() -> None:
    """What is said without any GPU is said of none."""
    asked = configuration(models=shipped("lstm"), workloads=(Workload.INFERENCE,))
    devices = (gpu(0), gpu(1))
    keys = ("monitoring.enabled", "monitoring.interval_ms", "gpu.allow_busy", "health.require", "benchmark.precision")
    given = LayeredSettings(Settings(), {key: key for key in keys})
    looked_at = {"multi_gpu": True, "gpu_ids": None, "allow_code": False, "steps": False, "in_phase": False}
    params = cast("RunParams", looked_at | {"max_temperature": "85"})  # no other option is looked at here
    tf32 = msgspec.structs.replace(asked, precisions=(Precision.TF32,))
    assert list(unused_options.sentences(given, params, tf32, planner.make(tf32, devices), devices)) == []
    off = msgspec.structs.replace(asked, monitor=False)
    [told] = unused_options.sentences(given, params, off, planner.make(off, devices), devices)
    assert told == "monitoring.interval_ms changes nothing: no GPU is read"


def test_the_notes_are_told_when_the_run_begins(
    invoke: Invoke, executed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a rehearsal alone."""
    told: list[str] = []

    def tell(_: plain.Plain, event: Notice) -> None:
        told.append(event.message)

    monkeypatch.setattr(plain.Plain, "tell", tell)
    invoke(*CPU, "-m", "lstm", "--input-size", "64")
    assert len(executed) == 1
    assert "note: --input-size changes nothing: none of the models has a size in pixels to choose" in told


@pytest.mark.parametrize("option", ["-b", "--seed", "-i", "--launches", "--seq-len"])
@pytest.mark.parametrize("number", [str(LARGEST + 1), "9" * 23, "9" * 100])
def test_a_number_that_is_too_large_is_told_the_largest(invoke: Invoke, option: str, number: str) -> None:
    """However many digits it has."""
    refused = invoke(*CPU, option, number)
    assert refused.exit_code == 2
    largest = MOST_LAUNCHES if option == "--launches" else LARGEST
    assert f"too large; the largest that is allowed is {largest}" in words(refused)


@pytest.mark.parametrize("sizes", ["auto,8", "8,auto", "auto,auto"])
def test_auto_is_said_to_stand_alone(invoke: Invoke, sizes: str) -> None:
    """And not to be no number."""
    assert "auto stands alone" in words(invoke(*CPU, "-b", sizes))


def test_a_limit_in_which_nothing_could_be_measured_is_refused(invoke: Invoke, executed: list[object]) -> None:
    """At the beginning, also in a rehearsal, with what to do about it."""
    for more in ((), ("--dry-run",)):
        refused = invoke("quick", "--light", "--profile", "rigorous", *CPU, *more)
        assert refused.exit_code == 2
        assert "nothing could be measured within the 60 s of --light" in words(refused)
        assert "Choose a quicker --profile" in words(refused)
    assert executed == []


# ── --help ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", [orchestrate, benchmark])
def test_no_help_is_wider_than_a_terminal(program: click.Group) -> None:
    """80 columns, for every command, with the longer of the two names in its examples too."""
    for name in ("", *program.commands):
        shown = CliRunner().invoke(
            program, [*name.split(), "--help"], prog_name=program.name, env={"COLUMNS": "80"}, terminal_width=80
        )
        assert shown.exit_code == 0
        assert [line for line in shown.output.splitlines() if len(line) > 80] == [], name


def test_quick_has_the_defaults_of_its_presets() -> None:
    """Those of `run` do not hold there, so its help says what configs/presets.yaml has."""
    helps = {option.name: str(getattr(option, "help", "")) for option in benchmark.commands["quick"].params}
    shipped = yaml.safe_load((configs_folder() / "presets.yaml").read_text())
    for said in (shipped[name]["settings"] for name in ("light", "standard", "extensive")):
        sizes = {"batch_sizes": [said["batch_sizes"], said.get("training_batch_sizes", said["batch_sizes"])]}
        for name, values in ({key: [value] for key, value in said["benchmark"].items()} | sizes).items():
            assert helps[name].endswith(f" [default: {DEFAULTS[name]}]")
            for value in values:
                words = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                assert words.replace("load,inference,training,generation", "all four") in DEFAULTS[name]
    assert helps["seed"].endswith("[default: 1]")
