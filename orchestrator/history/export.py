"""Export the history as JSON, or as CSV with a row per run, device and cell, and one per device without cells."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from orchestrator.history.migrations import MIGRATIONS
from orchestrator.history.records import CellRecord, DeviceRecord, RunLine, RunRecord
from orchestrator.report.as_csv import harmless

COLUMNS: Final = (
    *("Run", "Date", "Host", "Profile", "Verdict", "Tainted", "Driver", "Torch", "CUDA", "GPU_UUID", "GPU_Name"),
    *("Health", "Burn_In", "Model", "Phase", "Precision", "Batch", "Input_Size", "Memory_Format", "New_Tokens", "Mode"),
    *("Status", "Doubt", "Figure", "Value", "Launches"),
)


def to_json(runs: Iterable[RunRecord]) -> Iterator[bytes]:
    """Yield the pieces of one JSON document (UTF-8) with everything that the history keeps of the runs."""
    head, tail = indented({"history_version": len(MIGRATIONS), "runs": ()}).split(b"[]")
    yield head + b"["
    between, end = b"\n    ", b"]"
    for made in runs:
        yield between + indented(made).replace(b"\n", b"\n    ")  # no text of it has one: there it is an escape
        between, end = b",\n    ", b"\n  ]"
    yield end + tail + b"\n"


def indented(value: object) -> bytes:
    """Encode a value as JSON (UTF-8), indented by two spaces, without a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def to_csv(runs: Iterable[RunRecord]) -> Iterator[bytes]:
    """Yield the pieces of one CSV file (UTF-8): a header, and the rows of each run (see `rows`)."""
    yield _written([COLUMNS])
    for made in runs:
        devices = {one.device.gpu_uuid: one for one in made.devices}
        placed = [*((devices[cell.gpu_uuid], cell) for cell in made.cells), *((one, None) for one in _without(made))]
        yield _written(map(harmless, _row(made.run, judged, cell)) for judged, cell in placed)


def rows(made: RunRecord) -> int:
    """Return the number of rows of a run in `to_csv`: one per cell and device, and one per device without cells."""
    return len(made.cells) + len(_without(made))


def _without(made: RunRecord) -> list[DeviceRecord]:
    having = {cell.gpu_uuid for cell in made.cells}
    return [one for one in made.devices if one.device.gpu_uuid not in having]


def _written(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _row(run: RunLine, judged: DeviceRecord, cell: CellRecord | None) -> Iterator[str | int | float | bool | None]:
    device = judged.device
    yield from (run.run_id, run.test_date, run.hostname, run.profile, run.verdict, run.tainted)
    yield from (run.stack.get(name) for name in ("driver", "torch", "CUDA"))
    yield from (device.gpu_uuid, device.gpu_name, judged.health, judged.burn_in)
    if cell is None:
        yield from [None] * (len(COLUMNS) - COLUMNS.index("Model"))
        return
    key = cell.key
    yield from (key.model_name, key.phase, key.precision, key.batch_size, key.input_size, key.memory_format)
    yield from (key.new_tokens, key.mode, cell.status, cell.doubt)
    yield from (cell.metric, cell.figures.get(cell.metric), ";".join(map(repr, cell.launches)))
