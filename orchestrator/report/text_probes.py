"""What the GPUs reach without a model, as text: matrix products, their memory, and the way to the host."""

from collections.abc import Iterator, Sequence

from orchestrator.figures.cells import ProbeMetrics
from orchestrator.report import layout
from orchestrator.report.numbers import NOT_AVAILABLE, unit
from orchestrator.report.text_remarks import remark


def probes(found: Sequence[ProbeMetrics]) -> Iterator[str]:
    """The probes of one device, nothing where none was planned."""
    if not found:
        return
    rows = [row for probe in found for row in rates(probe)]
    yield "What it reaches without a model:"
    yield from layout.table(("Probe", "Sustained", "Best burst"), rows, "  ")
    for probe in found:
        if words := remark(probe):
            yield from layout.wrap(f"{_name(probe)}: {words}", "  ", "  ")
    yield ""


def rates(probe: ProbeMetrics) -> Iterator[tuple[str, str, str]]:
    """A row for each rate. A probe without a result has one that says so."""
    if probe.sustained_tflops is not None:
        yield _name(probe), unit(probe.sustained_tflops, "TFLOP/s"), unit(probe.best_tflops, "TFLOP/s")
    found = {", copy": probe.copy_gb_per_sec, ", triad": probe.triad_gb_per_sec, "": probe.transfer_gb_per_sec}
    for what, rate in found.items():
        if rate is not None:
            yield f"{_name(probe)}{what}", unit(rate, "GB/s"), ""
    if not probe.launches:
        yield _name(probe), probe.status.replace("_", " "), NOT_AVAILABLE


def _name(probe: ProbeMetrics) -> str:
    """With the precision where that is what differs."""
    return f"{probe.title}, {probe.precision}" if probe.name == "gemm" else probe.title
