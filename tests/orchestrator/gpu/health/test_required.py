"""Required health signals: their names, where they are stored, and their effect on the verdict."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from orchestrator.config.health_signals import FAMILIES, SIGNALS
from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import ConfigError
from orchestrator.figures.report import Report
from orchestrator.gpu.health.records import NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.report.as_text import to_text
from orchestrator.store import run_files
from protocol import codec
from protocol.cell import Device
from protocol.paths import RunPaths
from tests.fakes.configurations import options, resolved
from tests.fakes.health import WELL
from tests.fakes.runs import BOOT, SECOND_NS, FakeRun, gpus

Invoke = Callable[..., Result]
REFUSED = {"ecc_uncorrected": "no permission", "ecc_corrected": "no permission"}


def report(
    folder: Path, *required: str, devices: tuple[Device, ...] = (), listened: bool = True, ended: bool = False
) -> Report:
    """The report of a complete run on a GPU that tells all but its ECC counters. ended: telemetry was, too early."""
    run = FakeRun(folder, devices=devices or gpus(1), watched=False)
    asked = msgspec.structs.replace(run.stored.configuration, required_signals=required)
    run.store(msgspec.structs.replace(run.stored, configuration=asked))
    if ended:
        run.telemetry_ended()
    run.everything()
    run.samples()
    run.finish()
    if listened:
        run.paths.telemetry.mkdir(exist_ok=True)
        file = FrameFile(run.paths.health)
        file.append(codec.encode(Watch(at_ns=SECOND_NS, boot_id=BOOT)))
        values = {name: value for name, value in WELL.items() if name not in REFUSED}
        for at_ns in (1_000 * SECOND_NS, run.now_ns):
            uuid = run.stored.devices[0].uuid
            file.append(codec.encode(Vitals(at_ns=at_ns, uuid=uuid, values=values, refusals=REFUSED)))
            file.append(codec.encode(NodeVitals(at_ns=at_ns, values={"aer_fatal": 0})))
        file.close()
    return run.report()


def test_a_required_signal_that_is_unread_blocks_pass(tmp_path: Path) -> None:
    """UNKNOWN and exit code 4, with the signal and the reason; the report has the requirement."""
    made = report(tmp_path, "xid", "ecc_uncorrected")
    assert made.health.gpus[0].verdict is HealthVerdict.UNKNOWN
    assert made.health.gpus[0].lacking == ("ecc_uncorrected",)
    assert made.verdict.exit_code == 4
    assert any(one.startswith("GPU 0: ") and one.endswith("ecc_uncorrected") for one in made.verdict.reasons)
    assert made.test_configuration.required_signals == ("xid", "ecc_uncorrected")
    assert ": no permission" in to_text(made)


@pytest.mark.parametrize(
    ("required", "name"),
    [
        ((), "NVIDIA H200"),  # unread signals lower the number of those that were read
        (("xid", "rows_failed"), "NVIDIA H200"),
        (("ecc_uncorrected",), "NVIDIA GeForce RTX 4090"),  # it has no ECC counters
    ],
)
def test_signals_that_are_read_or_not_applicable_block_nothing(
    tmp_path: Path, required: tuple[str, ...], name: str
) -> None:
    """The verdict and the exit code stay."""
    made = report(tmp_path, *required, devices=gpus(1, name=name))
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.PASS, 0)
    assert "GPU 0: PASS (17 of 19 " in to_text(made) or required


@pytest.mark.parametrize(("listened", "ended"), [(True, True), (False, False)])
def test_required_signals_must_be_read_to_the_end(tmp_path: Path, listened: bool, ended: bool) -> None:
    """Telemetry that ended before the work, or that was missing or off, is no evidence."""
    made = report(tmp_path, "ecc_uncorrected", listened=listened, ended=ended)
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.UNKNOWN, 4)
    assert {"xid", "ecc_uncorrected"} <= set(made.health.gpus[0].lacking) or not listened
    assert "too early" in made.verdict.reasons[0] or not ended


def test_families_of_signals() -> None:
    """`ecc` is both of its counters; a signal that is named twice in this way is required once."""
    made = resolved(None, options(health={"require": "ecc_corrected,xid,ecc"}))
    assert made.required_signals == ("ecc_corrected", "xid", "ecc_uncorrected")
    assert resolved().required_signals == ()
    names = {signal.name for signal in SIGNALS}
    assert {name for family in FAMILIES.values() for name in family} <= names
    assert not names & set(FAMILIES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("xid,eccc", "'eccc'.* ecc.* gpu, xid, "),
        ("gpu_temprature", "'gpu_temprature'.* gpu_temperature"),
        ("xid,xid", "xid .*twice"),
        ("xid,", "a name is empty"),
    ],
)
def test_an_unknown_signal_is_an_error_with_the_nearest_names(words: str, message: str) -> None:
    """And with all signals."""
    with pytest.raises(ConfigError, match=message):
        resolved(None, options(health={"require": words}))


def test_requirements_of_options_and_files(
    invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]], tmp_path: Path
) -> None:
    """They are stored with the run, where `resume` finds them; a mistake is exit code 2 with the option."""
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--require", "rows")
    [(stored, paths)] = executed
    assert stored.configuration.required_signals == ("rows_failed", "rows_pending")
    assert run_files.load(paths).configuration.required_signals == ("rows_failed", "rows_pending")
    refused = invoke("--gpu-ids", "cpu:0", "--require", "rowz")
    assert refused.exit_code == 2
    assert re.search(r"--require: .*'rowz'.* rows", refused.stderr)
    (tmp_path / "night.yaml").write_text("health:\n  require: [xid, nonsense]\n")
    refused = invoke("--gpu-ids", "cpu:0", "--config", "night.yaml")
    assert refused.exit_code == 2
    assert re.search(r"night.yaml, line 2, health.require\[1\]: .*'nonsense'", refused.stderr)
