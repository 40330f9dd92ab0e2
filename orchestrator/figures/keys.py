"""Keys of cells: identity of a measurement without its device and run, to compare results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.config.naming import sizes_of
from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures.cells import Measured, ModelResult, ProbeMetrics
from orchestrator.figures.operators import OperatorMetric, OperatorRow, TimeName
from orchestrator.figures.parts import Part
from orchestrator.figures.report import Report
from orchestrator.figures.studies import StudyRow
from protocol.cell import Workload


class CellKey(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Identity of a measurement, apart from the device. mode: "loaded" or "solo". batch_size: the requested one.

    memory_format: "" for probes and operators. compile_mode: "" for probes, and for operators outside a study.
    implementation, shape, time (a TimeName): of operators, else "". In a study, shape has the sizes as "h=32 k=3", and
    time is "".
    """

    phase: Workload
    model_name: str
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None
    batch_size: int
    implementation: str = ""
    shape: str = ""
    time: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """Words of the measurement's name: ("resnet50", "inference", "fp32", "b8")."""
        batch = () if self.phase in WITHOUT_BATCH else (f"b{self.batch_size}",)
        of_operator = filter(None, (self.implementation, self.shape, self.time))
        return (self.model_name, self.phase.value, self.precision, *batch, *of_operator)

    @property
    def label(self) -> str:
        """Name of the measurement for people: "resnet50 inference fp32 b8"."""
        return " ".join(self.parts)


_FURTHER: Final[tuple[Callable[[CellKey], str], ...]] = (
    lambda key: key.mode,
    lambda key: "" if key.input_size is None else f"input {key.input_size}",
    lambda key: "" if key.new_tokens is None else f"{key.new_tokens} tokens",
    lambda key: key.memory_format,
    lambda key: key.compile_mode,
)
"""Functions that return the facts of a key that are not in its name (`label`), each as text."""


def names(cell_keys: Iterable[CellKey]) -> dict[CellKey, str]:
    """Return key → unique name: its label, plus each fact that differs among keys of equal labels, such as the mode."""
    alike: dict[str, list[CellKey]] = {}
    for key in dict.fromkeys(cell_keys):
        alike.setdefault(key.label, []).append(key)
    return {key: _name(key, same) for same in alike.values() for key in same}


def _name(key: CellKey, alike: Sequence[CellKey]) -> str:
    differing = [fact(key) for fact in _FURTHER if len({fact(other) for other in alike}) > 1]
    return " ".join(filter(None, (key.label, *differing)))


def names_of_both(pairs: Mapping[CellKey, CellKey]) -> dict[CellKey, str]:
    """Return first key → name of both keys, "lstm inference fp32 -> bf16 b8". pairs: first key → second key."""
    return {
        one: " ".join((*map(_both, one.parts, other.parts), *_differences(one, other))) + name.removeprefix(one.label)
        for (one, other), name in zip(pairs.items(), names(pairs).values(), strict=True)
    }


def _differences(one: CellKey, other: CellKey) -> Iterator[str]:
    yield from (_both(fact(one), fact(other)) for fact in _FURTHER if fact(one) != fact(other))


def _both(one: str, other: str) -> str:
    return one if one == other else f"{one} -> {other}"


def by_cell(results: Iterable[ModelResult], probes: Iterable[ProbeMetrics]) -> dict[str, str]:
    """Return cell id → name of each cell of models and probes. Equal cells of different devices have equal names."""
    keys = {metric.cell: key for result in results for key, metric in of_model(result)}
    keys |= {probe.cell: of_probe(probe) for probe in probes}
    names_by_key = names(keys.values())
    return {cell: names_by_key[key] for cell, key in keys.items()}


def of_model(result: ModelResult) -> Iterator[tuple[CellKey, Measured]]:
    """Yield (key, measurement) of each loading, inference, training or generation of a model."""
    phases: tuple[tuple[Workload, Sequence[Measured]], ...] = (
        (Workload.LOAD, [result.load_metrics] if result.load_metrics else []),
        (Workload.INFERENCE, list(result.inference_metrics.values())),
        (Workload.TRAINING, list(result.training_metrics.values())),
        (Workload.GENERATION, list(result.generation_metrics.values())),
    )
    for phase, metrics in phases:
        for metric in metrics:
            key = CellKey(
                phase=phase,
                model_name=result.model_name,
                precision=result.precision,
                mode=result.mode,
                compile_mode=result.compile_mode,
                input_size=result.input_size,
                memory_format=result.memory_format,
                new_tokens=result.new_tokens,
                batch_size=metric.batch_size_requested,
            )
            yield key, metric


def of_operators(report: Report) -> Iterator[tuple[str, CellKey, OperatorMetric]]:
    """Yield (device UUID, key, measurement) of each kind of time of each operator, and of each cell of a study.

    An operator without a result has an empty measurement for each TimeName.
    """
    for row in report.operators.rows if report.operators else ():
        for name in row.times or TimeName:  # without a result all possible times, as empty measurements
            yield row.gpu_uuid, _of_operator(row, row.operator, row.shape, time=name), row.metric(name)
    for cell in report.study.rows if report.study else ():
        key = _of_operator(cell, cell.operation, sizes_of(cell.sizes), compile_mode=cell.compile_mode)
        yield cell.gpu_uuid, key, cell.metric


def _of_operator(
    row: OperatorRow | StudyRow, operator: str, shape: str, *, time: str = "", compile_mode: str = ""
) -> CellKey:
    return CellKey(
        phase=Workload.OPERATOR,
        model_name=operator,
        precision=row.precision,
        mode=row.mode,
        compile_mode=compile_mode,
        input_size=None,
        memory_format="",
        new_tokens=None,
        batch_size=1,
        implementation=row.implementation,
        shape=shape,
        time=time,
    )


def of_probe(probe: ProbeMetrics) -> CellKey:
    """Return the key of a probe. Its compile mode and memory format are "", its input size is None."""
    return CellKey(
        phase=Workload.PROBE,
        model_name=probe.name,
        precision=probe.precision,
        mode=probe.mode,
        compile_mode="",
        input_size=None,
        memory_format="",
        new_tokens=None,
        batch_size=probe.batch_size_requested,
    )
