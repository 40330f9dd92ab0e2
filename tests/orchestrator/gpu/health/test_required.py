"""Signals of health that a person requires: how they are named, where they are kept, what they mean for the verdict."""

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
GEFORCE = "NVIDIA GeForce RTX 4090"


def report(
    folder: Path, *required: str, devices: tuple[Device, ...] = (), listened: bool = True, ended: bool = False
) -> Report:
    """The report of a complete run on a GPU that tells all but its ECC counters. ended: telemetry was, too early."""
    run = FakeRun(folder, devices=devices or gpus(1), watched=False)
    asked = msgspec.structs.replace(run.stored.configuration, required_signals=required)
    run_files.store(msgspec.structs.replace(run.stored, configuration=asked), run.paths)
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


def test_what_nobody_requires_blocks_nothing(tmp_path: Path) -> None:
    """A signal that cannot be read lowers the number of those that were, and leaves the verdict and the exit code."""
    made = report(tmp_path)
    assert made.health.gpus[0].verdict is HealthVerdict.PASS
    assert made.verdict.exit_code == 0
    assert "GPU 0: PASS (17 of 19 applicable signals were read)" in to_text(made)


def test_what_is_required_and_unread_blocks_pass(tmp_path: Path) -> None:
    """UNKNOWN and exit code 4, with the signal and the reason; the report says what was asked for."""
    made = report(tmp_path, "xid", "ecc_uncorrected")
    assert made.health.gpus[0].verdict is HealthVerdict.UNKNOWN
    assert made.health.gpus[0].lacking == ("ecc_uncorrected",)
    assert made.verdict.exit_code == 4
    assert "GPU 0: its health is unknown: required and unread: ecc_uncorrected" in made.verdict.reasons
    assert made.test_configuration.required_signals == ("xid", "ecc_uncorrected")
    assert "unread but required: memory errors, uncorrected: no permission" in to_text(made)


def test_what_is_required_and_read_passes(tmp_path: Path) -> None:
    """Requiring what is there costs nothing."""
    made = report(tmp_path, "xid", "rows_failed")
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.PASS, 0)


def test_what_a_board_cannot_have_is_not_asked_of_it(tmp_path: Path) -> None:
    """A GeForce has no ECC counters: they are not applicable, and stand in the way of nothing."""
    made = report(tmp_path, "ecc_uncorrected", devices=gpus(1, name=GEFORCE))
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.PASS, 0)


def test_what_is_required_must_be_read_to_the_end(tmp_path: Path) -> None:
    """Telemetry ended before the work did: what it had read until then is no answer any more."""
    made = report(tmp_path, "ecc_uncorrected", ended=True)
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.UNKNOWN, 4)
    assert {"xid", "ecc_uncorrected"} <= set(made.health.gpus[0].lacking)
    assert "telemetry ended too early" in made.verdict.reasons[0]


def test_without_telemetry_nothing_that_is_required_is_there(tmp_path: Path) -> None:
    """NVML that is missing, or switched off, is no evidence."""
    made = report(tmp_path, "xid", listened=False)
    assert (made.health.gpus[0].verdict, made.verdict.exit_code) == (HealthVerdict.UNKNOWN, 4)


def test_words_for_several_signals() -> None:
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
        ("xid,eccc", "there is no signal 'eccc'. Did you mean ecc? There is gpu, xid, "),
        ("gpu_temprature", "there is no signal 'gpu_temprature'. Did you mean gpu_temperature"),
        ("xid,xid", "xid is given twice"),
        ("xid,", "a name is empty"),
    ],
)
def test_an_unknown_signal_is_told_with_its_neighbours(words: str, message: str) -> None:
    """The nearest names, and all there are."""
    with pytest.raises(ConfigError) as caught:
        resolved(None, options(health={"require": words}))
    assert message in str(caught.value)


def test_the_command_line_and_the_file_say_it(
    invoke: Invoke, executed: list[tuple[StoredRun, RunPaths]], tmp_path: Path
) -> None:
    """It is stored with the run, where `resume` finds it; a mistake ends with exit code 2 and names the option."""
    invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--require", "rows")
    [(stored, paths)] = executed
    assert stored.configuration.required_signals == ("rows_failed", "rows_pending")
    assert run_files.load(paths).configuration.required_signals == ("rows_failed", "rows_pending")
    refused = invoke("--gpu-ids", "cpu:0", "--require", "rowz")
    assert refused.exit_code == 2
    assert "--require: there is no signal 'rowz'. Did you mean rows" in refused.stderr
    (tmp_path / "night.yaml").write_text("health:\n  require: [xid, nonsense]\n")
    refused = invoke("--gpu-ids", "cpu:0", "--config", "night.yaml")
    assert refused.exit_code == 2
    assert "night.yaml, line 2, health.require[1]: there is no signal 'nonsense'" in refused.stderr
