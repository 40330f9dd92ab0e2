"""Settings of a gate: from the cells of a baseline, or for two sides (--ab, --set-a, …)."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from orchestrator.compare.run_figures import Side
from orchestrator.config.options import Option
from orchestrator.config.presets import Preset
from orchestrator.config.run_configuration import Configuration, Gate, GateSide, Isolation
from orchestrator.config.settings import LayeredSettings, from_options
from orchestrator.config.workloads import PHASES
from orchestrator.config.yaml_schema import require_known
from orchestrator.errors import ConfigError
from orchestrator.kinds.gate import planning
from protocol.cell import ModelSpec, Precision, Workload

NAME: Final = "gate"
LIMIT_S: Final = 300.0
SETTABLE: Final = ("batch-sizes", "compile", "input-size", "memory-format", "precision", "seq-len")
"""Options that --set-a and --set-b may change: each is a part of a cell's identity."""
_BATCHES: Final = {
    Workload.INFERENCE: "batch_sizes",
    Workload.TRAINING: "training_batch_sizes",
    Workload.GENERATION: "generation_batch_sizes",
}
_TAKEN_OVER: Final = {
    "iterations": "benchmark.iterations",
    "warm-up iterations": "benchmark.warmup",
    "isolation": "benchmark.isolation",
    "seed": "benchmark.seed",
}
"""Fact about the run of a baseline → setting of a gate, which has this value by default."""
UNCHANGED: Final = "unchanged"
_IMPORTS: Final = "import msgspec, zmq, torch; print(torch.__version__)"
_PATIENCE_S: Final = 120.0


class RequestedSide(NamedTuple):
    """Side that the user requests. label: name. changed: option → value as text. python: path; "": the running one."""

    label: str
    changed: dict[str, str]
    python: str


def of_baseline(side: Side, origin: str, limit_s: float, options: tuple[Option, ...]) -> Preset:
    """Return the preset of a gate. Each setting has all the values that cells of the baseline with a result have.

    These settings are models, precisions, modes, phases and batch sizes. Profile, iterations, warm-up, isolation and
    seed are those of the baseline's run. side: the baseline. limit_s: time limit in seconds. options: the table that
    validates the preset. origin: name of the baseline in messages. Raises ConfigError if the baseline has no result.
    """
    keys = [cell.key for cell in side.cells if cell.values]
    if not keys:
        raise ConfigError(f"{origin}: it has no cell with a result")
    values: dict[str, object] = {
        "models": list(dict.fromkeys(key.model_name for key in keys)),
        "benchmark.precision": [word for word in Precision if word in {key.precision for key in keys}],
        "benchmark.mode": sorted({key.mode for key in keys}),
    }
    if phases := [phase for phase in PHASES if phase in {key.phase for key in keys}]:
        values["benchmark.phases"] = phases
    for phase, name in _BATCHES.items():
        if sizes := sorted({key.batch_size for key in keys if key.phase == phase}):
            values[name] = sizes
    if side.profile in ("quick", "standard", "rigorous"):
        values["benchmark.profile"] = side.profile
    for fact, key in _TAKEN_OVER.items():
        if value := side.stack.get(fact):
            values[key] = int(value) if value.isdecimal() else value
    settings = from_options(values, dict.fromkeys(values, origin), options)
    return preset(limit_s, LayeredSettings(settings.values, settings.origins, frozenset(settings.values)))


def preset(limit_s: float, settings: LayeredSettings) -> Preset:
    """Return the preset of a gate with these settings. limit_s: its time limit in seconds."""
    return Preset(NAME, limit_s, settings)


def gated(configuration: Configuration, gate: Gate | None, launches: int | None) -> Configuration:
    """Return the configuration of a gate's run, which writes no report outside its run folder.

    gate: what to compare; None to make the configuration of one side, for a GateSide. launches: number of planned
    rounds; None for FIRST_ROUNDS.
    """
    rounds = planning.FIRST_ROUNDS if launches is None else launches
    isolation = configuration.isolation
    if gate is not None and any(side.python for side in gate.sides):
        isolation = Isolation.EXEC  # a zygote has one interpreter
    measurement = replace(configuration.measurement, load_s=0.0)  # a gate has no time for what it does not compare
    return replace(configuration, gate=gate, launches=rounds, isolation=isolation, formats=(), measurement=measurement)


