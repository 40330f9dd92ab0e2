"""What the charts of models are made of: figures by choice, model and batch size, medians over identical devices. Pure.

choice   "inference, fp32", with the mode and the kind of device where the run has several: what a reader picks
model    as people call it, with its input size and memory format where the run has several
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final, NamedTuple

from orchestrator.configuration.naming import shortened
from orchestrator.report import keys
from orchestrator.report.cells import Measured
from orchestrator.report.keys import CellKey
from orchestrator.report.model import Report
from orchestrator.report.plain import plain
from orchestrator.report.text_gpus import groups, labels
from protocol.cell import Workload

LONGEST_NAME: Final = 60
MOST_MODELS: Final = 60
"""In one chart."""

Figures = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Choice → model → batch size → figure."""


class Found(NamedTuple):
    """A measurement of a model, and where it belongs."""

    choice: str
    model: str
    kind: str
    key: CellKey
    metric: Measured


def found(report: Report) -> Iterator[Found]:
    """Every measurement of a model, in the order of the report."""
    kinds = _kinds(report)
    names = _names(report)
    modes = {result.mode for result in report.results}
    for result in report.results:
        for key, metric in keys.of_model(result):
            where = kinds[result.gpu_uuid]
            choice = ", ".join(filter(None, (key.phase, key.precision, key.mode if len(modes) > 1 else "", where)))
            model = names[(key.model_name, key.phase, key.input_size, key.memory_format, key.new_tokens)]
            yield Found(choice, model, result.model_type, key, metric)


def figures(report: Report, read: Callable[[Measured], float | None], *phases: Workload) -> Figures:
    """A figure of every model, as medians over identical devices; choices without any are left out."""
    values: dict[str, dict[str, dict[int, list[float]]]] = {}
    for one in found(report):
        value = read(one.metric)
        if one.key.phase in phases and value is not None:
            models = values.setdefault(one.choice, {})
            models.setdefault(one.model, defaultdict(list))[one.key.batch_size].append(value)
    return {
        choice: {
            model: {batch: median(known) for batch, known in sorted(batches.items())}
            for model, batches in list(models.items())[:MOST_MODELS]
        }
        for choice, models in values.items()
    }


def over(report: Report) -> str:
    """What one figure of a chart stands for, where there is more than one device."""
    alike = [group for group in groups(report) if len(group.devices) > 1]
    if not alike:
        return ""
    return f"Medians over identical devices ({'; '.join(labels(group.devices) for group in alike)})."


def _kinds(report: Report) -> dict[str, str]:
    """What tells the devices of the run apart, by UUID; nothing where all are alike."""
    several = groups(report)
    if len(several) == 1:
        return dict.fromkeys((device.gpu_uuid for device in report.gpu_info), "")
    return {
        device.gpu_uuid: f"{plain(group.shown.gpu_name)} ({labels(group.devices)})"
        for group in several
        for device in group.devices
    }


def _names(report: Report) -> dict[tuple[str, Workload, int | None, str, int | None], str]:
    """How a model is called, by all that tells its measurements in one phase apart."""
    shapes: dict[tuple[str, Workload], dict[tuple[int | None, str, int | None], None]] = {}
    for result in report.results:
        for key, _ in keys.of_model(result):
            shape = (key.input_size, key.memory_format, key.new_tokens)
            shapes.setdefault((key.model_name, key.phase), {})[shape] = None
    names = {}
    for (model, phase), of_model in shapes.items():
        for size, layout, tokens in of_model:
            words = [shortened(plain(model), LONGEST_NAME)]
            if len({one[0] for one in of_model}) > 1 and size is not None:
                words[0] += f"@{size}"
            if len({one[1] for one in of_model}) > 1:
                words.append(layout)
            if len({one[2] for one in of_model}) > 1 and tokens is not None:
                words.append(f"{tokens} tokens")
            names[(model, phase, size, layout, tokens)] = " ".join(words)
    return names
