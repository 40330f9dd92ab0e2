"""Notes that a run begins with (tests/golden/transcripts/notes.txt has those of rehearsals); and --help."""

from collections.abc import Callable
from typing import cast

import msgspec
import yaml
from click.testing import Result

from orchestrator.cli import unused_options
from orchestrator.cli.commands import benchmark
from orchestrator.cli.decorators import OPTIONS, RunParams
from orchestrator.cli.quick import DEFAULTS
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.options import Need
from orchestrator.config.settings import LayeredSettings
from orchestrator.kinds.burn_in.options import BurnInNeed
from orchestrator.plan import planner
from protocol.cell import Precision, Workload
from tests.fakes.configurations import configuration, gpu
from tests.fakes.runs import shipped

Invoke = Callable[..., Result]


def test_every_need_of_an_option_is_looked_up() -> None:
    """What a run must have for an option to matter is something that a run can be asked for."""
    assert {option.needs for option in OPTIONS} - {None} == set(unused_options.HAS) == {*Need, *BurnInNeed}


def test_on_gpus_their_options_have_an_effect() -> None:
    """What is said without any GPU is said of none."""
    asked = configuration(models=shipped("lstm"), workloads=(Workload.INFERENCE,))
    devices = (gpu(0), gpu(1))
    keys = ("monitoring.enabled", "monitoring.interval_ms", "gpu.allow_busy", "health.require", "benchmark.precision")
    keys += ("burn_in.max_temperature",)
    given = LayeredSettings({}, {key: key for key in keys})
    params = cast("RunParams", {"allow_code": False})  # no other option is looked at here
    tf32 = msgspec.structs.replace(asked, precisions=(Precision.TF32,))
    assert list(unused_options.warnings(given, params, tf32, planner.make(tf32, devices), devices)) == []
    off = msgspec.structs.replace(asked, monitor=False)
    [told] = unused_options.warnings(given, params, off, planner.make(off, devices), devices)
    assert told.startswith("monitoring.interval_ms changes nothing")


def test_a_run_begins_with_its_notes(invoke: Invoke, executed: list[object]) -> None:
    """Not in a rehearsal alone: what changes nothing, what no deadline leaves time for, and what is left out."""
    options = "--solo -m resnet50,h2d -b 1 --phases inference --input-size 99999999"
    told = invoke("--gpu-ids", "cpu:0", *options.split()).stderr
    assert len(executed) == 1
    for note in (
        f"--solo changes nothing: {Need.SEVERAL_DEVICES}",
        "no result",
        "excluded: h2d: ",
    ):
        assert note in told


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
