"""Read the report, baseline or run that the user names. Unknown keys are errors.

    report.json      of any schema version (report_migrations.py)
    a baseline file  of its own schema version
    a run's folder   its report is made again, so runs of older versions work. Also @last or a run's id (run_lookup.py)
    a name           of a baseline that gpubench ships: configs/baselines/<name>.json

Every error is a UserError that names the file or run.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orchestrator.compare import run_figures, shipped_baselines
from orchestrator.compare.run_figures import Side
from orchestrator.compare.strict_json import contents, convert, decode
from orchestrator.config.yaml_schema import did_you_mean
from orchestrator.errors import ConfigError
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import SCHEMA_VERSION, Report
from orchestrator.run_reports import report_migrations, reporting, run_lookup
from orchestrator.system import safe_read

T = TypeVar("T")
_Version = int | float | str | None  # of any type, so that unknown versions are named in the error


class _Head(msgspec.Struct):
    schema_version: _Version = None
    baseline_version: _Version = None


class _ExportedBenchmark(msgspec.Struct):
    name: str


class _Exported(msgspec.Struct):
    benchmark: _ExportedBenchmark


def read(name: str, runs_folder: str, history_db: str | None = None) -> Side:
    """Return the figures to compare of the report file, baseline or run called `name`.

    runs_folder: folder in which @last and ids of runs are looked up. history_db: history file in which an id is looked
    up if runs_folder does not have it, None for the user's own history file. Raises UserError if nothing has this name,
    or if the report, baseline or run is damaged.
    """
    paths = run_lookup.find_run(name, runs_folder, history_db)
    if paths is not None:
        return _sound(reporting.make(paths), name)
    shipped = shipped_baselines.files().get(name)
    return _file(Path(name) if shipped is None or safe_read.is_there(Path(name)) else shipped, name)


def is_file(name: str) -> bool:
    """Whether `name` is an existing file, not a folder, that ends with .json.

    Such a file is taken for a report or a baseline. Its contents are not read, so it may be neither.
    """
    return name.lower().endswith(".json") and safe_read.is_there(Path(name)) and not safe_read.is_folder(Path(name))


def report(path: Path) -> Report:
    """Read a report file of any schema version up to the present. Raises ConfigError for any other file."""
    data = contents(path)
    head = _head(data, str(path))
    if head.baseline_version is not None:
        raise ConfigError(f"{path}: a baseline, which has no report. `compare {path} RUN` compares with it.")
    return _report(data, head.schema_version, str(path))


def sides(names: Sequence[str], runs_folder: str, history_db: str | None = None) -> list[Side]:
    """Return what `read` returns for each of `names`, to compare the first with each of the others.

    runs_folder: folder in which @last and ids of runs are looked up. history_db: history file in which an id is looked
    up next; None for the user's own. Raises UserError if nothing has one of the names, or if what has it is damaged.
    Also raises it if the first cannot be compared with one of the others: the runs of one (a baseline may have several)
    are all among those of the other, or the first is no baseline and the other is one.
    """
    first, *others = [read(name, runs_folder, history_db) for name in names]
    for other in others:
        if first.run_ids <= other.run_ids or other.run_ids <= first.run_ids:
            both = sorted(first.run_ids & other.run_ids)
            raise ConfigError(
                f"{first.name} and {other.name} hold the same {'run' if len(both) == 1 else 'runs'}, "
                f"{', '.join(both)}. Name another run, or a baseline of other runs"
            )
        if other.is_baseline and not first.is_baseline:
            raise ConfigError(f"{other.name} is a baseline, but {first.name} is not. Name the baseline first")
    return [first, *others]


def baseline(name: str, runs_folder: str, history_db: str | None = None, *, origin: str = "--compare-baseline") -> Side:
    """Read the baseline `name`: a file, a run, or the name of a baseline that gpubench ships.

    runs_folder: folder in which @last and ids of runs are looked up. history_db: history file in which an id is looked
    up next; None for the user's own. origin: option with this name, for messages. Raises UserError if nothing has this
    name, or if what has it is damaged.
    """
    if not name.strip():
        raise ConfigError(f"{origin}: expected a file or a name, got an empty text")
    shipped = shipped_baselines.files()
    if (
        name in shipped
        or "/" in name
        or name.endswith(".json")
        or name.startswith("@")
        or run_lookup.is_id(name)
        or safe_read.is_there(Path(name))
    ):
        return read(name, runs_folder, history_db)
    there = f"Baselines that ship: {', '.join(shipped)}." if shipped else "None ships with this version."
    raise ConfigError(
        f"{origin}: there is no file and no baseline with the name {name}.{did_you_mean(name, shipped)} "
        f"{there} `make-baseline` makes a baseline of a report."
    )


def _head(data: bytes, name: str) -> _Head:
    """Return the versions that a file names; None for one that it lacks.

    data: contents of the file. name: of the file, for messages. Raises ConfigError for a pytorch.json file, and for
    damaged JSON.
    """
    try:
        records = msgspec.json.decode(data, type=list[_Exported])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(data, _Head, name)
    if not records:
        return decode(data, _Head, name)
    raise ConfigError(
        f"{name}: records for PyTorch's benchmark database (format pytorch.json), not a report. Name the folder of the "
        "run, or its report.json."
    )


def _file(path: Path, name: str) -> Side:
    data = contents(path)
    head = _head(data, name)
    if head.baseline_version is None:
        return _sound(_report(data, head.schema_version, name), name)
    if head.baseline_version != run_figures.VERSION:
        raise ConfigError(
            f"{name}: a baseline of version {head.baseline_version!r:.40}; "
            f"this gpubench reads version {run_figures.VERSION}. "
            "Make it again from its run."
        )
    return _with_unique_keys(msgspec.structs.replace(decode(data, Side, name), name=name))


def _sound(report: Report, name: str) -> Side:
    if (figure := next(run_figures.impossible(report), None)) is not None:
        raise ConfigError(
            f"{name}: not a report of gpubench: a launch has the figure {figure}, outside the possible range of "
            f"{run_figures.LEAST:g} to {run_figures.MOST:g}"
        )
    return _with_unique_keys(run_figures.of_report(report, name))


def _with_unique_keys(side: Side) -> Side:
    """Check that each device and measurement of `side` occurs once, and return `side` unchanged.

    Raises ConfigError if one occurs twice, or if a measurement belongs to a device that `side` does not list.
    """
    uuid, devices = _most(device.gpu_uuid for device in side.devices)
    if devices > 1:
        raise ConfigError(f"{side.name}: not as gpubench writes it: {devices} devices have the UUID {uuid}")
    place, cells = _most((cell.key, cell.gpu_uuid) for cell in side.cells)
    if place is not None and cells > 1:
        raise ConfigError(f"{side.name}: not as gpubench writes it: {_cell(*place)} occurs {cells} times")
    known = {device.gpu_uuid for device in side.devices}
    if (stray := next((cell for cell in side.cells if cell.gpu_uuid not in known), None)) is not None:
        raise ConfigError(
            f"{side.name}: not as gpubench writes it: {_cell(stray.key, stray.gpu_uuid)}, which is none of its devices"
        )
    return side


def _most(values: Iterable[T]) -> tuple[T | None, int]:
    return next(iter(Counter(values).most_common(1)), (None, 0))


def _cell(key: CellKey, gpu_uuid: str) -> str:
    return f"{key.label} on {gpu_uuid}"


def _report(data: bytes, version: _Version, name: str) -> Report:
    if version is None:
        raise ConfigError(
            f"{name}: not a report of gpubench: it has no schema_version. To get a report, measure: "
            "`gpubench-orchestrate run -o report.json`"
        )
    if version == SCHEMA_VERSION:
        return decode(data, Report, name)
    if isinstance(version, int) and version in report_migrations.STEPS:
        document = decode(data, dict[str, Any], name)
        return convert(report_migrations.migrated(document, version), Report, name)
    raise ConfigError(
        f"{name}: a report of schema version {version!r:.40}; this gpubench reads versions 1 to {SCHEMA_VERSION}. "
        "Use the gpubench that wrote it, or a newer one."
    )
