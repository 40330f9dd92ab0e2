"""Folders that a run writes to: find, check and make them before a process is started."""

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from orchestrator.config.report_formats import ReportFormat, target
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.settings import LayeredSettings
from orchestrator.errors import ConfigError, RunFolderError, StorageError
from orchestrator.store import reserve
from orchestrator.store.journal import temporary
from orchestrator.system import plain_text, safe_read
from orchestrator.system import temporary as temporary_files
from protocol.paths import RunPaths

_LARGEST_PID: Final = 4_194_304
_DEVICES: Final = Path("/dev")
_SECOND: Final = len("20260401-213000")


def default_cache(environment: Mapping[str, str], uid: int) -> Path:
    """Return the folder for model weights: below XDG_CACHE_HOME, else HOME, else the temporary folder. Make nothing.

    environment: of the process. uid: of the user, for a name of their own in the temporary folder.
    """
    cache_home = Path(environment.get("XDG_CACHE_HOME", ""))
    if cache_home.is_absolute():
        return cache_home / "gpubench"
    home = Path(environment.get("HOME", ""))
    if home.is_absolute() and home.is_dir():
        return home / ".cache" / "gpubench"
    return (temporary_files.folder() or temporary_files.USUAL) / f"gpubench-cache-{uid}"


def require_writable(configuration: Configuration, settings: LayeredSettings, *, make: bool) -> None:
    """Check that the folders of reports, runs, weights and temporary files can be written. Raises ConfigError if not.

    The history's path must not be a folder. settings: for the name of the option in the message. make: True: make
    missing folders. False: only check that the nearest existing folder above can be written.
    """
    temporary_files.require()
    origin = settings.origin("output.path", "-o/--output")
    require_place(Path(configuration.output_path), configuration.formats, origin, make=make)
    _try_writing(Path(configuration.runs_folder), settings.origin("run.folder", "--runs-folder"), "the run", make=make)
    database = configuration.history_db
    if configuration.history and database is not None and safe_read.is_folder(Path(database)):
        origin = settings.origin("history.file")
        raise ConfigError(f"{origin}: {database} is a folder. Name a file, such as {database}/history.db")
    cache = settings.origin("run.cache", "run.cache in a configuration file, or XDG_CACHE_HOME")
    _try_writing(Path(configuration.cache_folder), cache, "weights", make=make)


def require_place(output: Path, formats: Iterable[ReportFormat], origin: str, *, make: bool) -> None:
    """Check that the report can be written in each of the `formats`. Raises ConfigError if not.

    output: path of -o, a file. The file of a format is this path with the suffix of the format, in the same folder.
    Existing files are accepted. origin: option that set the path, for the message. make: True: make missing folders.
    False: only check that the nearest existing folder above can be written.
    """
    for place in (output, *(target(output, kind) for kind in formats)):
        require_name(place, origin)
        if safe_read.is_folder(place):
            raise ConfigError(f"{origin}: {place} is a folder. Name a file, such as {place / 'report.json'}")
    _try_writing(output.parent, origin, "the report", make=make)


def require_file(path: Path, origin: str) -> None:
    """Check that a file can be made or replaced at `path`, in an existing folder. Raises ConfigError if not.

    origin: option that set the path, such as "--junit", for the message.
    """
    require_name(path, origin)
    if safe_read.is_folder(path):
        raise ConfigError(f"{origin}: {path} cannot be written: it is a folder. Name a file in it")
    if not safe_read.is_folder(path.parent):
        raise ConfigError(f"{origin}: {path} cannot be written: there is no folder {path.parent}. Make it first")
    _try_writing(path.parent, origin, path.name, make=False)


def require_name(path: Path, origin: str) -> None:
    """Check that `path` may be the name of a file: it is UTF-8, not too long, and no device, pipe or socket.

    Folders are accepted. Raises ConfigError if not. origin: option that set the path, for the message.
    """
    if not plain_text.is_text(path):
        raise ConfigError(f"{origin}: {plain_text.escaped(path)}: {plain_text.NO_TEXT}")
    if path.absolute().parent == _DEVICES or (safe_read.is_there(path) and not (path.is_file() or path.is_dir())):
        raise ConfigError(f"{origin}: {path} is a device, a pipe or a socket. Name a file")
    unfinished = temporary(path, _LARGEST_PID)
    try:
        unfinished.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            more = len(unfinished.name) - len(path.name)
            raise ConfigError(
                f"{origin}: {path}: the name is too long: its temporary name is {more} bytes longer. Shorten it"
            ) from error


def require_room_for_reports(paths: RunPaths) -> None:
    """Check that a file can be made in the run's folder. Raises RunFolderError if not, with the advice to use -o."""
    try:
        with tempfile.TemporaryFile(dir=paths.folder):
            pass
    except OSError as error:
        raise RunFolderError(
            f"{paths.folder}: the report cannot be written there: {error.strerror}. Nothing was written. Use `-o FILE` "
            "for another place."
        ) from error


