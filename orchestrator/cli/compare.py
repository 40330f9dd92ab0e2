"""`compare`: did it get slower? Two runs or more, cell by cell, with an exit code for CI."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.lists import ListOption
from orchestrator.cli.program import RunCommand
from orchestrator.cli.streams import say
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.compare.comparison import Comparison
    from orchestrator.stats.two_runs import Verdict
    from protocol.exit_codes import ExitCode

EXAMPLES: Final = """\b
Examples:
  {command} before.json after.json
  {command} @last~1 @last --format md
  {command} old.json new.json --threshold 3
"""
FORMATS: Final = ("text", "json", "md")


@click.command("compare", cls=RunCommand, short_help="Compare two runs or more.", epilog=EXAMPLES)
@click.argument("runs", nargs=-1, metavar="A B [C...]", type=click.Path())
@click.option(
    "--threshold",
    metavar="PERCENT",
    type=float,
    help="What counts as the same, for every cell. [default: 1; loading and generation: 2; other boards: more]",
)
@click.option(
    "--format", "kind", metavar="NAME", default="text", help="text, json or md (for a pull request). [default: text]"
)
@click.option("--junit", metavar="FILE", type=click.Path(), help="Also write JUnit XML, a test case for each cell.")
@click.option(
    "--fail-on",
    cls=ListOption,
    metavar="VERDICTS",
    help="Verdicts that end with 1: slower, faster, inconclusive, not-comparable, several with commas, or none. "
    "[default: slower]",
)
@click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="Where @last looks for runs. [default: ./runs]",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    runs: tuple[str, ...],
    threshold: float | None,
    kind: str,
    junit: str | None,
    fail_on: str | None,
    runs_folder: str,
) -> None:
    """Hold runs against the first one, A: which cells are faster, slower, the same, and how sure that is.

    Each is a report (report.json), the folder of a run, a baseline, or @last, @last~1 and so on: the newest runs.
    Ends with 1 on a regression, with 4 where nothing was comparable or conclusive, with 0 else.
    """
    from orchestrator.compare import comparison, reading
    from orchestrator.compare.as_junit import to_junit
    from orchestrator.disk import folders
    from orchestrator.disk.journal import write_durably
    from orchestrator.stats import margins

    if len(runs) < 2:
        raise ConfigError(f"expected two runs or more to compare, got {len(runs)}. `{context.command_path} --help`")
    percent, failing = _percent(threshold), _failing(fail_on)
    _require_format(kind)
    if junit is not None:
        folders.require_file(Path(junit), "--junit")
    first, *others = [reading.read(name, runs_folder) for name in runs]
    shipped = margins.load()
    compared = [comparison.compare(first, other, shipped, percent) for other in others]
    code = comparison.exit_code(compared, failing)
    if junit is not None:
        write_durably(Path(junit), to_junit(compared, failing))
    say(_rendered(compared, kind, code))
    context.exit(code)


def _percent(threshold: float | None) -> float | None:
    if threshold is not None and not 0 < threshold < 100:
        raise ConfigError(f"--threshold: expected more than 0 and less than 100, got {threshold:g}")
    return threshold


def _failing(text: str | None) -> "frozenset[Verdict]":
    from orchestrator.configuration.yaml_schema import did_you_mean, listed
    from orchestrator.stats.two_runs import Verdict

    words = {verdict.lower().replace(" ", "-"): verdict for verdict in Verdict if verdict is not Verdict.SAME}
    if text is None:
        return frozenset({Verdict.SLOWER})
    if text == "none":
        return frozenset()
    for word in text.split(","):
        if word not in words:
            raise ConfigError(
                f"--fail-on: there is no verdict '{word}'.{did_you_mean(word, words)} There is {listed(words, 'and')}."
            )
    return frozenset(words[word] for word in text.split(","))


def _require_format(kind: str) -> None:
    from orchestrator.configuration.yaml_schema import did_you_mean, listed

    if kind == "html":
        raise ConfigError(f"--format: html comes with a later version; now there is {listed(FORMATS, 'and')}")
    if kind not in FORMATS:
        raise ConfigError(
            f"--format: there is no format '{kind}'.{did_you_mean(kind, FORMATS)} There is {listed(FORMATS, 'and')}."
        )


def _rendered(compared: "Sequence[Comparison]", kind: str, code: "ExitCode") -> str:
    if kind == "json":
        import msgspec

        document = {"exit_code": int(code), "comparisons": compared}
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    if kind == "md":
        from orchestrator.compare.as_markdown import to_markdown

        return to_markdown(compared)
    from orchestrator.compare.as_text import to_text

    return to_text(compared, code)
