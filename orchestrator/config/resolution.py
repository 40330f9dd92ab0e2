"""From what a person said to what a run does: defaults ← file ← command line, checked, and resolved to one value.

Every mistake is found here, before anything is started or written, and named with the line or option to change.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from orchestrator.config import health_signals
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.run_configuration import Configuration, Isolation, ReportFormat
from orchestrator.config.settings import Auto, LayeredSettings, Settings, from_defaults, from_file
from orchestrator.config.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from orchestrator.plan import shapes
from protocol.cell import AUTO, MemoryFormat, Mode, ModelSpec, Precision, SizeUnit, Workload
from protocol.messages import Deadlines

T = TypeVar("T")
Choice = TypeVar("Choice", bound=enum.StrEnum)

PHASES: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
SIZES_KEY: Final = {SizeUnit.TOKENS: "sequence_lengths", SizeUnit.PIXELS: "input_sizes"}
OTHER_SUFFIXES: Final = frozenset(
    {"doc", "docx", "gz", "htm", "jsonl", "log", "ndjson", "ods", "odt", "parquet", "pdf", "png", "rst", "svg"}
    | {"tex", "toml", "tsv", "xls", "xlsx", "xml", "yaml", "yml", "zip"}
)
"""Of formats that nobody should find a JSON file in. Other words behind a dot are part of a name: night.2026-11."""


@dataclass(frozen=True)
class Places:
    """What the machine decides: the folder that relative paths are seen from, and where weights are kept."""

    current: Path
    cache: Path


def gather(
    defaults: Path, file: Path | None, command_line: LayeredSettings, preset: LayeredSettings | None = None
) -> LayeredSettings:
    """Everything that was said, the stronger over the weaker. Raises ConfigError for a file that is not right."""
    said = from_defaults(defaults)
    if preset is not None:
        said = preset.over(said)
    if file is not None:
        said = from_file(file).over(said)
    return command_line.over(said)


def resolve(said: LayeredSettings, catalogue: Catalogue, places: Places) -> Configuration:
    """The complete configuration. Raises ConfigError for what cannot be done."""
    settings = said.settings
    benchmark = _need(settings.benchmark, "benchmark")
    profile = catalogue.profiles[_name(said, "benchmark.profile", benchmark.profile, catalogue.profiles, "profile")]
    monitoring = _need(settings.monitoring, "monitoring")
    run = _need(settings.run, "run")
    history = _need(settings.history, "history")
    current = places.current
    output_path, formats = report_place(said, current)
    configuration = Configuration(
        models=_models(said, catalogue),
        probes=catalogue.probes,
        workloads=_choices(said, "benchmark.phases", benchmark.phases, PHASES, "phase"),
        precisions=_choices(said, "benchmark.precision", benchmark.precision, Precision, "precision"),
        batch_sizes=_batch_sizes(said, "batch_sizes", settings.batch_sizes),
        training_batch_sizes=_batch_sizes(said, "training_batch_sizes", settings.training_batch_sizes),
        generation_batch_sizes=_batch_sizes(said, "generation_batch_sizes", settings.generation_batch_sizes),
        sequence_lengths=_own_or(said, "sequence_lengths", settings.sequence_lengths),
        input_sizes=_own_or(said, "input_sizes", settings.input_sizes),
        memory_format=_memory_format(said, benchmark.memory_format),
        profile=_need(benchmark.profile, "benchmark.profile"),
        measurement=profile.measurement(iterations=benchmark.iterations, warm_up_iterations=benchmark.warmup),
        launches=benchmark.launches or profile.launches,
        adds_launches=profile.adds_launches and benchmark.launches is None,  # who names a number gets it
        seed=_need(benchmark.seed, "benchmark.seed"),
        modes=_choices(said, "benchmark.mode", benchmark.mode, Mode, "mode"),
        isolation=Isolation(_name(said, "benchmark.isolation", benchmark.isolation, Isolation, "isolation")),
        gpu_ids=gpu_ids(settings),
        allow_busy=_need(_need(settings.gpu, "gpu").allow_busy, "gpu.allow_busy"),
        monitor=_need(monitoring.enabled, "monitoring.enabled"),
        monitor_interval_ms=_need(monitoring.interval_ms, "monitoring.interval_ms"),
        required_signals=_required_signals(said),
        deadlines=_deadlines(settings),
        cache_folder=str(places.cache) if run.cache is None else _absolute(said, "run.cache", run.cache, current),
        runs_folder=_absolute(said, "run.folder", _need(run.folder, "run.folder"), current),
        output_path=output_path,
        formats=formats,
        history=_need(history.enabled, "history.enabled"),
        history_db=None if history.file is None else _absolute(said, "history.file", history.file, current),
    )
    if not _all_models(said):
        _refuse_impossible_sizes(said, configuration)
    return configuration


def report_formats(text: str) -> tuple[ReportFormat, ...]:
    """The formats that `-f` names. Raises ConfigError."""
    return _choices(LayeredSettings(Settings(), {"format": "-f/--format"}), "format", text, ReportFormat, "format")


def verbose(said: LayeredSettings) -> bool:
    """Whether every step is told; how a run is shown is no part of what it does."""
    return bool(said.settings.output and said.settings.output.verbose)


def _need(value: T | None, key: str) -> T:
    """A value that configs/default.yaml always gives."""
    if value is None:
        raise ConfigError(f"configs/default.yaml: the key {key} is missing; install gpubench again")
    return value


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _list(said: LayeredSettings, key: str, value: str | tuple[str, ...] | None, what: str) -> list[tuple[str, str]]:
    """The words of a setting, each with the words for its place. Never empty, no word twice."""
    if isinstance(value, tuple):
        words = [(word, said.origin(f"{key}[{index}]")) for index, word in enumerate(value)]
    else:
        words = [(word.strip(), said.origin(key)) for word in _need(value, key).split(",")]
    _refuse_empty(said, key, words, what)
    seen: set[str] = set()
    for word, origin in words:
        if not word:
            raise ConfigError(f"{origin}: a name is empty; separate names with single commas")
        if word in seen:
            raise ConfigError(f"{origin}: {word} is given twice")
        seen.add(word)
    return words


def _refuse_empty(said: LayeredSettings, key: str, items: Iterable[object], what: str) -> None:
    if not list(items):
        raise ConfigError(f"{said.origin(key)}: the list is empty; name at least one {what}, or leave the key out")


def _choices(
    said: LayeredSettings, key: str, value: str | tuple[str, ...] | None, options: Iterable[Choice], what: str
) -> tuple[Choice, ...]:
    by_name = {str(option): option for option in options}
    return tuple(by_name[_known(word, origin, by_name, what)] for word, origin in _list(said, key, value, what))


def _name(said: LayeredSettings, key: str, value: str | None, options: Iterable[str], what: str) -> str:
    return _known(_need(value, key), said.origin(key), options, what)


def _known(word: str, origin: str, options: Iterable[str], what: str) -> str:
    names = [str(option) for option in options]
    if word in names:
        return word
    near = did_you_mean(word, names)
    raise ConfigError(f"{origin}: there is no {what} '{word}'.{near} There is {listed(names, 'and')}.")


def _all_models(said: LayeredSettings) -> bool:
    return [word for word, _ in _list(said, "models", said.settings.models, "model")] == ["all"]


def _models(said: LayeredSettings, catalogue: Catalogue) -> tuple[ModelSpec, ...]:
    if _all_models(said):
        return tuple(model for model in catalogue.models if not model.on_request)
    models = []
    for word, origin in _list(said, "models", said.settings.models, "model"):
        if word == "all":
            raise ConfigError(f"{origin}: 'all' stands alone; leave it or the other names out")
        try:
            models.append(catalogue.model(word))
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error}") from None
    return tuple(models)


def _batch_sizes(said: LayeredSettings, key: str, value: int | Auto | tuple[int, ...] | None) -> tuple[int, ...]:
    return (AUTO,) if isinstance(value, Auto) else _sizes(said, key, value)


def _sizes(said: LayeredSettings, key: str, value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    sizes = value if isinstance(value, tuple) else (_need(value, key),)
    _refuse_empty(said, key, sizes, "size")
    for index, size in enumerate(sizes):
        if size in sizes[:index]:
            raise ConfigError(f"{said.origin(key)}: {size} is given twice")
    return sizes


def _memory_format(said: LayeredSettings, value: str | None) -> MemoryFormat | None:
    if value is None:
        return None
    return MemoryFormat(_name(said, "benchmark.memory_format", value, MemoryFormat, "memory format"))


def _own_or(said: LayeredSettings, key: str, value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """The sizes that somebody asked for; none: every model keeps its own."""
    return () if value is None else _sizes(said, key, value)


def _refuse_impossible_sizes(said: LayeredSettings, configuration: Configuration) -> None:
    """Who names a model means it. Of `all`, those that cannot are left out, and said (plan/shapes.py)."""
    for model in configuration.models:
        if model.sizes is None:
            continue
        for size in shapes.asked(model.sizes, configuration):
            if not shapes.possible(model.sizes, size):
                raise ConfigError(
                    f"{said.origin(SIZES_KEY[model.sizes.unit])}: {model.name} takes {shapes.takes(model.sizes)}, not "
                    f"{size}. Leave the size or the model out; with -m all, models are left out where they must be."
                )


# ── devices, deadlines, folders, formats ──────────────────────────────────────────────────────────────────────────────


def gpu_ids(settings: Settings) -> str:
    """The devices in the words of --gpu-ids. Which of them exist, only the machine knows."""
    gpu = _need(settings.gpu, "gpu")
    if gpu.ids is None:
        return "all" if gpu.multi_gpu else "0"
    return ",".join(map(str, gpu.ids)) if isinstance(gpu.ids, tuple) else str(gpu.ids)


def _required_signals(said: LayeredSettings) -> tuple[str, ...]:
    """The signals of health that somebody requires, each once; a word may mean several."""
    asked = said.settings.health
    if asked is None or asked.require is None:
        return ()
    words = [
        _known(word, origin, health_signals.names(), "signal")
        for word, origin in _list(said, "health.require", asked.require, "signal")
    ]
    return tuple(dict.fromkeys(name for word in words for name in health_signals.named(word)))


def _deadlines(settings: Settings) -> Deadlines:
    said = _need(settings.deadlines, "deadlines")
    return Deadlines(
        start=_need(said.start, "deadlines.start"),
        import_=_need(said.import_, "deadlines.import"),
        build=_need(said.build, "deadlines.build"),
        warm_up=_need(said.warm_up, "deadlines.warm_up"),
        measure=_need(said.measure, "deadlines.measure"),
        finish=_need(said.finish, "deadlines.finish"),
    )


def _absolute(said: LayeredSettings, key: str, path: str, current: Path) -> str:
    return absolute(path, said.origin(key, key), current)


def absolute(path: str, origin: str, current: Path) -> str:
    """The path as any process sees it, whatever folder a later `resume` is started in. Raises ConfigError."""
    if not path.strip():
        raise ConfigError(f"{origin}: expected a path, got an empty text")
    if "\0" in path:
        raise ConfigError(f"{origin}: {path!r}: no path contains a NUL character")
    try:
        return str(current / Path(path).expanduser())
    except RuntimeError:
        raise ConfigError(f"{origin}: {path}: there is no home folder to put in the place of ~") from None


def report_place(said: LayeredSettings, current: Path) -> tuple[str, tuple[ReportFormat, ...]]:
    """Where the report goes, and its formats: those asked for, else the one that the name's suffix says, else JSON.

    Raises ConfigError for a name that is none of a report's.
    """
    output = _need(said.settings.output, "output")
    path = _need(output.path, "output.path")
    absolute = _absolute(said, "output.path", path, current)
    suffix = Path(path).suffix[1:].lower()
    origin = said.origin("output.path")
    if path.endswith("/"):
        raise ConfigError(f"{origin}: {path} is a folder; name the report's file, such as {path}report.json")
    if suffix in OTHER_SUFFIXES:
        names = listed(ReportFormat, "and")
        raise ConfigError(f"{origin}: there is no format '{suffix}'. There is {names}; name the report accordingly.")
    own = ReportFormat.of_name(Path(path).name)
    if output.format is None:
        return absolute, (own or ReportFormat.JSON,)
    formats = _choices(said, "output.format", output.format, ReportFormat, "format")
    if said.chosen("output.path") and own is not None and own not in formats:
        raise ConfigError(
            f"{origin}: {path} ends in .{own}, but {said.origin('output.format')} asks for "
            f"{listed(formats, 'and')}. Leave the suffix out, or add {own} to the formats."
        )
    return absolute, formats
