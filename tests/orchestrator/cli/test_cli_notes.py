"""What is said before anything runs: options without effect, numbers out of bounds, a limit too short; and --help."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest
import yaml
from click.testing import Result

from orchestrator.cli import unused_options
from orchestrator.cli.commands import benchmark
from orchestrator.cli.decorators import OPTIONS, RunParams
from orchestrator.cli.quick import DEFAULTS
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.options import LARGEST, MOST_LAUNCHES, Need
from orchestrator.config.settings import LayeredSettings
from orchestrator.engine.display_events import Notice
from orchestrator.kinds.burn_in.options import BurnInNeed
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


def test_every_need_of_an_option_is_looked_up() -> None:
    """What a run must have for an option to matter is something that a run can be asked for."""
    assert {option.needs for option in OPTIONS} - {None} == set(unused_options.HAS) == {*Need, *BurnInNeed}


@pytest.mark.parametrize(
    ("given", "option", "need"),
    [
        ("-m resnet50 --seq-len 64", "--seq-len", Need.TOKENS),
        ("-m lstm --input-size 64", "--input-size", Need.PIXELS),
        ("-m lstm --memory-format contiguous", "--memory-format", Need.IMAGES),
        ("-m gemm -b 4", "-b/--batch-sizes", unused_options.NO_BATCH),
        ("-m lstm --phases load -b 4", "-b/--batch-sizes", unused_options.NO_BATCH),
        ("-m lstm --require xid", "--require", Need.WHOLE_GPUS),
        ("-m gemm --phases load", "--phases", Need.MODELS),
        ("-m lstm --solo", "--solo", Need.SEVERAL_DEVICES),
        ("-m lstm --phases load -i 5", "-i/--iterations", Need.ITERATIONS),
        ("-m lstm --phases load -w 5", "-w/--warmup", Need.WARM_UP),
        ("-m lstm --phases inference -b auto --launches 3", "--launches", Need.FIXED_BATCH),
        ("-m hbm -p bf16", "-p/--precision", Need.PRECISIONS),
        ("-m lstm --no-monitor-gpu", "--monitor-gpu", Need.READ_GPUS),
        ("-m lstm --allow-busy", "--allow-busy", Need.GPUS),
        ("-m lstm --multi-gpu", "--multi-gpu", "--gpu-ids names the devices"),
        ("-m lstm --allow-code", "--allow-code", Need.OWN_MODEL),
        ("-m lstm --pythonpath .", "--pythonpath", Need.OWN_MODEL),
    ],
)
def test_an_option_without_effect_is_said(invoke: Invoke, given: str, option: str, need: str) -> None:
    """It is no mistake, but whoever gave it waits for its effect."""
    shown = invoke(*CPU, *given.split(), "--dry-run")
    assert shown.exit_code == 0
    assert f"Note: {option} changes nothing: {need}." in words(shown)


@pytest.mark.parametrize(
    ("given", "origin"), [("-m lstm -p tf32", "-p/--precision"), ("--burn-in 30m", "configs/burn_in.yaml")]
)
def test_tf32_of_a_cpu_is_said(invoke: Invoke, given: str, origin: str) -> None:
    """There it is another word for fp32. A burn-in requests it by its own file."""
    shown = words(invoke(*CPU, *given.split(), "--dry-run"))
    assert f"Note: {origin}: tf32 is fp32 on cpu:0, which cannot round to TF32." in shown


def test_options_with_an_effect_have_no_note(invoke: Invoke) -> None:
    """Each of them changes something for one of the models; defaults are nobody's."""
    options = "-m lstm,resnet50 --seq-len 64 --input-size 64 --memory-format contiguous -b 4 --phases inference"
    solo = "--gpu-ids cpu:1 --solo -m lstm -i 5 -w 5 --launches 2 -p fp32,bf16 --phases load,training -b 4"
    probes = "-m gemm,hbm -i 5 -w 5 -p fp32,bf16 --launches 2"
    for given in (options, solo, probes, "-m gemm"):
        shown = invoke(*CPU, *given.split(), "--dry-run")
        assert (shown.exit_code, "Note:" in words(shown)) == (0, False)


@pytest.mark.parametrize(
    ("said", "key", "need"),
    [
        ("training_batch_sizes: 4", "training_batch_sizes", Need.TRAINING),
        ("generation_batch_sizes: 4", "generation_batch_sizes", Need.GENERATION),
        ("monitoring: {interval_ms: 50}", "monitoring.interval_ms", Need.MONITORING),
        ("run: {cache: c}", "run.cache", Need.LOADING),
        ("gpu: {ids: 'cpu:0', multi_gpu: true}", "gpu.multi_gpu", "night.yaml, line 3, gpu.ids names the devices"),
        ("batch_sizes: 4", "", ""),
        ("generation_batch_sizes: 4\nmodels: gpt2\nbenchmark: {phases: generation}", "", ""),
        ("run: {cache: c}\nmodels: lstm\nbenchmark: {phases: load}", "", ""),
    ],
)
def test_a_key_without_effect_is_said(invoke: Invoke, night: Night, said: str, key: str, need: str) -> None:
    """With its line; each of the keys for batch sizes stands for one phase, as -b for all of them does not."""
    night(said if "models" in said else f"models: lstm\nbenchmark: {{phases: inference}}\n{said}\n")
    shown = invoke(*(() if "ids" in said else CPU), "--config", "night.yaml", "--dry-run")
    assert shown.exit_code == 0
    assert not key or f"Note: night.yaml, line 3, {key} changes nothing: {need}." in words(shown)
    assert words(shown).count("Note:") == bool(key)


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
    keys += ("burn_in.max_temperature",)
    given = LayeredSettings({}, {key: key for key in keys})
    params = cast("RunParams", {"allow_code": False})  # no other option is looked at here
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
@pytest.mark.parametrize("number", [str(LARGEST + 1), "9" * 100])
def test_a_number_that_is_too_large_is_told_the_largest(invoke: Invoke, option: str, number: str) -> None:
    """However many digits it has."""
    refused = invoke(*CPU, option, number)
    assert refused.exit_code == 2
    largest = MOST_LAUNCHES if option == "--launches" else LARGEST
    assert f"too large; the largest that is allowed is {largest}" in words(refused)


def test_a_limit_in_which_nothing_could_be_measured_is_refused(invoke: Invoke, executed: list[object]) -> None:
    """At the beginning, also in a rehearsal, with what to do about it."""
    for more in ((), ("--dry-run",)):
        refused = invoke("quick", "--light", "--profile", "rigorous", *CPU, *more)
        assert refused.exit_code == 2
        assert "nothing could be measured within the 60 s of --light" in words(refused)
        assert "Choose a quicker --profile" in words(refused)
    assert executed == []


# ── --help ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
