"""Options that change nothing in the run they were given to, in sentences: for --dry-run, and for its beginning.

No mistakes: a script may hand the same options to every run. But whoever waits for their effect should know.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from orchestrator.configuration import Configuration
from orchestrator.probes import is_probe
from orchestrator.settings import Said
from orchestrator.shapes import counts_in, sees_images
from protocol.cell import ModelSpec, SizeUnit, Workload


class _Rule(NamedTuple):
    """An option that was given changes something only if `matters`; `why` it does not."""

    key: str
    matters: Callable[[Configuration, list[ModelSpec]], bool]
    why: str


def _measures(*workloads: Workload) -> Callable[[Configuration, list[ModelSpec]], bool]:
    """Whether models are chosen, and measured in one of these."""
    return lambda asked, models: bool(models) and bool({*workloads} & {*asked.workloads})


_RULES: Final = (
    _Rule(
        "sequence_lengths",
        lambda _, models: any(counts_in(model, SizeUnit.TOKENS) for model in models),
        "none of the models takes tokens",
    ),
    _Rule(
        "input_sizes",
        lambda _, models: any(counts_in(model, SizeUnit.PIXELS) for model in models),
        "none of the models has a size in pixels to choose",
    ),
    _Rule(
        "benchmark.memory_format",
        lambda _, models: any(sees_images(model) for model in models),
        "none of the models sees images",
    ),
    _Rule(
        "batch_sizes",
        _measures(Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION),
        "neither probes nor loading have a batch size",
    ),
    _Rule(
        "health.require",
        lambda asked, _: any(not word.strip().startswith(("cpu:", "MIG-")) for word in asked.gpu_ids.split(",")),
        "neither CPU devices nor slices of a GPU are judged",
    ),
    _Rule("benchmark.phases", lambda _, models: bool(models), "probes have no phases"),
)


def sentences(said: Said, configuration: Configuration) -> Iterator[str]:
    """One for each such option that a person gave, in a file or on the command line."""
    models = [model for model in configuration.models if not is_probe(model)]
    for rule in _RULES:
        if said.chosen(rule.key) and not rule.matters(configuration, models):
            yield f"{said.origin(rule.key)} changes nothing: {rule.why}"
