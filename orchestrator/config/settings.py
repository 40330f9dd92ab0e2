"""What a person may say about a run, in a file or on the command line: every key, all of them optional.

configs/default.yaml says all of it once, a file of the user's and then the command line say some of it again. Each
setting remembers who said it, so that a message can name the line or the option to change.
"""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar, get_args

import msgspec
from msgspec import Meta

from orchestrator.config import yaml_file, yaml_schema
from orchestrator.errors import ConfigError

LARGEST: Final = 1_000_000_000
"""Of any whole number that is asked for: larger ones are typing mistakes, and would not fit into a message."""

MOST_LAUNCHES: Final = 1000
"""Of each cell: the plan names every launch, and nobody has asked more than ten for one."""

Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
NotNegative = Annotated[int, Meta(ge=0, le=LARGEST)]
Seconds = Annotated[float, Meta(gt=0)]
Words = str | tuple[str, ...]
Sizes = Positive | tuple[Positive, ...]


class Auto(enum.StrEnum):
    """The word for a batch size that is to be found."""

    AUTO = "auto"


BatchSizes = Positive | Auto | tuple[Positive, ...]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of one section of the file. None: nothing was said here."""


class Benchmark(_Section, frozen=True, kw_only=True):
    """How cells are measured."""

    profile: str | None = None
    phases: Words | None = None
    precision: Words | None = None
    iterations: Positive | None = None
    warmup: Positive | None = None
    launches: Annotated[int, Meta(ge=1, le=MOST_LAUNCHES)] | None = None
    seed: NotNegative | None = None
    memory_format: str | None = None
    mode: Words | None = None
    isolation: str | None = None


class Output(_Section, frozen=True, kw_only=True):
    """Where the report goes."""

    path: str | None = None
    format: Words | None = None
    verbose: bool | None = None


class Monitoring(_Section, frozen=True, kw_only=True):
    """Telemetry."""

    enabled: bool | None = None
    interval_ms: Annotated[int, Meta(ge=10, le=LARGEST)] | None = None


class Health(_Section, frozen=True, kw_only=True):
    """What the verdict on a GPU rests on."""

    require: Words | None = None


class Gpu(_Section, frozen=True, kw_only=True):
    """Which devices."""

    ids: NotNegative | str | tuple[NotNegative | str, ...] | None = None
    multi_gpu: bool | None = None
    allow_busy: bool | None = None


class Run(_Section, frozen=True, kw_only=True):
    """Folders of the machine."""

    folder: str | None = None
    cache: str | None = None


class History(_Section, frozen=True, kw_only=True):
    """The database in which runs are recorded."""

    enabled: bool | None = None
    file: str | None = None


class DeadlineSettings(_Section, frozen=True, kw_only=True, rename={"import_": "import"}):
    """Seconds for each step of a launch."""

    start: Seconds | None = None
    import_: Seconds | None = None
    build: Seconds | None = None
    warm_up: Seconds | None = None
    measure: Seconds | None = None
    finish: Seconds | None = None


class Settings(_Section, frozen=True, kw_only=True):
    """The whole file."""

    benchmark: Benchmark | None = None
    models: Words | None = None
    models_file: str | None = None
    pythonpath: Words | None = None
    batch_sizes: BatchSizes | None = None
    training_batch_sizes: BatchSizes | None = None
    generation_batch_sizes: BatchSizes | None = None
    sequence_lengths: Sizes | None = None
    input_sizes: Sizes | None = None
    output: Output | None = None
    monitoring: Monitoring | None = None
    health: Health | None = None
    gpu: Gpu | None = None
    run: Run | None = None
    history: History | None = None
    deadlines: DeadlineSettings | None = None


S = TypeVar("S", bound=_Section)


_SECTIONS: Final = frozenset(
    field.name
    for field in msgspec.structs.fields(Settings)
    if any(isinstance(kind, type) and issubclass(kind, _Section) for kind in get_args(field.type))
)


@dataclass(frozen=True)
class LayeredSettings:
    """Settings, and by key ("benchmark.precision") the words for who said so. defaults: keys that no person decided."""

    settings: Settings
    origins: dict[str, str]
    defaults: frozenset[str] = frozenset()

    def over(self, below: "LayeredSettings") -> "LayeredSettings":
        """These settings, and those `below` wherever these say nothing."""
        defaults = self.defaults | (below.defaults - self.origins.keys())
        return LayeredSettings(_over(self.settings, below.settings), below.origins | self.origins, defaults)

    def chosen(self, key: str) -> bool:
        """Whether a person decided `key`, in a file or on the command line."""
        return key in self.origins and key not in self.defaults

    def origin(self, key: str, option: str | None = None) -> str:
        """Who decided `key`; `option`, where that is given and nobody did."""
        return option if option is not None and not self.chosen(key) else self.origins[key]


def from_defaults(path: Path) -> LayeredSettings:
    """What holds where nobody says anything. Raises ConfigError for a file that is not right."""
    said = from_file(path)
    return LayeredSettings(said.settings, said.origins, frozenset(said.origins))


def from_file(path: Path) -> LayeredSettings:
    """What a configuration file says. Raises ConfigError naming file, line and key.

    A file that says nothing, and a key with nothing behind it, are taken for mistakes; a section of which every key is
    commented out is not.
    """
    document = yaml_file.read(path)
    if document.value is None or document.value == {}:
        raise ConfigError(f"{path}: there is no key in it, so it would change nothing; leave --config out")
    settings = document.convert(Settings)
    for key, text in document.nulls.items():
        if not text and not (len(key) == 1 and key[0] in _SECTIONS):
            raise ConfigError(
                f"{document.where(key)}: nothing stands behind the key; give a value, or leave the key out"
            )
    origins = {yaml_file.spell(key): document.where(key) for key in document.lines if key not in document.nulls}
    return LayeredSettings(settings, origins)


def from_options(value: dict[str, object], origins: dict[str, str]) -> LayeredSettings:
    """What the command line says, by the keys of a file. Raises ConfigError naming the option in `origins`."""
    try:
        return LayeredSettings(msgspec.convert(value, Settings), origins)
    except msgspec.ValidationError as error:
        problem = yaml_schema.explain(error, value, Settings)
        key = yaml_file.spell(tuple(part for part in problem.path if isinstance(part, str)))
        raise ConfigError(f"{origins[key]}: {problem.message}") from None


def _over(above: S, below: S) -> S:
    """`above`, with what it leaves unsaid taken from `below`, section by section."""
    merged = {}
    for field in above.__struct_fields__:
        upper, lower = getattr(above, field), getattr(below, field)
        both_sections = isinstance(upper, _Section) and isinstance(lower, _Section)
        merged[field] = _over(upper, lower) if both_sections else (lower if upper is None else upper)
    return type(above)(**merged)
