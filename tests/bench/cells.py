"""Cells by short names, for benches that need some of one kind and not a product of lists: "resnet50:bf16:256"."""

from orchestrator.config.run_configuration import StoredRun
from protocol.cell import Cell, Workload
from tests.bench.harness import stored_run


def inference(device: str, names: str, *options: str) -> tuple[StoredRun, list[Cell]]:
    """A run with the inference cells `model:precision:batch,…`, and those cells in the order of their names."""
    split = [name.split(":") for name in names.split(",")]
    if any(len(words) != 3 for words in split):
        raise SystemExit(f"{names!r}: expected model:precision:batch, separated by commas")
    wanted = [(model, precision, int(batch)) for model, precision, batch in split]
    words = [",".join(dict.fromkeys(column)) for column in zip(*split, strict=True)]
    given = ("-m", words[0], "-p", words[1], "-b", words[2], "--phases", Workload.INFERENCE)
    stored = stored_run(device, *given, *options)
    assert len(stored.devices) == 1, "one device at a time"
    found = {
        (cell.model, str(cell.precision), cell.batch_size): cell
        for cell in stored.plan.cells
        if cell.workload is Workload.INFERENCE
    }
    return stored, [found[want] for want in wanted]


def short(cell: Cell) -> str:
    return f"{cell.model}:{cell.precision}:{cell.batch_size}"