def _try_writing(folder: Path, origin: str, what: str, *, make: bool) -> None:
    """Check that a file can be made in `folder`. Raises ConfigError if not.

    Makes and removes a temporary file there. origin: option that set the path, for the message. what: what the folder
    is needed for, such as "weights". make: True: make missing folders. False: try the nearest existing folder above.
    """
    try:
        standing = next(place for place in (folder, *folder.parents) if place.exists())
        if not standing.is_dir():
            raise ConfigError(f"{origin}: {standing} is a file, not a folder")
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder if make else standing):
            pass
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(
            f"{origin}: {folder}: cannot be written: {reason}. The folder is for {what}. Name another folder."
        ) from error


def current() -> Path:
    """Return the current folder. Raises ConfigError if it was removed or its name is not UTF-8."""
    try:
        found = Path.cwd()
    except OSError as error:
        raise ConfigError(f"the current folder cannot be used ({error.strerror}). Change to one that exists") from error
    if not plain_text.is_text(found):
        raise ConfigError(f"the current folder, {plain_text.escaped(found)}: {plain_text.NO_TEXT}")
    return found


@contextmanager
def new_run(runs: Path, origin: str, now: datetime) -> Iterator[RunPaths]:
    """Make a folder for a run and yield its paths. The body of the `with` statement writes the first files.

    If the body raises OSError or StorageError, or the disk has no more room, removes the folder and raises ConfigError.
    runs: existing folder of all runs. origin: option that set it, for the message. now: local time, for the name.
    """
    begun: list[RunPaths] = []
    try:
        begun.append(make_run(runs, now))
        yield begun[0]
        reserve.require_first(begun[0].folder)
    except (OSError, StorageError) as error:
        for paths in begun:
            shutil.rmtree(paths.folder, ignore_errors=True)
        reason = f"{runs}: cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{origin}: {reason}. Nothing was started. Free space on that file system, or name another folder."
        ) from error


def make_run(runs: Path, now: datetime) -> RunPaths:
    """Make a folder for a run in `runs`, which must exist. Name: `now` and random digits, 20260401-213000-1f2e3d."""
    while True:
        folder = runs / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue  # a run that began in the same second
        return RunPaths(folder)


def existing_run(name: str | None, runs: str) -> RunPaths:
    """Return the paths of the run in the folder `name`; if that is None, of the newest run in the folder `runs`.

    name: path, not relative to `runs`. Raises RunFolderError if there is no such run.
    """
    try:
        return RunPaths(_newest(runs) if name is None else _path_of(name))
    except OSError as error:
        raise RunFolderError(f"{runs if name is None else name}: cannot be read: {error.strerror}") from error


def in_order(runs: Path) -> list[Path]:
    """Return the folders in `runs` that have a run.yaml, the newest last. [] if none.

    The order is that of the first 15 characters of their names (the time), so a renamed folder may appear newest.
    """
    return [config.parent for config in sorted(runs.glob("*/run.yaml"), key=_begun)]


def require_ours(paths: RunPaths) -> None:
    """Check that this user may write the run's folder, journal and lock, to resume it. Raises RunFolderError if not."""
    if not plain_text.is_text(place := paths.folder.resolve()):
        raise RunFolderError(f"{plain_text.escaped(place)}: {plain_text.NO_TEXT}")
    if os.statvfs(paths.folder).f_flag & os.ST_RDONLY:
        raise RunFolderError(
            f"{paths.folder}: cannot be written: {os.strerror(errno.EROFS)}. Resume a copy of the folder where it "
            f"can be written. `gpubench-orchestrate report {paths.folder} -o FILE` reports what was measured."
        )
    for path in (paths.folder, paths.journal, paths.lock):
        if path.exists() and not os.access(path, os.W_OK, effective_ids=True):
            raise RunFolderError(
                f"{path}: you may not write it. Resume a copy of the folder, or ask the owner of the run to resume it."
            )


def _path_of(name: str) -> Path:
    if not name.strip():
        raise RunFolderError("expected the folder of a run, got an empty text")
    paths = RunPaths(Path(name))
    if paths.folder.is_file():
        raise RunFolderError(f"{name}: is a file. Name the folder of a run, such as runs/20260101-120000-000001")
    if not paths.folder.is_dir():
        what = "file" if paths.folder.suffix else "folder"
        raise RunFolderError(f"{name}: there is no such {what}. Runs are in ./runs, unless --runs-folder was given.")
    if not paths.config.is_file():
        raise RunFolderError(f"{name}: not the folder of a run (it has no {paths.config.name})")
    return paths.folder


def _newest(runs: str) -> Path:
    if not runs.strip():
        raise RunFolderError("--runs-folder: expected a path, got an empty text")
    if Path(runs).is_file():
        raise RunFolderError(f"--runs-folder: {runs} is a file, not a folder")
    found = in_order(Path(runs))
    if not found:
        raise RunFolderError(f"{runs}: the folder contains no run. Name the run's folder, or --runs-folder.")
    return found[-1]


def _begun(config: Path) -> tuple[str, int, str]:
    name = config.parent.name
    return name[:_SECOND], config.stat().st_mtime_ns, name
