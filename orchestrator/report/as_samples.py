"""The report as CSV in its long form: a row for each launch, with the figure that cells are compared by.

A launch is the sample: what is concluded of a cell is concluded of its launches (method.md), and the times of single
iterations stay in the results of the run's folder. A cell without figures has one row, without a sample.
"""

import csv
import io
from collections.abc import Iterator
from typing import Final

from orchestrator.report.as_csv import NOT_AVAILABLE, harmless
from orchestrator.report.lines import Line, lines
from orchestrator.report.model import Report

COLUMNS: Final = (
    *("Model", "Phase", "Precision", "Mode", "Batch_Size", "Requested_Batch", "Input_Size", "Memory_Format"),
    *("New_Tokens", "GPU", "GPU_UUID", "GPU_Name", "Cell", "Status", "Metric", "Sample", "Value"),
)


def to_samples(report: Report) -> str:
    """The table as text: UTF-8, commas, newlines; N/A where nothing is known; values in full."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines(report):
        writer.writerows(_rows(line))
    return written.getvalue()


def _rows(line: Line) -> Iterator[list[str]]:
    entry, gpu = line.entry, line.gpu
    columns = (
        *(entry.model_name, entry.workload, entry.precision, line.mode, entry.batch_size),
        *(entry.batch_size_requested, entry.input_size, entry.memory_format or None, entry.new_tokens),
        *(gpu.gpu_id, gpu.gpu_uuid, gpu.gpu_name, entry.cell, entry.status, line.figure or None),
    )
    shared = [_text(value) for value in columns]
    values = () if line.metric is None else line.metric.launch_values
    for sample in enumerate(values, start=1) if values else [(None, None)]:
        yield [*shared, *map(_text, sample)]


def _text(value: str | float | None) -> str:
    if value is None:
        return NOT_AVAILABLE
    return str(harmless(value)) if isinstance(value, str) else repr(value)
