"""Golden cases: what is rendered from each stored run, through the command line as a user calls it.

inputs/<run>/                 the folder of a run, as `gpubench-orchestrate run` left it, without logs and reports
outputs/<case>/<file>         what `report`, `status`, `explain` or `compare` make of it
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result

from orchestrator.cli.commands import orchestrate
from orchestrator.cli.status import describe
from orchestrator.engine.status_types import Standing, Status, Work
from protocol.failure import Category
from tests.fakes.commands import ALL_COMMANDS
from tests.golden.page_text import page_text

HERE: Final = Path(__file__).parent
INPUTS: Final = HERE / "inputs"
OUTPUTS: Final = HERE / "outputs"
OLD_REPORTS: Final = HERE / "reports"
"""Reports of released schema versions, in v<schema version>/<case>.json. Never rewritten."""

FORMATS: Final = "json,csv,txt,md,html"
LARGE_FORMATS: Final = {
    "plain": ",samples.csv,pytorch.json",
    "failures": ",samples.csv,pytorch.json",
    "burn-in-passed": ",pytorch.json",
}
"""Formats that take too much room to be stored for every run."""
COMPARISONS: Final[dict[str, tuple[str, ...]]] = {
    "compare": ("before", "after"),
    "compare-several": ("before", "after", "degraded"),
    "compare-cpu": ("plain", "triage"),
    "compare-operators": ("operators-before", "operators-after"),
    "compare-gpus": ("siblings", "after", "--fail-on", "not-comparable"),
    "compare-missing": ("siblings", "eventful", "--fail-on", "slower,faster,not-comparable", "--threshold", "7"),
}
"""Arguments of `compare`."""
COMPARED: Final = ("txt", "json", "md", "html")
HISTORY: Final = ("before", "after", "siblings", "damaged", "burn-in-gpus", "plain")
HISTORY_COMMANDS: Final = {
    "list.txt": "",
    "list-failed.txt": "--verdict FAIL",
    "show-siblings.txt": "show 20240115-103000-00000a",
    "show-burn-in.txt": "show 20240115-103000-000011",
    "show.json": "show 20240115-103000-00000c --json",
    "trend.txt": "trend resnet50",
    "trend.json": "trend resnet50 --json",
}
DRY_RUNS: Final = {
    "models": "run -m lstm,resnet50,gpt2,hbm -b 1,8 -p fp32,bf16 --launches 3 --seed 7",
    "generation": "run -m gpt2,qwen2.5-0.5b --phases generation,load --seq-len 64,128 -b 1",
    "images": "run -m resnet50,unet --phases inference --input-size 128,224 --memory-format contiguous -b 4",
    "batch-scan": "run -m lstm -b auto -i 5 -w 2 --solo",
    "file": "run --config {file}",
    "quick": "quick --standard",
    "triage": "triage",
    "burn-in": "run --burn-in 10m --inject flip:0:1:2 --steps",
    "burn-in-long": "run --burn-in 8h --max-temperature 85",
    "mistake": "run -m resnet5",
}
RUNNING: Final = {"standing": Standing.RUNNING, "pid": 4711, "host": "node-01"}
REAL_RUN: Final = "h200-x4-quick"
WORKING: Final = RUNNING | {"planned": 9, "measured": 3, "eta_s": 40.0}
LAST: Final = {"planned": None, "failed": 1, "limit_s": 600.0, "limit_left_s": 50.0, "share": 0.57}
STATUSES: Final[dict[str, dict[str, Any]]] = {
    "not-begun": {"standing": Standing.NOT_BEGUN},
    "importing": WORKING | {"importing_s": 8.0, "eta_s": None},
    "working": WORKING
    | {
        "working": (Work(device="GPU 0", cell="resnet50 inference fp32", batch_size=8, attempt=2, for_s=5.0),),
        "quarantined": {"GPU 1": "memory not freed"},
        "skipped": {"lstm": "import error"},
        "last_failure": "GPU 0  lstm inference fp32 b1: crashed: killed by SIGSEGV",
    },
    "burn-in": WORKING | LAST,
    "preset": WORKING | LAST | {"planned": 9, "preset": "triage", "dropped": 2},
    "frozen": WORKING | {"standing": Standing.FROZEN, "stop_requested_s": 5.0},
    "stopping": WORKING | LAST | {"stop_requested_s": 5.0},
    "stopping-now": WORKING | {"stop_requested_s": 8.0, "stops_now": True, "eta_s": 0.0},
    "elsewhere": WORKING | {"standing": Standing.ELSEWHERE},
    "died": {
        "standing": Standing.DIED,
        "last_failure": "GPU 0  lstm inference fp32 b1: crashed (tried again since, so not counted as failed)",
    },
    "broken": {"standing": Standing.BROKEN, "reason": "stopped: disk full", "reports": ("/data/report.json",)},
    "reported": {"standing": Standing.OVER, "reports": ("/out/report.json",), "unwritten": ("report.html",)},
    "without-report": {"standing": Standing.OVER, "no_outcome": "the report /data/report.json is missing"},
    "lost": {"standing": Standing.OVER, "planned": 9, "lost": ("a.msgpack",)},
    "lost-several": {"standing": Standing.OVER, "planned": 9, "lost": tuple(f"{at}.msgpack" for at in range(5))},
}
"""States of a run, most of which last for moments, as fields of its status."""
CONFIGURATION: Final = """
models: [resnet50, lstm]
batch_sizes: [2, 4]
benchmark: {precision: bf16, profile: rigorous, phases: inference}
output: {path: out/report.json, format: [json, html]}
"""
_LONG_FLOAT: Final = re.compile(r"\d+\.\d{10,}(?:e[+-]?\d+)?")


def runs() -> list[str]:
    return sorted(folder.name for folder in INPUTS.iterdir())


def cases() -> list[str]:
    return [*runs(), *COMPARISONS, *_OTHERS]


def render(case: str) -> dict[str, str]:
    """File name → text of everything that is made of a case."""
    with tempfile.TemporaryDirectory() as folder, neutral_environment(INPUTS):
        if case in COMPARISONS:
            made = _compare(COMPARISONS[case], Path(folder))
        elif case in _OTHERS:
            made = _OTHERS[case](Path(folder))
        else:
            made = _report(case, Path(folder))
    return {name: _LONG_FLOAT.sub(_rounded, text) for name, text in sorted(made.items())}


def _rounded(found: re.Match[str]) -> str:
    """Twelve digits of a number: the others depend on the processor and the libraries of mathematics."""
    return f"{float(found[0]):.12g}"


def call(*words: str) -> Result:
    return CliRunner().invoke(orchestrate, words, prog_name="gpubench-orchestrate")


def _report(run: str, folder: Path) -> dict[str, str]:
    formats = FORMATS + LARGE_FORMATS.get(run, "")
    done = call("report", run, "-o", str(folder / "report.json"), "-f", formats)
    made = _files(folder)
    made["report.html.txt"] = page_text(made.pop("report.html", ""))
    made["report.exit.txt"] = f"exit code {done.exit_code}\n{done.stderr}"
    if "report.json" in made:
        made["brief.txt"] = call("report", str(folder / "report.json")).stdout.replace(str(folder), "/data")
    for command in ("status", "explain"):
        shown = call(command, run)
        made[f"{command}.txt"] = f"exit code {shown.exit_code}\n{shown.stdout}{shown.stderr}"
    return made


def _compare(compared: tuple[str, ...], folder: Path) -> dict[str, str]:
    told = []
    for kind in COMPARED:
        place, format_ = str(folder / f"compare.{kind}"), "text" if kind == "txt" else kind
        done = call("compare", *compared, "-o", place, "--format", format_, "--junit", str(folder / "junit.xml"))
        told.append(f"{kind}: exit code {done.exit_code}\n{done.stderr}")
    done = call("make-baseline", compared[0], "-o", str(folder / "baseline.json"))
    told.append(f"make-baseline: exit code {done.exit_code}\n{done.stderr}")
    made = _files(folder)
    made["compare.html.txt"] = page_text(made.pop("compare.html", ""))
    made["exit.txt"] = "".join(told)
    return made


def _history(folder: Path) -> dict[str, str]:
    """What is recorded of the stored runs, and what `history` shows of it."""
    recorded = ("--history-db", str(folder / "history.db"))
    for run in HISTORY:
        call("report", run, "-o", str(folder / f"{run}.json"), *recorded)
    made = {name: call("history", *words.split(), *recorded).stdout for name, words in HISTORY_COMMANDS.items()}
    for name in ("runs.csv", "trend.html"):
        words = "export" if name == "runs.csv" else "trend resnet50"
        call("history", *words.split(), *recorded, "-o", str(folder / name))
        made[name] = (folder / name).read_text(encoding="utf-8")
    made["trend.html.txt"] = page_text(made.pop("trend.html"))
    return {name: text.replace(str(INPUTS), "/data") for name, text in made.items()}


def _dry_runs(folder: Path) -> dict[str, str]:
    """The plan and the estimates that options, presets and a file lead to, on a CPU device, which every machine has."""
    (folder / "night.yaml").write_text(CONFIGURATION)
    made = {}
    for name, words in DRY_RUNS.items():
        done = call(*words.format(file=folder / "night.yaml").split(), "--gpu-ids", "cpu:0", "--dry-run")
        text = re.sub(r"^( *cpu:0: ).*$", r"\1Some Processor", done.stdout + done.stderr, flags=re.MULTILINE)
        text = text.replace(str(INPUTS), "/data").replace(str(folder), "/data")
        made[f"{name}.txt"] = f"exit code {done.exit_code}\n{text}"
    return made


def _texts(_folder: Path) -> dict[str, str]:
    """Help of every command, and the tables that are made of enumerations."""
    made = {}
    for path, command in ALL_COMMANDS:
        program, *words = path.split()
        if program == orchestrate.name:  # the other program has the same commands
            made[f"help-{command.name}.txt"] = call(*words, "--help").stdout
    made["list-models.txt"] = call("list-models").stdout
    made["explain.txt"] = "\n".join(
        call("explain", *words).stdout for words in ((), *((str(one),) for one in Category))
    )
    return made


def _statuses(_folder: Path) -> dict[str, str]:
    return {
        f"{name}.txt": describe(Status(**{"run_id": "run", "folder": "/data/run", "planned": None} | changes)) + "\n"
        for name, changes in STATUSES.items()
    }


def _screens(_folder: Path) -> dict[str, str]:
    """What a terminal shows of a real run: a report of an earlier schema, without its run."""
    report = HERE.parents[1] / "docs" / "measurements" / f"{REAL_RUN}.json"
    return {f"{REAL_RUN}.txt": call("report", str(report)).stdout.replace(str(report.parent), "docs/measurements")}


_OTHERS: Final = {
    **{"screens": _screens, "history": _history, "dry-runs": _dry_runs},
    **{"texts": _texts, "statuses": _statuses},
}


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@contextmanager
def neutral_environment(folder: Path) -> Iterator[None]:
    """Work in that folder, in UTC, 80 columns wide: paths, times and lines are always the same."""
    outside, here = dict(os.environ), Path.cwd()
    os.environ |= {"TZ": "UTC", "COLUMNS": "80"}
    time.tzset()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(outside)
        time.tzset()
