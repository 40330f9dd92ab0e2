"""Resolve settings to a run's configuration. Every mistake is found before anything is started or written."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from orchestrator.config import health_signals, input_sizes, own_code
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.options import HISTORY, MEASUREMENT, Option
from orchestrator.config.report_formats import ALSO_CALLED, ReportFormat
from orchestrator.config.run_configuration import Configuration, Isolation
from orchestrator.config.settings import Auto, LayeredSettings, from_defaults, from_file
from orchestrator.config.workloads import PHASES
from orchestrator.config.yaml_schema import listed, require_known
from orchestrator.errors import ConfigError
from orchestrator.system import plain_text
from protocol.cell import AUTO, CompileMode, MemoryFormat, Mode, ModelSpec, Precision, SizeUnit
from protocol.messages import ChangingShapes, Deadlines

Choice = TypeVar("Choice", bound=enum.StrEnum)

DTYPES: Final = {
    "float32": Precision.FP32,
    "float16": Precision.FP16,
    "half": Precision.FP16,
    "bfloat16": Precision.BF16,
}
"""Torch's name of a precision, which users may type → the precision."""
SIZES_KEY: Final = {SizeUnit.TOKENS: "sequence_lengths", SizeUnit.PIXELS: "input_sizes"}
OTHER_SUFFIXES: Final = frozenset(
    {"doc", "docx", "gz", "htm", "jsonl", "log", "ndjson", "ods", "odt", "parquet", "pdf", "png", "rst", "svg"}
    | {"tex", "toml", "tsv", "xls", "xlsx", "xml", "yaml", "yml", "zip"}
)
"""Suffixes of other formats, refused for a report. Any other suffix is part of the file's name."""


@dataclass(frozen=True)
class Places:
    """Folders: `current`, from which relative paths start, and `cache` for weights."""

    current: Path
    cache: Path


def gather(
    options: tuple[Option, ...],
    defaults: Path,
    file: Path | None,
    command_line: LayeredSettings,
    preset: LayeredSettings | None = None,
) -> LayeredSettings:
    """Return all settings. The command line overrides the file, the file a preset, a preset the defaults.

    options: all that exist. defaults: path of configs/default.yaml. file: of --config. Raises ConfigError for a
    mistake.
    """
    settings = from_defaults(defaults, options)
    if preset is not None:
        settings = preset.on_top_of(settings)
    if file is not None:
        settings = from_file(file, options).on_top_of(settings)
    return command_line.on_top_of(settings)


def resolve(settings: LayeredSettings, catalogue: Catalogue, places: Places) -> Configuration:
    """Return the configuration of a run from its settings. Raises ConfigError for a wrong or impossible setting."""
    profile_name = one_of(settings, "benchmark.profile", catalogue.profiles, "profile")
    profile = catalogue.profiles[profile_name]
    launches = settings.find("benchmark.launches", int)
    compile_modes = _members(settings, "benchmark.compile", CompileMode, "mode")
    cache = _path(settings, "run.cache", places.current)
    output_path, formats = report_place(settings, places.current)
    configuration = Configuration(
        models=_models(settings, catalogue),
        probes=catalogue.probes,
        workloads=_members(settings, "benchmark.phases", PHASES, "phase"),
        precisions=_members(settings, "benchmark.precision", Precision, "precision", DTYPES),
        batch_sizes=_batch_sizes(settings, "batch_sizes"),
        training_batch_sizes=_batch_sizes(settings, "training_batch_sizes"),
        generation_batch_sizes=_batch_sizes(settings, "generation_batch_sizes"),
        sequence_lengths=_sizes(settings, "sequence_lengths"),
        input_sizes=_sizes(settings, "input_sizes"),
        compile_modes=compile_modes,
        shapes=_changing_shapes(settings),
        memory_format=_memory_format(settings),
        profile=profile_name,
        measurement=profile.measurement(**_set_as_given(settings, "measurement")),
        launches=launches or max(profile.launches, _least_launches(compile_modes)),
        adds_launches=profile.adds_launches and launches is None,  # a given number is kept
        modes=_members(settings, "benchmark.mode", Mode, "mode"),
        isolation=Isolation(one_of(settings, "benchmark.isolation", Isolation, "isolation")),
        gpu_ids=gpu_ids(settings),
        required_signals=_required_signals(settings),
        deadlines=_deadlines(settings),
        cache_folder=cache or str(places.cache),
        runs_folder=_needed_path(settings, "run.folder", places.current),
        output_path=output_path,
        formats=formats,
        history_db=_path(settings, "history.file", places.current),
        **_set_as_given(settings, ""),
    )
    if not _all_models(settings):  # `all` excludes models for which a size is impossible (plan/shapes.py)
        _refuse_impossible_sizes(settings, configuration)
    return configuration


