"""Options that change nothing in the run they were given to, in sentences: for --dry-run, and for its beginning.

No mistakes: a script may hand the same options to every run. But whoever waits for their effect should know.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from orchestrator.cli.options import RunParams
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.settings import LayeredSettings
from orchestrator.config.yaml_schema import listed
from orchestrator.plan.probes import RULES, is_probe
from orchestrator.plan.shapes import counts_in, sees_images
from protocol.cell import AUTO, Device, DeviceKind, ModelSpec, Precision, SizeUnit, Workload


@dataclass(frozen=True)
class _Run:
    """What is asked for. models: without probes. measured: the workloads of its cells. gpus: its GPUs, or slices."""

    configuration: Configuration
    plan: Plan
    devices: Sequence[Device]
    models: tuple[ModelSpec, ...]
    measured: frozenset[Workload]
    gpus: tuple[Device, ...]


class _Rule(NamedTuple):
    """An option that was given changes something only if `matters`; `why` it does not."""

    key: str
    matters: Callable[[_Run], bool]
    why: str


def _measures(*workloads: Workload) -> Callable[[_Run], bool]:
    return lambda run: not run.measured.isdisjoint(workloads)


def _own(run: _Run) -> bool:
    return any(model.own is not None for model in run.models)


_NO_BATCH: Final = "neither probes nor loading have a batch size"
_NOT_OWN: Final = "no model of yours is measured"
_NO_GPU: Final = "it is about GPUs, and there is none in this run"
_UNREAD: Final = "there is no GPU to be read"

_RULES: Final = (
    _Rule(
        "sequence_lengths",
        lambda run: any(counts_in(model, SizeUnit.TOKENS) for model in run.models),
        "none of the models takes tokens",
    ),
    _Rule(
        "input_sizes",
        lambda run: any(counts_in(model, SizeUnit.PIXELS) for model in run.models),
        "none of the models has a size in pixels to choose",
    ),
    _Rule(
        "benchmark.memory_format",
        lambda run: any(sees_images(model) for model in run.models),
        "none of the models sees images",
    ),
    _Rule("batch_sizes", _measures(Workload.INFERENCE), "no inference is measured"),
    _Rule("training_batch_sizes", _measures(Workload.TRAINING), "no training is measured"),
    _Rule("generation_batch_sizes", _measures(Workload.GENERATION), "no generation is measured"),
    _Rule(
        "benchmark.iterations",
        lambda run: run.measured != {Workload.LOAD},
        "loading is repeated as often as the profile's time allows",
    ),
    _Rule("benchmark.warmup", lambda run: run.measured != {Workload.LOAD}, "a load has no warm-up"),
    _Rule(
        "benchmark.launches",
        lambda run: any(cell.batch_size != AUTO for cell in run.plan.cells),
        "a scan for the batch size is made once",
    ),
    _Rule("benchmark.mode", lambda run: len(run.devices) > 1, "there is one device alone"),
    _Rule(
        "benchmark.precision",
        lambda run: bool(run.models) or any(RULES[one.name].each_precision for one in run.configuration.models),
        "these probes move bytes, whatever they stand for",
    ),
    _Rule("benchmark.phases", lambda run: bool(run.models), "probes have no phases"),
    _Rule(
        "health.require",
        lambda run: any(gpu.slice_of is None for gpu in run.gpus),
        "neither CPU devices nor slices of a GPU are judged",
    ),
    _Rule("monitoring.enabled", lambda run: bool(run.gpus), _UNREAD),
    _Rule(
        "monitoring.interval_ms",
        lambda run: bool(run.gpus) and run.configuration.monitor,
        "no GPU is read",
    ),
    _Rule("gpu.allow_busy", lambda run: bool(run.gpus), _NO_GPU),
    _Rule("run.cache", _measures(Workload.LOAD), "weights are kept for load cells, and there is none"),
    _Rule("history.file", lambda run: run.configuration.history, "the run is not recorded"),
    _Rule("models_file", _own, _NOT_OWN),
    _Rule("pythonpath", _own, _NOT_OWN),
)

_BURN_IN_FILE: Final = "configs/burn_in.yaml"
_OWN_CELLS: Final = f"a burn-in has cells of its own ({_BURN_IN_FILE})"
_DECIDED: Final = (
    "models",
    "benchmark.profile",
    "benchmark.phases",
    "benchmark.precision",
    "benchmark.memory_format",
    "benchmark.iterations",
    "benchmark.warmup",
    "benchmark.launches",
    "batch_sizes",
    "training_batch_sizes",
    "generation_batch_sizes",
    "sequence_lengths",
    "input_sizes",
)
"""What a burn-in decides itself."""

_BURN_IN_RULES: Final = (
    *(_Rule(key, lambda _: False, _OWN_CELLS) for key in _DECIDED),
    # A model of yours may stand in the place of one that ships, and so be replayed.
    _Rule("models_file", _own, _OWN_CELLS),
    _Rule("pythonpath", _own, _OWN_CELLS),
)
"""Instead of those of the same keys above."""


def sentences(
    said: LayeredSettings, params: RunParams, configuration: Configuration, plan: Plan, devices: Sequence[Device]
) -> Iterator[str]:
    """One for each such option that a person gave, in a file or on the command line."""
    run = _Run(
        configuration=configuration,
        plan=plan,
        devices=devices,
        models=tuple(model for model in configuration.models if not is_probe(model)),
        measured=frozenset(cell.workload for cell in plan.cells),
        gpus=tuple(device for device in devices if device.kind is DeviceKind.CUDA),
    )
    by_origin: dict[str, list[_Rule]] = {}
    for rule in _rules(run):
        if said.chosen(rule.key):
            by_origin.setdefault(said.origin(rule.key), []).append(rule)
    for origin, rules in by_origin.items():
        if not any(rule.matters(run) for rule in rules):
            yield f"{origin} changes nothing: {_why(rules)}"
    yield from _beside_the_file(said, params, run)
    yield from _tf32(said, run)


def _rules(run: _Run) -> tuple[_Rule, ...]:
    if run.configuration.burn_in is None:
        return _RULES
    own = {rule.key for rule in _BURN_IN_RULES}
    return (*_BURN_IN_RULES, *(rule for rule in _RULES if rule.key not in own))


def _why(rules: Sequence[_Rule]) -> str:
    """Of the rules of one option: several reasons are those of -b, which stands for the batch sizes of all phases."""
    reasons = {rule.why for rule in rules}
    return rules[0].why if len(reasons) == 1 else _NO_BATCH


def _beside_the_file(said: LayeredSettings, params: RunParams, run: _Run) -> Iterator[str]:
    """Options that are no key of a configuration file, or not in the same words."""
    if params["multi_gpu"] and params["gpu_ids"] is not None:
        yield "--multi-gpu changes nothing: --gpu-ids names the devices"
    in_file = said.chosen("gpu.multi_gpu") and said.chosen("gpu.ids") and params["gpu_ids"] is None
    if in_file and not params["multi_gpu"]:
        yield f"{said.origin('gpu.multi_gpu')} changes nothing: {said.origin('gpu.ids')} names the devices"
    if params["in_phase"] and not params["steps"]:
        yield "--in-phase changes nothing: it is about --steps"
    if params["max_temperature"] is not None and not run.gpus:
        yield f"--max-temperature changes nothing: {_NO_GPU}"
    if params["allow_code"] and not _own(run):
        yield f"--allow-code changes nothing: {_NOT_OWN}"


def _tf32(said: LayeredSettings, run: _Run) -> Iterator[str]:
    """Where TF32 is another word for fp32."""
    where = {cell.devices[0] for cell in run.plan.cells if cell.precision is Precision.TF32}
    cpus = [device.label for device in run.devices if device.uuid in where and device.kind is DeviceKind.CPU]
    if cpus:
        asks = said.origin("benchmark.precision") if run.configuration.burn_in is None else _BURN_IN_FILE
        yield f"{asks}: tf32 is fp32 on {listed(cpus, 'and')}, which cannot round to TF32"
