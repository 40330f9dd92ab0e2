"""What can be named to be compared, and what is refused: bad files end with a sentence, never with a traceback."""

import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.compare import (
    as_html,
    as_junit,
    as_markdown,
    as_text,
    baselines,
    chapters,
    run_figures,
    shipped_baselines,
)
from orchestrator.compare.comparison import compare
from orchestrator.compare.run_figures import Side
from orchestrator.config import catalogue, margins
from orchestrator.errors import ConfigError, UserError
from orchestrator.run_reports import report_reader
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from tests.fakes import sides
from tests.fuzz import mutation


def test_every_kind_of_cell_has_the_figure_of_each_launch(tmp_path: Path) -> None:
    """Its median is the figure that the report has."""
    made = sides.measured(tmp_path / "run", launches=3).report()
    found = run_figures.of_report(made, "a run")
    assert {(cell.key.phase, cell.metric) for cell in found.cells} == {
        (Workload.LOAD, "model_load_time_ms"),
        (Workload.INFERENCE, "throughput_samples_per_sec"),
        (Workload.TRAINING, "throughput_samples_per_sec"),
        (Workload.GENERATION, "tokens_per_second"),
        (Workload.PROBE, "copy_gb_per_sec"),
    }
    shown = next(result for result in made.results if result.load_metrics)
    writing = next(result for result in made.results if result.generation_metrics)
    assert shown.load_metrics is not None
    figures = {
        Workload.LOAD: shown.load_metrics.model_load_time_ms,
        Workload.INFERENCE: shown.inference_metrics["batch_size_1"].throughput_samples_per_sec,
        Workload.TRAINING: shown.training_metrics["batch_size_1"].throughput_samples_per_sec,
        Workload.GENERATION: writing.generation_metrics["batch_size_1"].tokens_per_second,
        Workload.PROBE: made.probes[0].copy_gb_per_sec,
    }
    for cell in found.cells:
        assert len(cell.values) == 3
        assert sorted(cell.values)[1] == pytest.approx(figures[cell.key.phase])


