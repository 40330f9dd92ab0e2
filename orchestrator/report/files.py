"""Writes reports to disk: whole or not at all, and without losing an earlier report.

write      into the run's folder; replaces an earlier report of the run
publish    to the requested place; an existing report.json is renamed to report.1.json, the next one to report.2.json

Safe with several processes that publish to the same name at the same time, on file systems with hard links.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, TypedDict, Unpack

from orchestrator.config.report_formats import ReportFormat, target
from orchestrator.errors import StorageError
from orchestrator.figures.launch_samples import Samples, not_at_hand
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT, Timeline
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.store.journal import write_parts_durably
from protocol.paths import RunPaths

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""Error numbers of os.link on file systems without hard links."""


class Given(TypedDict, total=False):
    """Inputs that some formats need besides the report (ReportFormat.needs).

    Defaults: an empty timeline, samples that raise RunFolderError when read, and the layout of a benchmark.
    """

    timeline: Timeline
    samples: Samples
    layout: Layout


def by_importance(formats: Iterable[ReportFormat]) -> tuple[ReportFormat, ...]:
    """Return the formats without duplicates, the most important first: the order of ReportFormat."""
    chosen = set(formats)
    return tuple(kind for kind in ReportFormat if kind in chosen)


def write(
    report: Report,
    paths: RunPaths,
    formats: Iterable[ReportFormat],
    **given: Unpack[Given],
) -> tuple[Path, ...]:
    """Write the report into the run's folder in these formats, replacing earlier files. Return the paths written.

    Raises StorageError if a file cannot be written, RunFolderError if a format needs samples and `given` has none.
    """
    written = []
    for kind in formats:
        path = paths.report(kind)
        write_parts_durably(path, parts(report, kind, **given))
        written.append(path)
    return tuple(written)


def publish(
    report: Report,
    output_path: Path,
    formats: Iterable[ReportFormat],
    **given: Unpack[Given],
) -> tuple[Path, ...]:
    """Write the report in each format to `output_path` with the format's suffix. Return the paths written.

    The suffix replaces that of another format, or is appended. Missing folders are made. An existing file is renamed
    first (keep_old). Raises StorageError if a file cannot be written, RunFolderError if a format needs samples and
    `given` has none.
    """
    written = []
    for kind in formats:
        path = target(output_path, kind)
        made = parts(report, kind, **given)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path}: the report cannot be written there: {error.strerror}") from error
        write_parts_durably(path, made, move=beside_the_old)
        written.append(path)
    return tuple(written)


def keep_old(path: Path) -> Path | None:
    """Rename a file to the first free name: name.1.suffix, name.2.suffix and so on.

    Returns the new path; None if there is no file, or another process renamed it. Raises OSError if renaming fails.
    """
    number = 1
    while os.path.lexists(path):
        kept = path.with_name(f"{path.stem}.{number}{path.suffix}")
        try:
            kept.touch(exist_ok=False)
        except FileExistsError:
            number += 1
            continue
        try:
            return path.replace(kept)
        except FileNotFoundError:
            kept.unlink()
            return None
        except OSError:
            kept.unlink()
            raise
    return None


def beside_the_old(finished: Path, path: Path) -> None:
    """Move the file `finished` to `path`, renaming an existing one first (keep_old). Raises OSError if either fails."""
    while True:
        keep_old(path)
        with suppress(FileExistsError):
            _take(finished, path)
            return


def _take(finished: Path, path: Path) -> None:
    """Move the file `finished` to `path`. Raises FileExistsError if `path` exists, OSError if moving fails."""
    try:
        os.link(finished, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Between these two steps another process could take the empty file for an old report: such disks are rare
        # (exFAT, some network mounts), and two reports at the same moment on them rarer.
        path.touch(exist_ok=False)
        finished.replace(path)
        return
    finished.unlink()


def parts(report: Report, kind: ReportFormat, **given: Unpack[Given]) -> Iterable[bytes]:
    """Return the report in one format, in parts, because raw samples may exceed the memory.

    Reading the parts raises RunFolderError if the format needs the raw samples and `given` has none.
    """
    module, _, function = kind.renderer.partition(":")
    renderer = getattr(import_module(f"orchestrator.report.{module}"), function)
    complete = {"timeline": NOTHING_KEPT, "samples": not_at_hand, "layout": DEFAULT, **given}
    made: str | bytes | Iterable[bytes] = renderer(report, **{name: complete[name] for name in kind.needs})
    if isinstance(made, str):
        return (made.encode(),)
    return (made,) if isinstance(made, bytes) else made


def render(report: Report, kind: ReportFormat, **given: Unpack[Given]) -> bytes:
    """Return the report in one format. Raises RunFolderError if it needs raw samples and `given` has none."""
    return b"".join(parts(report, kind, **given))
