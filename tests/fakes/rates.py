"""Launches whose results are made up, on GPUs that are not there: each GPU as fast as a test has it.

Every process of the run finds our `sitecustomize` first, which replaces worker/workloads/inference.py. A launch takes
what its GPU, its cell, and the number of results that count so far say, whatever was killed in between.
"""

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator.store import journal
from orchestrator.store.journal_records import End, Start
from protocol.cell import Cell
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.paths import RunPaths
from protocol.result import Result
from tests.fakes.results import result
from worker.stage import Stage

ROOT = Path(__file__).parents[2]
FORWARD_MS = 1.0
LASTS_S = 0.15
"""Long enough for a test to see a launch at work."""
_SITE = """
import sys, types
def _run(assign, stage, isolation):
    from tests.fakes import rates
    return rates.run(assign, stage, isolation)
made_up = types.ModuleType("worker.workloads.inference")
made_up.run = _run
sys.modules[made_up.__name__] = made_up
"""


def installed(folder: Path, *, slow: str, percent: float, noise: float) -> Mapping[str, str]:
    """Return variables for the environment of a run. slow: GPU that is slower by `percent`. noise: of launches."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(_SITE)
    return {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}", "GPUBENCH_FAKE_RATES": f"{slow} {percent} {noise}"}


def forward_ms(cell: Cell, number: int, *, slow: str, percent: float, noise: float) -> float:
    """Return the time of a forward pass of the cell in a launch. number: of the results before it."""
    chance = random.Random(f"{cell.devices} {cell.model} {number}")
    share = 1 / (1 - percent / 100) if cell.devices[0] == slow else 1.0
    return FORWARD_MS * share * (1 + chance.gauss(0, noise))


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    slow, percent, noise = os.environ["GPUBENCH_FAKE_RATES"].split()
    for phase in (Phase.BUILD, Phase.WARM_UP, Phase.MEASURE):
        stage.enter(phase)
    run_folder = Path("/proc/self/fd/1").readlink().parents[3]
    number = _results(run_folder, assign.cell)
    time.sleep(LASTS_S)
    took_ms = forward_ms(assign.cell, number, slow=slow, percent=float(percent), noise=float(noise))
    return result(
        assign.cell, begin_ns=time.monotonic_ns(), forward_ms=took_ms, blocks=2, iterations=20, ledger=stage.ledger()
    )


def _results(run_folder: Path, cell: Cell) -> int:
    records = journal.read(RunPaths(run_folder).journal)
    own = {record.launch for record in records if isinstance(record, Start) and record.cell == cell.id}
    ends = {record.launch: record for record in records if isinstance(record, End)}
    return sum(ends[launch].failure is None for launch in own & ends.keys())
