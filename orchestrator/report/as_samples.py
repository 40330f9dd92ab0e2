"""The report as CSV in long form, with a row for each sample (time of an iteration), generated while it is written.

cell ─┬─ launch ─┬─ series "iteration", "forward", …   a row for each sample: milliseconds, in the order measured
      │          └─ main figure, such as throughput    one row: its value over the whole launch; Series is its name
      ├─ launch whose result is lost                   one row, without a value
      └─ (nothing measured)                            one row, without a launch
"""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures.launch_samples import LaunchSamples, Samples, Series
from orchestrator.figures.report import Report
from orchestrator.report.as_csv import harmless
from orchestrator.report.lines import Line, lines
from orchestrator.report.numbers import NOT_AVAILABLE
from protocol.cell import AUTO, Workload

COLUMNS: Final = (
    *("Model", "Phase", "Precision", "Mode", "Batch_Size", "Requested_Batch", "Input_Size", "Memory_Format"),
    *("New_Tokens", "GPU", "GPU_UUID", "GPU_Name", "Other_GPU_UUIDs", "Cell", "Compile_Mode"),
    *("Status", "Launch", "Round", "Counts", "Reason", "Series", "Unit", "Iterations", "Sample", "Outlier", "Value"),
)
_TIME: Final = "ms"
_ROWS_AT_ONCE: Final = 1_000

Value = str | int | float | bool | None


def to_samples(report: Report, samples: Samples) -> Iterator[bytes]:
    """Yield the CSV table (UTF-8, LF, N/A if unknown) in parts of whole rows. samples: reads a cell's launches."""
    yield _row(COLUMNS)
    for line in lines(report):
        measured = False
        for launch in samples(line.entry.cell):
            measured = True
            yield from _of_launch(line, launch)
        if not measured:
            yield _row([*_cell(line), None, None, False, line.entry.reason or None, *_NO_VALUE])


_NO_VALUE: Final[tuple[Value, ...]] = (None,) * 6


def _of_launch(line: Line, launch: LaunchSamples) -> Iterator[bytes]:
    columns = (launch.launch, launch.round, not launch.excluded, launch.excluded or None)
    shared: list[Value] = [*_cell(line, launch), *columns]
    if not launch.series:
        yield _row([*shared, *_NO_VALUE])
    for series in launch.series:
        yield from _of_series(_row([*shared, series.name, _TIME, series.iterations])[:-1].decode(), series)
    if launch.value is not None and line.value is not None and (figure := line.figure) is not None:
        yield _row([*shared, figure.field, figure.unit, launch.iterations, None, None, launch.value])


def _of_series(shared: str, series: Series) -> Iterator[bytes]:
    """Yield the rows of a series as UTF-8, up to 1000 rows at once. shared: text with which each row begins."""
    usual = series.usual_ms
    rows = (
        f"{shared},{sample},{NOT_AVAILABLE if usual is None else not usual[0] <= time_ms <= usual[1]},{time_ms!r}\n"
        for sample, time_ms in enumerate(series.times_ms, start=1)
    )
    while part := "".join(islice(rows, _ROWS_AT_ONCE)):
        yield part.encode()


def _cell(line: Line, launch: LaunchSamples | None = None) -> tuple[Value, ...]:
    """Return the columns that describe a cell, for a row of `launch`; None: for a row without a launch.

    With a launch, they have its batch size, and all its devices. Without one, they have the batch size of the cell's
    figures (or of the cell that it refers to; None without figures), and only the first device.
    """
    entry, gpu = line.entry, line.gpu
    batch = entry.batch_size if launch is None else launch.batch_size
    requested = batch if entry.batch_size_requested == AUTO else entry.batch_size_requested
    batches = (None, None) if entry.workload in WITHOUT_BATCH else (batch, requested)
    others = None if launch is None else " ".join(launch.devices[1:]) or None
    return (
        *(entry.model_name, entry.workload, entry.precision, line.mode, *batches, entry.input_size),
        *(entry.memory_format or None, entry.new_tokens, gpu.gpu_id, gpu.gpu_uuid, gpu.gpu_name, others),
        *(entry.cell, None if entry.workload == Workload.PROBE else entry.compile_mode, entry.status),
    )


def _row(values: Sequence[Value]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow([_text(value) for value in values])
    return written.getvalue().encode()


def _text(value: Value) -> str:
    if value is None:
        return NOT_AVAILABLE
    return str(harmless(value)) if isinstance(value, str) else repr(value)
