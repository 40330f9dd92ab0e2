"""Folders that a run writes to: chosen, tried and made before anything starts."""

from pathlib import Path

import pytest

from orchestrator import catalogue, config, folders, settings
from orchestrator.configuration import Configuration
from orchestrator.errors import ConfigError, RunFolderError
from tests.fakes.configurations import DEFAULTS


def test_weights_are_kept_where_caches_are(tmp_path: Path) -> None:
    """XDG_CACHE_HOME, else the home folder, else, without a usable one, the temporary folder."""
    home = str(tmp_path)
    assert folders.default_cache({"XDG_CACHE_HOME": "/x", "HOME": home}, 7) == Path("/x/gpubench")
    assert folders.default_cache({"XDG_CACHE_HOME": "relative", "HOME": home}, 7) == tmp_path / ".cache/gpubench"
    assert folders.default_cache({"HOME": home}, 7) == tmp_path / ".cache/gpubench"
    for environment in ({}, {"HOME": ""}, {"HOME": str(tmp_path / "none")}):
        assert folders.default_cache(environment, 7).name == "gpubench-cache-7"


def in_folder(tmp_path: Path, **changes: str) -> Configuration:
    """A configuration that writes into `tmp_path` alone."""
    values = {"path": "out/deep/report.json", "folder": "runs", "cache": "cache"} | changes
    value: dict[str, object] = {
        "output": {"path": values["path"]},
        "run": {"folder": values["folder"], "cache": values["cache"]},
    }
    said = settings.from_options(value, {"output.path": "-o/--output"})
    everything = config.gather(DEFAULTS, None, said)
    return config.resolve(everything, catalogue.load(), config.Places(tmp_path, tmp_path))


def test_missing_folders_are_made(tmp_path: Path) -> None:
    """Nobody has to make the folder of a report first."""
    folders.require_writable(in_folder(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"out", "runs", "cache"}
    assert list((tmp_path / "out/deep").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "/proc/report.json"}, "/proc: cannot be written: .*(-o/--output)"),
        ({"path": "/proc/none/report.json"}, "/proc/none: cannot be written: .*(-o/--output)"),
        ({"folder": "/proc/runs"}, "/proc/runs: cannot be written: .*(--runs-folder)"),
        ({"cache": "/proc/cache"}, "/proc/cache: cannot be written: .*run.cache"),
        ({"path": "file/report.json"}, "file: cannot be written: File exists"),
        ({"path": "."}, "is a folder; name the report's file"),
    ],
)
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    """Before anything is run, and with the option to change."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=message):
        folders.require_writable(in_folder(tmp_path, **changes))


def test_resume_finds_the_newest_run(tmp_path: Path) -> None:
    """The names of runs begin with the time; a folder without run.yaml is none."""
    for name in ("20260101-000000-aaaaaa", "20260102-000000-000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.yaml").touch()
    (tmp_path / "20260103-000000-ffffff").mkdir()
    assert folders.existing_run(None, tmp_path).folder.name == "20260102-000000-000000"


@pytest.mark.parametrize("name", [None, "missing", "."])
def test_a_folder_without_a_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    """Missing, or something else."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError):
        folders.existing_run(name, tmp_path)
