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
from typing import Final

from click.testing import CliRunner, Result

from orchestrator.cli import orchestrate
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
}
"""Arguments of `compare`."""
COMPARED: Final = ("txt", "json", "md", "html")
_LONG_FLOAT: Final = re.compile(r"\d+\.\d{10,}(?:e[+-]?\d+)?")


def runs() -> list[str]:
    """Names of the stored runs."""
    return sorted(folder.name for folder in INPUTS.iterdir())


def cases() -> list[str]:
    """Names of all cases: a run, or a comparison of runs."""
    return [*runs(), *COMPARISONS]


def render(case: str) -> dict[str, str]:
    """File name → text of everything that is made of a case."""
    with tempfile.TemporaryDirectory() as folder, _neutral_environment():
        made = _compare(COMPARISONS[case], Path(folder)) if case in COMPARISONS else _report(case, Path(folder))
    return {name: _LONG_FLOAT.sub(_rounded, text) for name, text in sorted(made.items())}


def _rounded(found: re.Match[str]) -> str:
    """Twelve digits of a number: the others depend on the processor and the libraries of mathematics."""
    return f"{float(found[0]):.12g}"


def call(*words: str) -> Result:
    """Call the program in this process."""
    return CliRunner().invoke(orchestrate, words, prog_name="gpubench-orchestrate")


def _report(run: str, folder: Path) -> dict[str, str]:
    formats = FORMATS + LARGE_FORMATS.get(run, "")
    done = call("report", run, "-o", str(folder / "report.json"), "-f", formats)
    made = _files(folder)
    made["report.html.txt"] = page_text(made.pop("report.html", ""))
    made["report.exit.txt"] = f"exit code {done.exit_code}\n{done.stderr}"
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
    made = _files(folder)
    made["compare.html.txt"] = page_text(made.pop("compare.html", ""))
    made["exit.txt"] = "".join(told)
    return made


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@contextmanager
def _neutral_environment() -> Iterator[None]:
    """Work in the folder of the stored runs, in UTC: paths and times are the same everywhere then."""
    zone, here = os.environ.get("TZ"), Path.cwd()
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.chdir(INPUTS)
    try:
        yield
    finally:
        os.chdir(here)
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()
