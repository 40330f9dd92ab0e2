"""Folders that a run writes to: found, tried, and made, before anything is started."""

import secrets
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from orchestrator.configuration import Configuration
from orchestrator.errors import ConfigError, RunFolderError
from protocol.paths import RunPaths


def default_cache(environment: Mapping[str, str], uid: int) -> Path:
    """Where weights are kept unless the configuration says: below XDG_CACHE_HOME, else HOME, else the temporary folder.

    A service or a container often has no HOME, or one that does not exist.
    """
    cache_home = Path(environment.get("XDG_CACHE_HOME", ""))
    if cache_home.is_absolute():
        return cache_home / "gpubench"
    home = Path(environment.get("HOME", ""))
    if home.is_absolute() and home.is_dir():
        return home / ".cache" / "gpubench"
    return Path(tempfile.gettempdir()) / f"gpubench-cache-{uid}"


def require_writable(configuration: Configuration) -> None:
    """Make sure that reports, runs and weights can be written; folders that are missing are made.

    Raises ConfigError naming the option to change.
    """
    output = Path(configuration.output_path)
    if output.is_dir():
        raise ConfigError(
            f"-o/--output: {output} is a folder; name the report's file, such as {output / 'report.json'}"
        )
    _try_writing(output.parent, "the report (-o/--output)")
    _try_writing(Path(configuration.runs_folder), "the run (--runs-folder)")
    _try_writing(Path(configuration.cache_folder), "weights (run.cache in a configuration file, or XDG_CACHE_HOME)")


def _try_writing(folder: Path, what: str) -> None:
    """Trying is the only question that root, read-only mounts and full disks all answer truly."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"{folder}: cannot be written: {reason}. It was meant for {what}; name another.") from error


def make_run(runs: Path, now: datetime) -> RunPaths:
    """A new folder for a run, named by the time and chance: 20260401-213000-1f2e3d."""
    folder = runs / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    folder.mkdir()
    return RunPaths(folder)


def existing_run(name: str | None, runs: Path) -> RunPaths:
    """The run in the folder `name`, or the newest one in `runs`. Raises RunFolderError when there is none."""
    if name is not None:
        paths = RunPaths(Path(name))
        if not paths.folder.is_dir():
            raise RunFolderError(
                f"{name}: there is no such folder. Runs are in ./runs, unless --runs-folder was given."
            )
        if not paths.config.is_file():
            raise RunFolderError(f"{name}: not the folder of a run (it has no {paths.config.name})")
        return paths
    # The names begin with the time, so the last in order is the newest.
    found = sorted(folder.parent for folder in runs.glob("*/run.yaml"))
    if not found:
        raise RunFolderError(f"{runs}: there is no run in it. Name the run's folder, or --runs-folder.")
    return RunPaths(found[-1])
