"""An overview of all models on one GPU: a line for each model, precision, compile mode and input size.

Model            Prec.   Batch 1  Inference/s @B   Training/s @B   Tokens/s
resnet50         fp32    4.00 ms     2727.1 @32       750.2 @32
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.config.naming import shortened
from orchestrator.figures.cells import GenerationMetrics, Measured, ModelResult, PhaseMetrics
from orchestrator.figures.quality import Quality
from orchestrator.report.lines import precision_and_mode
from orchestrator.report.numbers import number, unit
from orchestrator.report.remarks import SHORT, legend, mark
from orchestrator.report.sections import Table, numbers, texts

LONGEST_NAME: Final = 20
_HEAD: Final = ("Prec.", "Batch 1", "Inference/s @B", "Training/s @B", "Tokens/s")


class _Key(NamedTuple):
    """Key of a row: results with equal fields share a row.

    A generation result joins the first row of its model and precision, even if other fields differ. It gets a row of
    its own only if there is none.
    """

    model: str
    precision: str
    input_size: int | None
    memory_format: str
    compile_mode: str


@dataclass
class _Line:
    inference: dict[str, PhaseMetrics] = field(default_factory=dict)
    training: dict[str, PhaseMetrics] = field(default_factory=dict)
    generation: dict[str, GenerationMetrics] = field(default_factory=dict)


def overview(results: Sequence[ModelResult]) -> Table:
    """Return the overview of `results` as a table. The table is empty if it would have only one row."""
    lines = _lines(results)
    drawn = [(_name(key, lines), *_entries(key, line)) for key, line in lines.items()] if len(lines) > 1 else []
    shown = [place for place in range(1, len(_HEAD) + 1) if any(row[place] for row in drawn)]
    rows = tuple((row[0], *(row[place] for place in shown)) for row in drawn)
    columns = (*texts("Model"), *numbers(*(_HEAD[place - 1] for place in shown)))
    return Table("", columns, rows, _legend([entry for row in rows for entry in row[1:]]), framed=False)


def _lines(results: Sequence[ModelResult]) -> dict[_Key, _Line]:
    lines: dict[_Key, _Line] = {}
    for result in results:
        if result.inference_metrics or result.training_metrics:
            line = lines.setdefault(_key(result), _Line())
            line.inference.update(result.inference_metrics)
            line.training.update(result.training_metrics)
    for result in results:
        if result.generation_metrics:
            same = [key for key in lines if key[:2] == _key(result)[:2]]
            line = lines[same[0]] if same else lines.setdefault(_key(result), _Line())
            line.generation.update(result.generation_metrics)
    return lines


def _key(result: ModelResult) -> _Key:
    return _Key(result.model_name, result.precision, result.input_size, result.memory_format, result.compile_mode)


def _name(key: _Key, lines: Iterable[_Key]) -> str:
    same = [other for other in lines if (other.model, other.precision) == (key.model, key.precision)]
    size = f"@{key.input_size}" if len({other.input_size for other in same}) > 1 else ""
    layout_of_images = f" {key.memory_format}" if len({other.memory_format for other in same}) > 1 else ""
    return shortened(f"{key.model}{size}{layout_of_images}", LONGEST_NAME, "...")


def _entries(key: _Key, line: _Line) -> tuple[str, ...]:
    return (
        precision_and_mode(key.precision, key.compile_mode),
        _first(line.inference),
        _best(line.inference, "throughput_samples_per_sec"),
        _best(line.training, "throughput_samples_per_sec"),
        _best(line.generation, "tokens_per_second", at_batch=False),
    )


def _first(metrics: Mapping[str, PhaseMetrics]) -> str:
    one = metrics.get("batch_size_1")
    if one is None:
        return ""
    if one.wrong:
        return Quality.WRONG
    return _without(one) if one.forward_time_ms is None else f"{unit(one.forward_time_ms, 'ms')}{mark(one)}"


def _best(metrics: Mapping[str, Measured], figure: str, *, at_batch: bool = True) -> str:
    known = [metric for metric in metrics.values() if getattr(metric, figure) is not None]
    right = [metric for metric in known if not metric.wrong]
    if not known:
        return next((_without(metric) for metric in metrics.values()), "")
    if not right:
        return Quality.WRONG
    best = max(right, key=lambda metric: float(getattr(metric, figure)))
    batch = f" @{best.batch_size}" if at_batch else ""
    return f"{number(getattr(best, figure))}{batch}{mark(best)}"


def _without(metric: Measured) -> str:
    return SHORT[metric.status][0] if metric.status in SHORT else metric.status


def _legend(entries: Sequence[str]) -> str:
    words = ["Batch 1: forward time; @B: at the batch size with the highest rate"]
    words += [f"{short}: {meaning}" for short, meaning in SHORT.values() if short in entries]
    return "; ".join((*words, *legend(entries))) + "."
