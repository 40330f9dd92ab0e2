"""`quick` and its presets, and `-b auto`, from the command line to the plan."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from orchestrator.cli.options import OPTIONS
from orchestrator.config import presets
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import ConfigError
from protocol.cell import AUTO, Cell, Precision, Workload
from protocol.paths import RunPaths
from tests.fakes.configurations import resolved

Invoke = Callable[..., Result]
Executed = list[tuple[StoredRun, RunPaths]]


def cells_of(stored: StoredRun) -> list[Cell]:
    """In the order in which they would be run."""
    cells = {cell.id: cell for cell in stored.plan.cells}
    (order,) = stored.plan.order.values()
    return [cells[cell_id] for cell_id, _ in order]


@pytest.mark.parametrize(
    ("arguments", "name", "limit_s"),
    [
        ((), "standard", 180),
        (("--light",), "light", 60),
        (("--standard",), "standard", 180),
        (("--extensive",), "extensive", 600),
    ],
)
def test_a_preset_has_its_limit(
    invoke: Invoke, executed: Executed, arguments: tuple[str, ...], name: str, limit_s: float
) -> None:
    """One, three and ten minutes; three where nothing is said. The limit is stored with the run."""
    invoke("quick", "--gpu-ids", "cpu:0", *arguments)
    ((stored, _),) = executed
    assert (stored.configuration.preset, stored.configuration.time_limit_s) == (name, limit_s)
    assert stored.configuration.profile == "quick"
    assert stored.configuration.launches == 1


def test_two_presets_contradict_each_other(invoke: Invoke, executed: Executed) -> None:
    """A minute or ten is a question for the one who asks."""
    refused = invoke("quick", "--light", "--extensive", "--gpu-ids", "cpu:0")
    assert refused.exit_code == 2
    assert "--light and --extensive contradict each other" in refused.output
    assert executed == []


def test_options_change_what_is_measured_within_the_same_limit(invoke: Invoke, executed: Executed) -> None:
    """The command line wins over the preset, and a file does too; neither changes the limit."""
    Path("mine.yaml").write_text("batch_sizes: 4\nbenchmark: {precision: bf16}\n")
    options = ("--config", "mine.yaml", "-m", "lstm,resnet50", "--phases", "inference", "-p", "fp32")
    invoke("quick", "--light", "--gpu-ids", "cpu:0", *options)
    ((stored, _),) = executed
    asked = stored.configuration
    assert (asked.batch_sizes, asked.precisions, asked.time_limit_s) == ((4,), (Precision.FP32,), 60)
    assert {cell.model for cell in cells_of(stored)} == {"lstm", "resnet50"}


def test_a_run_without_a_preset_has_no_limit(invoke: Invoke, executed: Executed) -> None:
    """And keeps its random order."""
    invoke("--gpu-ids", "cpu:0", "-m", "lstm")
    ((stored, _),) = executed
    assert (stored.configuration.preset, stored.configuration.time_limit_s) == (None, None)


def test_a_dry_run_says_how_far_the_time_reaches(invoke: Invoke, tmp_path: Path) -> None:
    """In the order of priority; nothing is run or written."""
    shown = invoke("quick", "--light", "--gpu-ids", "cpu:0", "--dry-run")
    assert shown.exit_code == 0
    assert "light ends within 60 s, enough for about" in shown.output
    assert list(tmp_path.iterdir()) == []


def test_every_preset_that_ships_is_a_configuration() -> None:
    """Each key of it is one of a file, and each resolves."""
    names = yaml.safe_load((configs_folder() / "presets.yaml").read_text())
    assert set(names) == {"light", "standard", "extensive", "triage"}
    for name in names.keys() - {"triage"}:
        preset = presets.load(name, OPTIONS)
        asked = preset.on(resolved(command_line=preset.settings))
        assert asked.time_limit_s == preset.limit_s
        assert Workload.INFERENCE in asked.workloads
        assert asked.precisions[0] is Precision.FP32


def test_a_broken_preset_is_named(tmp_path: Path) -> None:
    """With the file, the line and the key."""
    (tmp_path / "presets.yaml").write_text("light:\n  limit_s: soon\n  settings: {}\n")
    with pytest.raises(ConfigError, match=r"presets\.yaml, line 2, light\.limit_s: expected a number"):
        presets.load("light", OPTIONS, tmp_path)


def test_auto_is_a_batch_size(invoke: Invoke, executed: Executed) -> None:
    """For every phase that has one; loading has none."""
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--phases", "load,inference,training", "-b", "auto")
    ((stored, _),) = executed
    sizes = {cell.workload: cell.batch_size for cell in cells_of(stored)}
    assert sizes == {Workload.LOAD: 1, Workload.INFERENCE: AUTO, Workload.TRAINING: AUTO}
    assert set(stored.plan.rooms) == {"cpu:0"}


def test_auto_may_stand_in_a_file_for_one_phase(invoke: Invoke, executed: Executed) -> None:
    """The others keep their sizes."""
    Path("mine.yaml").write_text("batch_sizes: auto\ntraining_batch_sizes: 4\n")
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--phases", "inference,training", "--config", "mine.yaml")
    ((stored, _),) = executed
    assert {cell.workload: cell.batch_size for cell in cells_of(stored)} == {
        Workload.INFERENCE: AUTO,
        Workload.TRAINING: 4,
    }


def test_auto_stands_alone(invoke: Invoke, executed: Executed) -> None:
    """A scan finds every size worth knowing; a list beside it would be measured twice."""
    refused = invoke("--gpu-ids", "cpu:0", "-b", "auto,8")
    assert refused.exit_code == 2
    assert "-b/--batch-sizes" in refused.output
    assert "auto" in refused.output
    assert executed == []


def test_a_dry_run_says_auto(invoke: Invoke) -> None:
    """And estimates the whole scan."""
    shown = invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--phases", "inference", "-b", "auto", "--dry-run")
    (row,) = [line for line in shown.output.splitlines() if line.startswith("1  lstm")]
    assert row.split()[4] == "auto"