def _set_as_given(settings: LayeredSettings, owner: str) -> dict[str, Any]:
    """Return field → value for the fields of `owner` that get the value of a setting unchanged.

    owner: "measurement" for fields of Measurement, "" for fields of Configuration. Each option names the field that it
    sets (Option.sets in config/options.py). Fields without a setting are omitted.
    """
    fields = {option.key: option.sets.rpartition(".") for option in (*MEASUREMENT, *HISTORY) if option.sets}
    return {
        field: settings.values[key] for key, (of, _, field) in fields.items() if of == owner and key in settings.values
    }


def _least_launches(compile_modes: Iterable[CompileMode]) -> int:
    """Return the least number of launches of each cell: 2 if a mode compiles (empty, then filled caches), else 1."""
    return 1 if {*compile_modes} == {CompileMode.EAGER} else 2


def refuse_mistakes(
    file: Path, options: tuple[Option, ...], defaults: Path, catalogue: Catalogue, places: Places
) -> LayeredSettings:
    """Return the settings of `file`. Raises ConfigError for a mistake in any key.

    Each key is checked alone: all other keys get their default values. The key `models` is not checked if it names the
    user's own code. options: all that exist. defaults: path of configs/default.yaml.
    """
    settings, below = from_file(file, options), from_defaults(defaults, options)
    for key in settings.values:
        if key != "models" or not any(own_code.is_own(item) for item, _ in settings.items(key)):
            resolve(settings.only(key).on_top_of(below), catalogue, places)
    return settings


def report_formats(text: str) -> tuple[ReportFormat, ...]:
    """Return the formats in `text`, such as "json,html". Raises ConfigError for an empty, unknown or repeated name."""
    given = LayeredSettings({"format": text}, {"format": "-f/--format"})
    return _formats(given, "format")


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _items(settings: LayeredSettings, key: str, what: str) -> list[tuple[str, str]]:
    """Return (item, origin) of the list setting `key`. Raises ConfigError if it is empty, or repeats an item.

    what: noun for an item, for the error message.
    """
    items = settings.items(key)
    _refuse_empty(settings, key, items, what)
    seen: set[str] = set()
    for item, origin in items:
        if not item:
            raise ConfigError(f"{origin}: a name is empty. Separate names with single commas")
        if item in seen:
            raise ConfigError(f"{origin}: {item} is given twice")
        seen.add(item)
    return items


def _refuse_empty(settings: LayeredSettings, key: str, items: Iterable[object], what: str) -> None:
    if not list(items):
        raise ConfigError(f"{settings.origin(key)}: the list is empty. Name at least one {what}, or remove the key")


def _members(
    settings: LayeredSettings,
    key: str,
    options: Iterable[Choice],
    what: str,
    also_called: Mapping[str, Choice] = MappingProxyType({}),
) -> tuple[Choice, ...]:
    by_name = {str(option): option for option in options}
    found = [
        also_called.get(item) or by_name[require_known(item, origin, by_name, what)]
        for item, origin in _items(settings, key, what)
    ]
    return tuple(dict.fromkeys(found))


def _formats(settings: LayeredSettings, key: str) -> tuple[ReportFormat, ...]:
    return _members(settings, key, ReportFormat, "format", ALSO_CALLED)


def one_of(settings: LayeredSettings, key: str, options: Iterable[str], what: str) -> str:
    """Return the value of `key`. Raises ConfigError if it is not one of `options`. what: noun for an option."""
    return require_known(settings.need(key, str), settings.origin(key), options, what)


def _all_models(settings: LayeredSettings) -> bool:
    return [item for item, _ in _items(settings, "models", "model")] == ["all"]


def _models(settings: LayeredSettings, catalogue: Catalogue) -> tuple[ModelSpec, ...]:
    if _all_models(settings):
        return tuple(model for model in catalogue.models if not model.on_request)
    models = []
    for item, origin in _items(settings, "models", "model"):
        if item == "all":
            raise ConfigError(f"{origin}: 'all' cannot be combined with other names. Remove it or the others")
        try:
            models.append(catalogue.model(item))
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error}") from None
    return tuple(models)


def _batch_sizes(settings: LayeredSettings, key: str) -> tuple[int, ...]:
    return (AUTO,) if isinstance(settings.values.get(key), Auto) else _sizes(settings, key)


def _sizes(settings: LayeredSettings, key: str) -> tuple[int, ...]:
    value = settings.values.get(key)
    if value is None:
        return ()
    sizes = tuple(int(size) for size in (value if isinstance(value, tuple) else (value,)))
    _refuse_empty(settings, key, sizes, "size")
    for index, size in enumerate(sizes):
        if size in sizes[:index]:
            raise ConfigError(f"{settings.origin(key)}: {size} is given twice")
    return sizes


