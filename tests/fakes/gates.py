"""Gates whose launches a test makes up: of two sides, or with a baseline."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from orchestrator.compare import references
from orchestrator.compare.comparison import SessionSpread
from orchestrator.compare.references import Against
from orchestrator.compare.run_figures import Side
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.kinds.gate import planning, settings
from orchestrator.kinds.gate.settings import RequestedSide
from protocol.cell import Cell, Device, Precision
from tests.fakes.runs import FakeRun, shipped

Factor = Callable[[Cell, int], float]
SIDES = [RequestedSide("precision=fp32", {}, ""), RequestedSide("precision=bf16", {}, "")]
LIMIT_S = 300.0


def of_two(configuration: Configuration, words: list[RequestedSide] = SIDES) -> Configuration:
    """A gate of the same models in fp32 and bf16."""
    first = replace(configuration, time_limit_s=LIMIT_S, preset=settings.NAME)
    second = replace(first, precisions=(Precision.BF16,))
    return settings.with_sides(words, [first, second], None, None)


class TwoSides(FakeRun):
    """A gate of resnet50 and bert-base at batch 8."""

    def asked(self, configuration: Configuration) -> Configuration:
        return of_two(configuration)

    def planned(self, configuration: Configuration, devices: tuple[Device, ...]) -> Plan:
        return planning.make(configuration, devices)

    def is_second(self, cell: Cell) -> bool:
        return cell.model in planning.requested(self.stored.configuration).sides[1].models


def two_sides(folder: Path, factor: Factor, **changes: object) -> TwoSides:
    """A gate whose planned launches are made. factor: of the time of each."""
    run = TwoSides(folder, models=shipped("resnet50", "bert-base"), batch_sizes=(8,), **changes)
    run.everything(factor=lambda _, cell, number: factor(cell, number))
    run.samples()
    return run


def with_baseline(folder: Path, baseline: Side, factor: Factor, session: SessionSpread | None = None) -> FakeRun:
    """A gate of the cells of a baseline, whose planned launches are made. session: as its history had it."""

    class Run(TwoSides):
        def asked(self, configuration: Configuration) -> Configuration:
            limited = replace(configuration, time_limit_s=LIMIT_S, preset=settings.NAME)
            return settings.with_cells(limited, baseline, None, None)

    run = Run(folder, models=shipped("resnet50", "bert-base"), batch_sizes=(1, 8))
    references.store(Against(baseline=baseline, session=session), run.paths)
    run.everything(factor=lambda _, cell, number: factor(cell, number))
    run.samples()
    return run
