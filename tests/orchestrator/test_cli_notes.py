"""What is said before anything runs: options without effect, numbers out of bounds, a limit too short; and --help."""

from collections.abc import Callable

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from orchestrator.catalogue import configs_folder
from orchestrator.cli import benchmark, orchestrate
from orchestrator.cli.quick import DEFAULTS
from orchestrator.settings import LARGEST, MOST_LAUNCHES
from orchestrator.terminal import plain
from orchestrator.view import Notice

Invoke = Callable[..., Result]
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
    for given in (options.split(), ["-m", "gemm"]):
        assert "changes nothing" not in words(invoke(*CPU, *given, "--dry-run"))


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
    for preset in yaml.safe_load((configs_folder() / "presets.yaml").read_text()).values():
        said = preset["settings"]
        sizes = {"batch_sizes": [said["batch_sizes"], said.get("training_batch_sizes", said["batch_sizes"])]}
        for name, values in ({key: [value] for key, value in said["benchmark"].items()} | sizes).items():
            assert helps[name].endswith(f" [default: {DEFAULTS[name]}]")
            for value in values:
                words = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                assert words.replace("load,inference,training,generation", "all four") in DEFAULTS[name]
    assert helps["seed"].endswith("[default: 1]")
