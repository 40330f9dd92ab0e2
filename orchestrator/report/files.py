"""How a report reaches the disk: whole or not at all, and without losing the one that was there.

write      into the run's folder, in place of what was rendered there before
publish    to where the user wants it; an existing report.json is kept as report.1.json, the next as report.2.json

Several processes may publish to one name at the same time: each takes a name only where none is, so that all of their
reports are kept.
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
"""What `link` says where the file system has no second names for a file."""


class Given(TypedDict, total=False):
    """What formats take beside the report (ReportFormat.needs). Without it there is nothing to show of it."""

    timeline: Timeline
    samples: Samples
    layout: Layout


def by_importance(formats: Iterable[ReportFormat]) -> tuple[ReportFormat, ...]:
    """The formats, each once, in the order in which they are to be written."""
    chosen = set(formats)
    return tuple(kind for kind in ReportFormat if kind in chosen)


def write(
    report: Report,
    paths: RunPaths,
    formats: Iterable[ReportFormat],
    **given: Unpack[Given],
) -> tuple[Path, ...]:
    """Render into the run's folder; returns the files. Raises StorageError when the disk refuses."""
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
    """Render to the `target` of each format, keeping files that are there; returns the new files.

    Raises StorageError when the disk refuses.
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
    """Move an existing file out of the way, to the first free of name.1.suffix, name.2.suffix, …; returns where to.

    None where there is none, or another process was quicker. The free name is taken before anything is moved, so two
    processes never choose the same one. Raises OSError.
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
    """Move `finished` to `path` once whatever is there has been kept. Raises OSError."""
    while True:
        keep_old(path)
        with suppress(FileExistsError):
            _take(finished, path)
            return


def _take(finished: Path, path: Path) -> None:
    """Move `finished` to `path` unless something is there. Raises FileExistsError then, OSError as the disk does."""
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
    """The report in one format, as the parts of a file: samples may be more than there is memory, all else is one part.

    Raises RunFolderError, while samples are taken, where they are not at hand.
    """
    module, _, function = kind.renderer.partition(":")
    renderer = getattr(import_module(f"orchestrator.report.{module}"), function)
    complete = {"timeline": NOTHING_KEPT, "samples": not_at_hand, "layout": DEFAULT, **given}
    made: str | bytes | Iterable[bytes] = renderer(report, **{name: complete[name] for name in kind.needs})
    if isinstance(made, str):
        return (made.encode(),)
    return (made,) if isinstance(made, bytes) else made


def render(report: Report, kind: ReportFormat, **given: Unpack[Given]) -> bytes:
    """The report in one format, as the bytes of a file. Raises RunFolderError for samples."""
    return b"".join(parts(report, kind, **given))