def _changing_shapes(settings: LayeredSettings) -> ChangingShapes | None:
    sizes = _sizes(settings, "benchmark.compile_shapes")
    return ChangingShapes(sizes=sizes, bucket=settings.need("benchmark.buckets", int)) if sizes else None


def _memory_format(settings: LayeredSettings) -> MemoryFormat | None:
    key = "benchmark.memory_format"
    return MemoryFormat(one_of(settings, key, MemoryFormat, "memory format")) if key in settings.values else None


def _refuse_impossible_sizes(settings: LayeredSettings, configuration: Configuration) -> None:
    for model, sizes in ((model, model.sizes) for model in configuration.models if model.sizes is not None):
        for size in input_sizes.requested(sizes, configuration):
            if not input_sizes.is_possible(sizes, size):
                raise ConfigError(
                    f"{settings.origin(SIZES_KEY[sizes.unit])}: {model.name} takes {input_sizes.in_words(sizes)}, not "
                    f"{size}. Remove the size or the model. With -m all, models that do not take the size are excluded."
                )


# ── devices, deadlines, folders, formats ──────────────────────────────────────────────────────────────────────────────


def gpu_ids(settings: LayeredSettings) -> str:
    """Return the requested devices as --gpu-ids takes them: "all", "0,2" or "cpu:0". They may not exist."""
    ids = settings.values.get("gpu.ids")
    if ids is None:
        return "all" if settings.need("gpu.multi_gpu", bool) else "0"
    return ",".join(map(str, ids)) if isinstance(ids, tuple) else str(ids)


def _required_signals(settings: LayeredSettings) -> tuple[str, ...]:
    if "health.require" not in settings.values:
        return ()
    words = [
        require_known(item, origin, health_signals.names(), "signal")
        for item, origin in _items(settings, "health.require", "signal")
    ]
    return tuple(dict.fromkeys(name for item in words for name in health_signals.signals_of_word(item)))


def _deadlines(settings: LayeredSettings) -> Deadlines:
    steps = ("start", "import_", "build", "compile", "warm_up", "measure", "finish")
    return Deadlines(**{step: settings.need(f"deadlines.{step.rstrip('_')}", float) for step in steps})


def _path(settings: LayeredSettings, key: str, current: Path) -> str | None:
    path = settings.find(key, str)
    return None if path is None else absolute(path, settings.origin(key, key), current)


def _needed_path(settings: LayeredSettings, key: str, current: Path) -> str:
    return absolute(settings.need(key, str), settings.origin(key, key), current)


def absolute(path: str, origin: str, current: Path) -> str:
    """Return `path` as an absolute path. current: folder that a relative path starts from.

    Raises ConfigError, which names `origin`, for an empty path, control characters, or "~" without a home folder.
    """
    if not path.strip():
        raise ConfigError(f"{origin}: expected a path, got an empty string")
    if not plain_text.is_text(path):
        raise ConfigError(f"{origin}: {plain_text.escaped(path)}: {plain_text.NO_TEXT}")
    try:
        return str(current / Path(path).expanduser())
    except RuntimeError:
        raise ConfigError(f"{origin}: {path}: ~ cannot be replaced, because there is no home folder") from None


def report_place(settings: LayeredSettings, current: Path) -> tuple[str, tuple[ReportFormat, ...]]:
    """Return the absolute path of the report, as in -o, and its formats: those of -f, else of the suffix, else JSON.

    current: folder that a relative path starts from. Raises ConfigError if the path ends in "/", for an unknown format,
    or for a suffix given by the user that -f contradicts.
    """
    path = settings.need("output.path", str)
    full = _needed_path(settings, "output.path", current)
    suffix = Path(path).suffix[1:].lower()
    origin = settings.origin("output.path")
    if path.endswith("/"):
        raise ConfigError(f"{origin}: {path} is a folder. Name a file, such as {path}report.json")
    own = ReportFormat.of_name(Path(path).name)
    if own is None and suffix in OTHER_SUFFIXES:
        names = listed(ReportFormat, "and")
        raise ConfigError(f"{origin}: there is no format '{suffix}'. Use one of {names}.")
    if "output.format" not in settings.values:
        return full, (own or ReportFormat.JSON,)
    formats = _formats(settings, "output.format")
    if settings.chosen("output.path") and own is not None and own not in formats:
        bare = path[: -len(own) - 1]
        instead = f"-o {bare}.{formats[0]}" if len(formats) == 1 else f"-o {bare}"
        raise ConfigError(
            f"{origin}: {path} ends in .{own}, but {settings.origin('output.format')} requests "
            f"{listed(formats, 'and')}. Use {instead}, or add {own} to the formats."
        )
    return full, formats