def with_cells(
    configuration: Configuration, baseline: Side, launches: int | None, percent: float | None
) -> Configuration:
    """Return the configuration of a gate that measures the cells of a baseline that have values.

    Cells that `configuration` does not request are neither measured nor compared. launches: number of
    planned rounds; None for FIRST_ROUNDS. percent: tolerated slow-down; None for margins.yaml.
    """
    keys = tuple(dict.fromkeys(planning.stored(cell.key) for cell in baseline.cells if cell.values))
    return gated(configuration, Gate(keys=keys, percent=percent), launches)


def sides(
    models: tuple[str, str] | None, settings: Sequence[Sequence[str]], pythons: Sequence[str | None]
) -> list[RequestedSide]:
    """Return sides a and b as requested by --ab, --set-a, --set-b, --python-a, --python-b; [] without these options.

    models: those of --ab. settings: words NAME=VALUE of each side. pythons: interpreter of each side; None for the
    running one. Raises ConfigError for an invalid setting or interpreter, or if both sides are the same.
    """
    if models is None and not any(settings) and not any(pythons):
        return []
    requested = []
    for place, name in enumerate("ab"):
        changed = parse(settings[place], f"--set-{name}")
        words = [f"{option.replace('_', '-')}={value}" for option, value in changed.items()]
        if models is not None:
            changed, words = {**changed, "models": models[place]}, [models[place], *words]
        python = interpreter(pythons[place] or sys.executable, f"--python-{name}") if any(pythons) else ""
        requested.append(RequestedSide(" ".join(filter(None, (*words, python))) or UNCHANGED, changed, python))
    if requested[0] == requested[1]:
        raise ConfigError(f"both sides are the same: {requested[0].label}")
    return requested


def with_sides(
    words: Sequence[RequestedSide], configurations: Sequence[Configuration], launches: int | None, percent: float | None
) -> Configuration:
    """Return the configuration of a gate of two sides. words: the two sides as requested.

    configurations: the configuration of each side, in the order of `words`. If any model is on both sides, every model
    gets a name with the label of its side. launches: number of planned rounds; None for FIRST_ROUNDS. percent:
    tolerated slow-down of a cell; None for margins.yaml.
    """
    first, second = ({model.name for model in one.models} for one in configurations)
    gate_sides: list[GateSide] = []
    models: list[ModelSpec] = []
    for side, configuration in zip(words, configurations, strict=True):
        one = gated(configuration, None, launches)
        names = tuple(f"{model.name} ({side.label})" if first & second else model.name for model in one.models)
        gate_sides.append(GateSide(label=side.label, models=names, configuration=one, python=side.python))
        models += [replace(model, name=name) for model, name in zip(one.models, names, strict=True)]
    whole = replace(configurations[0], models=tuple(models), probes=())
    return gated(whole, Gate(sides=tuple(gate_sides), percent=percent), launches)


def parse(words: Iterable[str], origin: str) -> dict[str, str]:
    """Return option, such as "batch_sizes" → value, from words like "batch-sizes=8" of --set-a or --set-b.

    Of a repeated option, the last word counts. origin: "--set-a" or "--set-b", for messages. Raises ConfigError for
    another form, or for a name that is not in SETTABLE.
    """
    changed: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        name = name.strip().replace("_", "-")
        if not sign or not value:
            raise ConfigError(f"{origin} {word}: expected NAME=VALUE, such as precision=bf16")
        changed[require_known(name, origin, SETTABLE, "setting").replace("-", "_")] = value
    return changed


def interpreter(path: str, origin: str) -> str:
    """Return the absolute path of a Python interpreter, after it has imported torch, msgspec and zmq in a process.

    origin: option that names it, for messages. Raises ConfigError if it cannot import them within 120 s.
    """
    place = Path(path).expanduser().absolute()
    try:
        done = subprocess.run([place, "-c", _IMPORTS], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        problem = "" if done.stdout.strip() else done.stderr.strip().rpartition("\n")[2] or "it prints nothing"
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise ConfigError(f"{origin} {path}: cannot measure: {problem}. It needs torch, msgspec and pyzmq.")
    return str(place)
