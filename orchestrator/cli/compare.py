"""`compare`: compare two or more runs, cell by cell, with an exit code for CI."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli import output_formats, session_spread
from orchestrator.cli.decorators import RUNS_FOLDER, run_option
from orchestrator.cli.list_options import ListOption
from orchestrator.cli.program import RunCommand
from orchestrator.cli.streams import indented
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from orchestrator.compare.comparison import Comparison
    from orchestrator.stats.two_runs import ChangeVerdict
    from protocol.exit_codes import ExitCode

EXAMPLES: Final = """\b
Examples:
  {command} before.json after.json
  {command} @last~1 @last --format md
  {command} old.json new.json --threshold 3
  {command} before.json after.json -o comparison.html
"""
FORMATS: Final = ("text", "json", "md", "html")


@click.command("compare", cls=RunCommand, short_help="Compare two runs or more.", epilog=EXAMPLES)
@click.argument("runs", nargs=-1, metavar="A B [C...]", type=click.Path())
@click.option(
    "--threshold",
    metavar="PERCENT",
    type=float,
    help="Largest change that counts as the same. [default: 1; loading and generation: 2; other boards: more]",
)
@click.option(
    "-f",
    "--format",
    "kind",
    metavar="NAME",
    help="text, json, md (for a pull request) or html (a page that works offline). [default: by the suffix of "
    "--output, else text]",
)
@output_formats.OUTPUT
@click.option("--junit", metavar="FILE", type=click.Path(), help="Also write JUnit XML, a test case for each cell.")
@click.option(
    "--fail-on",
    cls=ListOption,
    metavar="VERDICTS",
    help="Verdicts that make the exit code 1: none, or slower, probably-slower, faster, no-change-seen, inconclusive, "
    "not-comparable (also of cells that the second run lacks). [default: slower,probably-slower]",
)
@RUNS_FOLDER
@run_option("history_db")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    runs: tuple[str, ...],
    threshold: float | None,
    kind: str | None,
    output: str | None,
    junit: str | None,
    fail_on: str | None,
    runs_folder: str,
    history_db: str | None,
) -> None:
    """Compare runs with the first one, A: which cells are faster, slower or the same, and how certain that is.

    A, B and C are reports (report.json), folders of runs, ids of runs (`history` lists them), baselines, names of
    shipped baselines, or @last, @last~1 and so on: the newest runs. Exit code 1: a regression. Exit code 4: a cell
    could not be judged or is missing. Exit code 0: neither.
    """
    from orchestrator.compare import comparison
    from orchestrator.compare.as_junit import to_junit
    from orchestrator.config import margins
    from orchestrator.run_reports import report_reader
    from orchestrator.store import folders

    if len(runs) < 2:
        last = "The last two are @last~1 and @last"
        raise ConfigError(f"expected two runs or more, got {len(runs)}. {last}. See `{context.command_path} --help`.")
    if threshold is not None and not 0 < threshold < 100:
        raise ConfigError(f"--threshold: expected more than 0 and less than 100, got {threshold:g}")
    failing = _failing(fail_on)
    chosen = output_formats.chosen(kind, output, FORMATS)
    if output is not None:
        folders.require_file(Path(output), "-o/--output")
    if junit is not None:
        folders.require_file(Path(junit), "--junit")
    first, *others = report_reader.sides(runs, runs_folder, history_db)
    shipped = margins.load()
    compared = [
        comparison.compare(first, other, shipped, threshold, session_spread.learned(first, other, shipped, history_db))
        for other in others
    ]
    code = comparison.exit_code(compared, failing)
    if junit is not None:
        output_formats.write(to_junit(compared, failing), junit)
    output_formats.deliver(_rendered(compared, chosen, code, failing), output)
    context.exit(code)


def _failing(text: str | None) -> "frozenset[ChangeVerdict]":
    from orchestrator.compare.comparison import FAIL_ON
    from orchestrator.config.yaml_schema import require_known
    from orchestrator.stats.two_runs import ChangeVerdict

    if text is None:
        return FAIL_ON
    if text == "none":
        return frozenset()
    others = [verdict for verdict in ChangeVerdict if verdict not in {ChangeVerdict.SAME, ChangeVerdict.WRONG}]
    by_name = {verdict.lower().replace(" ", "-"): verdict for verdict in others}
    named = {by_name[require_known(name, "--fail-on", by_name, "verdict")] for name in text.split(",")}
    return frozenset({ChangeVerdict.WRONG, *named})


def _rendered(
    compared: "Sequence[Comparison]", kind: str, code: "ExitCode", failing: "Collection[ChangeVerdict]"
) -> str | bytes:
    if kind == "json":
        return indented({"exit_code": int(code), "comparisons": compared})
    from orchestrator.compare import comparison, wording
    from orchestrator.compare.chapters import ended

    found = comparison.failing(compared, failing)
    regression = any(verdict in comparison.REGRESSIONS for verdict in found)
    end = ended(code, wording.failure(found), wording.next_step(compared), regression=regression)
    if kind == "html":
        from orchestrator.compare.as_html import to_html

        return to_html(compared, end)
    if kind == "md":
        from orchestrator.compare.as_markdown import to_markdown

        return to_markdown(compared, end)
    from orchestrator.compare.as_text import to_text

    return to_text(compared, end)
