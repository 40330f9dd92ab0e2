"""Tables of the probes, which measure a device without a model: matrix products, memory, transfers to and from it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from orchestrator.figures.cells import ProbeMetrics
from orchestrator.report.numbers import NOT_AVAILABLE, unit
from orchestrator.report.remarks import remark
from orchestrator.report.sections import Table, numbers, table, texts


def probes(probed: Sequence[ProbeMetrics], where: str = "", *, with_mode: bool = False) -> Table:
    """Return a table with a row for each rate of one device's probes. where: text to append to the caption.

    with_mode: rows also say whether other GPUs were idle (solo) or at work (loaded).
    """
    rows = [
        (f"{name}, {probe.mode}" if with_mode else name, *figures)
        for probe in probed
        for name, *figures in rates(probe)
    ]
    made = table(
        f"Probes: limits of the device without a model{where}",
        (*texts("Probe"), *numbers("Sustained", "Best burst")),
        rows,
    )
    return replace(made, remarks=tuple(f"{_name(probe)}: {words}" for probe in probed if (words := remark(probe))))


def rates(probe: ProbeMetrics) -> Iterator[tuple[str, str, str]]:
    """Yield (name, sustained rate, rate of the best burst) as texts with units; "" for a rate without bursts.

    A memory probe has two rates (copy, triad), any other probe one. For one without a result: (name, status, "N/A").
    """
    if probe.sustained_tflops is not None:
        yield _name(probe), unit(probe.sustained_tflops, "TFLOP/s"), unit(probe.best_tflops, "TFLOP/s")
    found = {", copy": probe.copy_gb_per_sec, ", triad": probe.triad_gb_per_sec, "": probe.transfer_gb_per_sec}
    for what, rate in found.items():
        if rate is not None:
            yield f"{_name(probe)}{what}", unit(rate, "GB/s"), ""
    if not probe.launches:
        yield _name(probe), probe.status.replace("_", " "), NOT_AVAILABLE


def _name(probe: ProbeMetrics) -> str:
    return f"{probe.title}, {probe.precision}" if probe.name == "gemm" else probe.title
