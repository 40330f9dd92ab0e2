"""`quick` and its presets, and `-b auto`, from the command line to the plan."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from orchestrator.cli.decorators import OPTIONS
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
    ("command", "name", "limit_s"),
    [
        (("quick",), "standard", 180),
        (("quick", "--light"), "light", 60),
        (("quick", "--standard"), "standard", 180),
        (("quick", "--extensive"), "extensive", 600),
        (("run", "-m", "lstm"), None, None),
    ],
)
def test_a_preset_has_its_limit(
    invoke: Invoke, executed: Executed, command: tuple[str, ...], name: str | None, limit_s: float | None
) -> None:
    """One, three and ten minutes, three where none is given; a plain run has none. It is stored with the run."""
    invoke(*command, "--gpu-ids", "cpu:0")
    ((stored, _),) = executed
    made = stored.configuration
    assert (made.preset, made.time_limit_s, made.profile) == (name, limit_s, "quick")
    assert made.launches == (1 if limit_s else 5)  # without a limit as many as fit, of one small model


def test_options_change_what_is_measured_within_the_same_limit(invoke: Invoke, executed: Executed) -> None:
    """The command line wins over the preset, and a file does too; neither changes the limit."""
    Path("mine.yaml").write_text("batch_sizes: 4\nbenchmark: {precision: bf16}\n")
    options = ("--config", "mine.yaml", "-m", "lstm,resnet50", "--phases", "inference", "-p", "fp32")
    invoke("quick", "--light", "--gpu-ids", "cpu:0", *options)
    ((stored, _),) = executed
    asked = stored.configuration
    assert (asked.batch_sizes, asked.precisions, asked.time_limit_s) == ((4,), (Precision.FP32,), 60)
    assert {cell.model for cell in cells_of(stored)} == {"lstm", "resnet50"}


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
    with pytest.raises(ConfigError, match=r"presets\.yaml, line 2, light\.limit_s: .* number"):
        presets.load("light", OPTIONS, tmp_path)


def test_auto_is_a_batch_size(invoke: Invoke, executed: Executed) -> None:
    """For every phase that has one; loading has none. A file may have it for one phase."""
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--phases", "load,inference,training", "-b", "auto")
    Path("mine.yaml").write_text("batch_sizes: auto\ntraining_batch_sizes: 4\n")
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--phases", "inference,training", "--config", "mine.yaml")
    line, file = ({cell.workload: cell.batch_size for cell in cells_of(stored)} for stored, _ in executed)
    assert line == {Workload.LOAD: 1, Workload.INFERENCE: AUTO, Workload.TRAINING: AUTO}
    assert file == {Workload.INFERENCE: AUTO, Workload.TRAINING: 4}
    assert set(executed[0][0].plan.rooms) == {"cpu:0"}
