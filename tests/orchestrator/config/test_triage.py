"""`triage`, from the command line to the plan: what it measures, in which order, and that it fits into its time."""

from collections import Counter
from collections.abc import Callable

import pytest
import yaml
from click.testing import Result

from orchestrator.cli.commands import benchmark
from orchestrator.cli.decorators import OPTIONS
from orchestrator.cli.triage import DEFAULTS
from orchestrator.config import catalogue, presets
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.run_configuration import Configuration, StoredRun
from orchestrator.kinds.burn_in import options as burn_in
from orchestrator.plan import estimate, planner
from orchestrator.state.time_budget import Budget
from protocol.cell import Mode, Workload
from protocol.paths import RunPaths
from tests.fakes.configurations import gpu, resolved

Invoke = Callable[..., Result]
Executed = list[tuple[StoredRun, RunPaths]]


def asked() -> Configuration:
    """What the preset resolves to."""
    preset = presets.load(presets.TRIAGE, OPTIONS)
    return preset.on(resolved(command_line=preset.settings))


def test_triage_is_probes_and_two_models_three_times_in_both_modes(invoke: Invoke, executed: Executed) -> None:
    """A convolutional network and a transformer, and every probe; ten minutes."""
    invoke("triage", "--gpu-ids", "cpu:0,cpu:1")
    ((stored, _),) = executed
    made = stored.configuration
    assert (made.preset, made.time_limit_s, made.launches) == ("triage", 600, 3)
    assert made.modes == (Mode.LOADED, Mode.SOLO)
    types = Counter(model.type for model in made.models)
    assert types == {"cnn": 1, "transformer": 1, "probe": len(catalogue.load().probes)}
    assert {cell.mode for cell in stored.plan.cells} == set(Mode)
    assert {cell.batch_size for cell in stored.plan.cells} == {1}
    budget = Budget(made, stored.devices, 600, began=0.0)
    assert all(budget.forecast(stored.plan, one) == stored.plan.order[one.uuid] for one in stored.devices)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_triage_of_a_node_fits_into_its_time(count: int) -> None:
    """Nothing of it would be dropped, as far as can be told before."""
    machine = tuple(map(gpu, range(count)))
    made = planner.make(asked(), machine)
    budget = Budget(asked(), machine, 600, began=0.0)
    assert all(budget.forecast(made, device) == made.order[device.uuid] for device in machine)
    assert estimate.total_s(made, asked(), machine) < 500


def test_what_decides_comes_first_where_time_is_short() -> None:
    """Round by round, and in each what all GPUs do at once before what they do alone."""
    made = planner.make(asked(), tuple(map(gpu, range(4))))
    cells = {cell.id: cell for cell in made.cells}
    for order in made.order.values():
        turns = [(number, cells[cell].mode) for cell, number in order]
        assert turns == sorted(turns)
        assert {cells[cell].workload for cell, _ in order} == {Workload.PROBE, Workload.TRAINING}


@pytest.mark.parametrize(("devices", "cpus"), [("cpu:0,cpu:1", True), ("cpu:0, cpu:1", True), ("cpu:0,0", False)])
def test_cpu_devices_have_their_own_settings(devices: str, cpus: bool) -> None:
    """However the list is spaced, as in a configuration file."""
    preset = presets.load(presets.TRIAGE, OPTIONS)
    assert (preset.settings_on(devices) is not preset.settings) is cpus


def test_a_rehearsal_shows_both_modes_and_what_there_will_be_no_time_for(invoke: Invoke) -> None:
    """By the names of cells, not only the number of launches. A probe has no batch, and is quick."""
    shown = invoke("triage", "--gpu-ids", "cpu:0,cpu:1", "-b", "256", "--dry-run").output
    assert {line.split()[-3] for line in shown.splitlines() if "  resnet50 " in line} == {"loaded", "solo"}
    without = " ".join(shown.split()).split("no time for: ")[1].split(". ")[0].split(", ")
    assert "bert-base training bf16 b256 solo" in without
    assert not [name for name in without if name.startswith(("gemm", "hbm"))]
    assert (
        "no time for"
        not in invoke("triage", *["--gpu-ids", "cpu:0,cpu:1", "-m", "lstm", "-b", "1", "--dry-run"]).output
    )


def test_the_help_has_the_defaults_of_the_preset() -> None:
    """Those of `run` do not hold there."""
    helps = {option.name: str(getattr(option, "help", "")) for option in benchmark.commands["triage"].params}
    preset = yaml.safe_load((configs_folder() / "presets.yaml").read_text())["triage"]
    said, on_cpus = preset["settings"], preset["on_cpus"]
    assert all(helps[name].endswith(f" [default: {words}]") for name, words in DEFAULTS.items())
    assert DEFAULTS["models"].split(",") == said["models"]
    assert {DEFAULTS[name] for name in ("profile", "phases", "precision")} == {
        said["benchmark"][name] for name in ("profile", "phases", "precision")
    }
    assert said["batch_sizes"] == said["training_batch_sizes"]
    assert DEFAULTS["batch_sizes"] == f"{said['batch_sizes']}; CPU devices: {on_cpus['batch_sizes']}"
    profile = catalogue.load().profiles["triage"]
    assert DEFAULTS["launches"].startswith(f"{profile.launches}, ")
    assert DEFAULTS["load_window"] == f"{profile.load_s:g}"


@pytest.mark.parametrize("command", ["quick", "triage"])
def test_a_run_with_a_time_limit_has_no_options_of_a_burn_in(invoke: Invoke, command: str) -> None:
    """`run` has them."""
    named = {one.name for one in benchmark.commands[command].params}
    assert named.isdisjoint(option.name for option in burn_in.OPTIONS)
    assert " run --burn-in`" in invoke(command, "--burn-in", "10m").stderr
