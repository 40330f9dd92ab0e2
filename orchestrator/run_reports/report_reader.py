"""Read what a person names to compare, strictly.

    report.json      of this schema version, without other keys
    a baseline       likewise, by its own version
    a run's folder   its report is made again, so an older version works; also @last, a run's id (run_lookup.py)
    a name           of a baseline that ships: configs/baselines/<name>.json

Every error is a ConfigError that names the file and what to do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from orchestrator.compare import run_figures
from orchestrator.compare.run_figures import Side
from orchestrator.compare.strict_json import contents, decode
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.yaml_schema import did_you_mean
from orchestrator.errors import ConfigError
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import SCHEMA_VERSION, Report
from orchestrator.run_reports import reporting, run_lookup
from orchestrator.system import safe_read

T = TypeVar("T")
_Version = int | float | str | None  # of any type, so that unknown versions are named in the error


class _Head(msgspec.Struct):
    """The versions, which distinguish the kinds of file."""

    schema_version: _Version = None
    baseline_version: _Version = None


def read(name: str, runs_folder: str, history_db: str | None = None) -> Side:
    """Read `name` as a side of a comparison. Raises UserError. history_db: None for the user's own history."""
    paths = run_lookup.find_run(name, runs_folder, history_db)
    if paths is not None:
        return _sound(reporting.make(paths), name)
    shipped = _shipped().get(name)
    return _file(Path(name) if shipped is None or safe_read.is_there(Path(name)) else shipped, name)


def sides(names: Sequence[str], runs_folder: str, history_db: str | None = None) -> list[Side]:
    """Read all names; the others are compared with the first. Raises UserError, also for the same run twice."""
    first, *others = [read(name, runs_folder, history_db) for name in names]
    for other in others:
        if first.run_ids <= other.run_ids or other.run_ids <= first.run_ids:
            both = sorted(first.run_ids & other.run_ids)
            raise ConfigError(
                f"{first.name} and {other.name} hold the same {'run' if len(both) == 1 else 'runs'}, "
                f"{', '.join(both)}: beside itself none is slower. Name another one, or a baseline of others"
            )
        if other.is_baseline and not first.is_baseline:
            raise ConfigError(
                f"{other.name} is a baseline, and {first.name} is none: runs are held against baselines. Name the "
                "baseline first"
            )
    return [first, *others]


def baseline(name: str, runs_folder: str, history_db: str | None = None, *, origin: str = "--compare-baseline") -> Side:
    """Read a baseline: a file, a run, or one that ships. origin: its option or line. Raises UserError."""
    if not name.strip():
        raise ConfigError(f"{origin}: expected a file or a name, got an empty text")
    shipped = _shipped()
    if (
        name in shipped
        or "/" in name
        or name.endswith(".json")
        or run_lookup.is_id(name)
        or safe_read.is_there(Path(name))
    ):
        return read(name, runs_folder, history_db)
    there = f"There is {', '.join(shipped)}." if shipped else "None ships with this version."
    raise ConfigError(
        f"{origin}: there is no file {name}, and no baseline of that name.{did_you_mean(name, shipped)} "
        f"{there} `make-baseline` makes one of a report."
    )


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted((configs_folder() / "baselines").glob("*.json"))}


def _file(path: Path, name: str) -> Side:
    data = contents(path)
    head = decode(data, _Head, name)
    if head.baseline_version is None:
        return _sound(_report(data, head.schema_version, name), name)
    if head.baseline_version != run_figures.VERSION:
        raise ConfigError(
            f"{name}: a baseline of version {head.baseline_version!r:.40}; "
            f"this gpubench reads version {run_figures.VERSION}. "
            "Make it again from its run."
        )
    return _told_apart(msgspec.structs.replace(decode(data, Side, name), name=name))


def _sound(report: Report, name: str) -> Side:
    if (found := next(run_figures.impossible(report), None)) is not None:
        raise ConfigError(
            f"{name}: not as gpubench measures it: a launch with the figure {found}; what can be measured is "
            f"{run_figures.LEAST:g} to {run_figures.MOST:g}"
        )
    return _told_apart(run_figures.of_report(report, name))


def _told_apart(found: Side) -> Side:
    """Return the side. Raises ConfigError for a UUID or a cell that occurs twice, or a cell without its device."""
    uuid, devices = _most(one.gpu_uuid for one in found.devices)
    if devices > 1:
        raise ConfigError(f"{found.name}: not as gpubench writes it: {devices} devices have the UUID {uuid}")
    place, cells = _most((one.key, one.gpu_uuid) for one in found.cells)
    if place is not None and cells > 1:
        raise ConfigError(f"{found.name}: not as gpubench writes it: {_cell(*place)} is there {cells} times")
    known = {one.gpu_uuid for one in found.devices}
    if (stray := next((one for one in found.cells if one.gpu_uuid not in known), None)) is not None:
        raise ConfigError(
            f"{found.name}: not as gpubench writes it: {_cell(stray.key, stray.gpu_uuid)}, which is none of its devices"
        )
    return found


def _most(found: Iterable[T]) -> tuple[T | None, int]:
    return next(iter(Counter(found).most_common(1)), (None, 0))


def _cell(key: CellKey, gpu_uuid: str) -> str:
    return f"{key.words} on {gpu_uuid}"


def _report(data: bytes, version: _Version, name: str) -> Report:
    if version is None:
        raise ConfigError(f"{name}: neither a report of gpubench nor a baseline: it says no schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{name}: a report of schema version {version!r:.40}; this gpubench reads version {SCHEMA_VERSION}. "
            "Name the run's folder in its place, or render the report again: `report RUN -f json`."
        )
    return decode(data, Report, name)
