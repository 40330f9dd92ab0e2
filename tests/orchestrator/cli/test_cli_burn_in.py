"""What the options of a burn-in show in a dry run, and what is said of those that cannot be."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.cli.decorators import OPTIONS
from orchestrator.cli.dry_run import describe
from orchestrator.config import catalogue
from orchestrator.config.run_configuration import StoredRun
from orchestrator.kinds.burn_in import levels, settings
from orchestrator.kinds.burn_in import options as burn_in
from orchestrator.kinds.burn_in import planning as burn_in_plan
from protocol.paths import RunPaths
from tests.fakes.configurations import configuration
from tests.fakes.runs import gpus

Invoke = Callable[..., Result]
Executed = list[tuple[StoredRun, RunPaths]]
CPUS = ("--gpu-ids", "cpu:0,cpu:1")
WHOLE_BURN_IN = ("--burn-in", "10m", *CPUS, "--dry-run")


@pytest.mark.parametrize(
    ("devices", "level"),
    [("cpu:0", "quick"), ("cpu:0,cpu:1", "quick"), ("cpu:0,cpu:1,cpu:2", "quick"), ("cpu:0,cpu:1", "standard")],
)
def test_half_a_minute_of_cpu_devices_has_a_note(invoke: Invoke, devices: str, level: str) -> None:
    """The first round may not come to its end; the note says how long is long enough."""
    short = ("--gpu-ids", devices, "--level", level, "--dry-run")
    shown = " ".join(invoke("--burn-in", "30s", *short).output.split())
    assert re.search(f"Note: 30s .*level {level}", shown)
    (least,) = re.findall(rf"Use --burn-in (\w+) --level {level}\.", shown)
    assert "Use --burn-in" not in invoke("--burn-in", least, *short).output


def test_a_fault_in_a_round_without_time_has_a_note_and_beyond_the_plan_is_refused(invoke: Invoke) -> None:
    """With how many rounds there is time for, as the dry run counts them. The plan has spare rounds."""
    short = ("--burn-in", "60s", *WHOLE_BURN_IN[2:])
    (shown,) = re.findall(r"about ([\d.]+) rounds fit", " ".join(invoke(*short).output.split()))
    refused = " ".join(invoke(*short, "--inject", "flip:1:99").output.split())
    (planned, possible) = re.findall(r"Planned: at most (\d+) .* ([\d.]+)\.", refused)[0]
    assert possible == shown
    assert float(possible) <= int(planned) < 2 * float(possible)
    assert f" 1 to {int(float(possible))}, or a longer --burn-in" in refused
    spare = " ".join(invoke(*short, "--inject", f"flip:1:{planned}").output.split())
    assert re.search(rf"Note: --inject flip: .* round {planned} ", spare)
    assert "Note:" not in invoke(*short, "--inject", "flip:1:2").output


@pytest.mark.parametrize("duration", ["60s", "1h", "8h"])
@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1"])
def test_the_figures_of_a_dry_run_add_up(invoke: Invoke, duration: str, devices: str) -> None:
    """The column of launches to the length of a round, and so many rounds to no more than the duration."""
    shown = invoke("--burn-in", duration, "--gpu-ids", devices, "--dry-run").output
    told = re.search(r"about (?:(\d+) min ?)?(?:([\d.]+) s)? with.* about ([\d.]+) rounds", " ".join(shown.split()))
    assert told is not None
    round_s = 60 * float(told[1] or 0) + float(told[2] or 0)
    launches_s = re.findall(r"^ ?\d+  .* ([\d.]+) s$", shown, re.MULTILINE)
    assert round_s == pytest.approx(sum(map(float, launches_s)), abs=0.51)
    assert 0.8 * settings.seconds(duration) < float(told[3]) * round_s + 10 <= settings.seconds(duration)


DECIDED = "-m resnet50 -p fp16 --phases load --profile rigorous --memory-format contiguous -i 5 -w 5 --launches 3 -b 4"


def test_what_a_burn_in_decides_itself_is_said(invoke: Invoke) -> None:
    """Each option once, also where one of its own models would have taken it. Seed and isolation have an effect."""
    shown = " ".join(invoke(*WHOLE_BURN_IN, *DECIDED.split(), "--seq-len", "64", "--input-size", "64").output.split())
    decided = [option.spelling for option in OPTIONS if option.key in burn_in.DECIDED and option.spec]
    assert re.findall(r"Note: (\S+) changes nothing: ", shown) == decided
    assert shown.count("Note:") == len(decided)
    assert "Note:" not in invoke(*WHOLE_BURN_IN, "--seed", "7", "--isolation", "exec").output


def test_a_burn_in_of_a_file_is_that_of_the_flags(invoke: Invoke, executed: Executed) -> None:
    """The same run.yaml but for the command and the id, and the same plan."""
    flags = "--burn-in 10m --level standard --steps --in-phase --max-temperature 85 --inject flip:1:1 --inject flip:0:2"
    Path("night.yaml").write_text(
        "burn_in: {duration: 10m, level: standard, steps: true, in_phase: true, max_temperature: 85,\n"
        "          inject: [flip:1:1, flip:0:2]}\n"
    )
    invoke(*CPUS, *flags.split())
    invoke(*CPUS, "--config", "night.yaml")
    first, second = (stored for stored, _ in executed)
    assert first.configuration.burn_in is not None
    assert first.configuration.burn_in.max_temperature_c == 85
    assert (second.configuration, second.plan) == (first.configuration, first.plan)


def test_flags_win_over_the_burn_in_of_a_file(invoke: Invoke, executed: Executed) -> None:
    """Key by key; a list of faults as a whole."""
    Path("night.yaml").write_text("burn_in: {duration: 8h, level: full, steps: true, inject: [flip:0:1, flip:1:1]}\n")
    invoke(*CPUS, "--config", "night.yaml", "--burn-in", "10m", "--inject", "flip:cpu:1:2")
    ((stored, _),) = executed
    made = stored.configuration.burn_in
    assert made is not None
    assert (made.duration_s, made.level, bool(made.steps)) == (600, "full", True)
    assert [(one.device, one.round) for one in made.injections] == [("cpu:1", 1)]


def test_a_limit_of_heat_is_shown_where_there_is_a_gpu() -> None:
    """With how long it takes."""
    table = levels.load()
    burn_in_run = settings.configured(configuration(models=()), "10m", None, catalogue.load(), table)
    limited = settings.with_temperature_stop(burn_in_run, 85)
    shown = describe(burn_in_plan.make(limited, gpus(2), table), limited, gpus(2))
    assert re.search("85 °C .*10 s ", shown)