def test_a_report_a_folder_and_the_newest_run_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a folder the report is made again, so that it may be of an older version."""
    run = sides.measured(tmp_path / "runs" / "20260402-213000-aaaaaa")
    monkeypatch.chdir(tmp_path)
    expected = report_reader.read(str(run.paths.report("json")), "runs").cells
    assert report_reader.read("@last", "runs").cells == expected
    run.paths.report("json").write_text('{"schema_version": 1}')
    assert report_reader.read(str(run.paths.folder), "runs").cells == expected


def bad(folder: Path, content: object) -> str:
    """The name of a file with these bytes, or with this value in JSON."""
    file = folder / "bad.json"
    file.write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
    return str(file)


def damaged(report: bytes) -> dict[str, tuple[bytes, str]]:
    """Files that are no report, and what the error carries."""
    made = json.loads(report)
    duration = b'"test_duration_seconds": '
    return {
        "cut off": (report[: len(report) // 2], "cut off"),
        "empty": (b"", "empty"),
        "not JSON": (b"Model,Type\n", "not JSON"),
        "binary": (b"\x93NUMPY\x01\x00", "not JSON"),
        "not UTF-8": (b'{"schema_version": 5, "\xff": 1}', "damaged"),
        "unrelated": (b'{"name": "package", "version": "1.0"}', "schema_version"),
        "a list": (b"[1, 2]", "not as"),
        "older": (json.dumps({**made, "schema_version": 0}).encode(), "version 0"),
        "newer": (json.dumps({**made, "schema_version": 99}).encode(), "version 99"),
        "version in words": (b'{"schema_version": "99.0"}', r"version '99\.0'"),
        "no version": (b'{"schema_version": [5]}', "not as"),
        "half a character": (b'{"schema_version": 1, "x": "\\ud800"}', "at byte 28"),
        "a word that looks like one": (b'{"x": "\\ud83d\\ude00 \\\\ud800!", "y": ', "cut off"),
        "cut off in a character": (b'{"x": "\\ud83d\\u', "cut off"),
        "NaN": (report.replace(duration, duration + b'NaN, "x": ', 1), "damaged"),
        "too large a number": (report.replace(duration, duration + b'1e999, "x": ', 1), "Number out of range"),
        "a field more": (json.dumps({**made, "more": 1}).encode(), "`more`"),
        "a field less": (json.dumps({**made, "summary": {}}).encode(), r"`\$.summary`"),
        "nesting": (b'{"schema_version": 5, "x": ' + b"[" * 1_000_000, "nested too deeply"),
        "a baseline in words": (b'{"baseline_version": "1.0"}', r"version '1\.0'"),
        "another baseline": (b'{"baseline_version": 99}', f"version 99; .* version {run_figures.VERSION}"),
        "half a baseline": (b'{"baseline_version": 1}', "missing required field"),
    }


@pytest.mark.parametrize("name", damaged(b"{}"))
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, report: Path, name: str) -> None:
    """With the file and what is wrong with it, in a sentence."""
    data, words = damaged(report.read_bytes())[name]
    with pytest.raises(ConfigError, match=words) as caught:
        report_reader.read(bad(tmp_path, data), "runs")
    assert str(caught.value).startswith(str(tmp_path))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["none.json", "folder", "/dev/zero", "a\0b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing there, a folder that is no run, a device that never ends, no name."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError):
        report_reader.read(str(tmp_path / name), "runs")


@pytest.mark.parametrize("throttled", [True, False, None])
def test_throttling_is_read_as_it_is_reported(*, tmp_path: Path, report: Path, throttled: bool | None) -> None:
    """Unknown throttling is not read as "not throttled". The same holds for the file of a baseline."""
    made = json.loads(report.read_bytes())
    made["probes"][0]["throttled"] = throttled
    found = report_reader.read(bad(tmp_path, made), "runs")
    assert next(cell.throttled for cell in found.cells if cell.key.phase is Workload.PROBE) is throttled
    baseline = msgspec.structs.replace(found, baseline_version=run_figures.VERSION)
    assert report_reader.read(bad(tmp_path, baseline), "runs").cells == found.cells


@pytest.mark.parametrize("value", [0, -1.0, 1e300, 1e-300])
def test_figures_that_cannot_be_are_refused(tmp_path: Path, report: Path, value: float) -> None:
    """Zeros, negative and huge numbers, one among others too: with the file and the cell."""
    made, probe = json.loads(report.read_bytes()), json.loads(report.read_bytes())
    made["results"][0]["inference_metrics"]["batch_size_1"]["launch_values"][1] = value
    with pytest.raises(ConfigError, match=rf"bad.json: .* {re.escape(f'{value:g}')} of gpt2 inference fp32 b1 on GPU-"):
        report_reader.read(bad(tmp_path, made), "runs")
    probe["probes"][0]["launch_values"] = [value]
    with pytest.raises(ConfigError, match="of hbm probe"):
        report_reader.baseline(bad(tmp_path, probe), "runs")


def test_figures_that_cannot_be_are_refused_in_baselines(tmp_path: Path) -> None:
    """By the type of the file."""
    baseline = json.loads(msgspec.json.encode(sides.baseline()))
    baseline["cells"][0]["values"] = [1e300]
    with pytest.raises(ConfigError, match="Expected `float` <="):
        report_reader.read(bad(tmp_path, baseline), "runs")


def test_two_devices_of_one_uuid_are_refused(tmp_path: Path, report: Path) -> None:
    """Nobody knows which of them a cell was measured on; in a baseline either."""
    made = json.loads(report.read_bytes())
    made["gpu_info"].append({**made["gpu_info"][0], "gpu_id": 7})
    for content in (made, sides.baseline(devices=(sides.device(), sides.device()))):
        with pytest.raises(ConfigError, match=r"bad\.json: .* 2 devices .*UUID GPU-"):
            report_reader.read(bad(tmp_path, content), "runs")


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path, report: Path) -> None:
    """By its file or by its name in configs/baselines; what is neither is refused."""
    made = sides.baseline(name="mine")
    path = bad(tmp_path, made)
    assert report_reader.baseline(path, "runs") == msgspec.structs.replace(made, name=path)
    assert isinstance(report_reader.baseline(str(report), "runs"), Side)
    for name, words in (("b300", "b300\\. .* `make-baseline`"), (" ", "or a name")):
        with pytest.raises(ConfigError, match=words):
            report_reader.baseline(name, "runs")


def test_a_baseline_that_ships_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """configs/baselines/<name>.json; a name that is near is offered."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "h200-141gb.json").write_bytes(msgspec.json.encode(sides.baseline(name="x")))
    monkeypatch.setattr(shipped_baselines, "configs_folder", lambda: tmp_path)
    assert report_reader.baseline("h200-141gb", "runs").name == "h200-141gb"
    assert report_reader.read("h200-141gb", "runs") == report_reader.baseline("h200-141gb", "runs")
    with pytest.raises(ConfigError, match=r"Did you mean h200-141gb\?"):
        report_reader.baseline("h200-141g", "runs")


def test_the_baselines_that_ship_can_be_read() -> None:
    """Every shipped baseline has the current version of the format."""
    folder = catalogue.configs_folder() / "baselines"
    assert (folder / "README.md").exists()
    for path in folder.glob("*.json"):
        assert report_reader.baseline(path.stem, "runs").cells


def test_whatever_is_changed_in_a_report_is_compared_or_refused(tmp_path: Path, report: Path) -> None:
    """Bytes and values changed by chance: a comparison in every format, or a sentence, and never anything else."""
    chance, sound, refused, number = random.Random(1), report.read_bytes(), 0, 0
    first = report_reader.read(str(report), "runs")
    for number in range(100):
        data = mutation.of_bytes(sound, chance) if number % 4 == 0 else _changed(json.loads(sound), chance)
        try:
            second = report_reader.read(bad(tmp_path, data), "runs")
        except UserError:
            refused += 1
            continue
        compared = [compare(first, second, margins.load()), compare(second, first, margins.load())]
        assert as_text.to_text(compared, chapters.ended(ExitCode.PASSED))
        assert as_markdown.to_markdown(compared, chapters.ended(ExitCode.PASSED))
        assert as_junit.to_junit(compared, ())
        assert as_html.to_html(compared, chapters.ended(ExitCode.PASSED))
        assert msgspec.json.encode(compared)
        assert baselines.hold(second, first)
    assert 10 < refused < number - 10


def _changed(value: Any, chance: random.Random) -> bytes:
    """A report in which one value is another one of its type."""
    at, key = value, None
    while isinstance(at, dict | list) and at:
        whole, key = at, chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at = whole[key]
    if key is not None:
        others = {bool: [True, False], int: [0, -1, 2**62, 10**30], float: [0.0, -1.5, 1e300, 5e-324]}
        words = ["", "x", "\x1b[31m<b>|", "cpu", "failed", "batch_size_0", "\u202e"]
        whole[key] = chance.choice([*others.get(type(at), words), None])
    return json.dumps(value).encode()
