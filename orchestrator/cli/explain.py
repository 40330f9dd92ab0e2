"""`explain`: how each kind of failure is handled, or what went wrong in a run."""

from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.program import Command, Refusal, table
from orchestrator.cli.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.figures.report import Report
    from protocol.failure import Category

EXAMPLES: Final = """\b
Examples:
  {command}                how each kind is handled
  {command} out of memory  one kind, and what helps
  {command} 79             an Xid
  {command} @last          why the newest run failed
"""


@click.command(
    "explain", cls=Command, short_help="How failures are handled, or what went wrong in a run.", epilog=EXAMPLES
)
@click.argument("words", metavar="[WHAT]", nargs=-1)
def command(*, words: tuple[str, ...]) -> None:
    """Explain how each kind of failure is handled, and for one kind also how it is recognised and what helps.

    WHAT is a kind of failure (out of memory), an exit code (4), a signal (SIGKILL), an Xid (79), or a run (its folder,
    its report.json, its id or a unique beginning of it, or @last, @last~1 and so on: the newest in ./runs). For a run,
    the most serious failure comes first, with its evidence.
    """
    from pathlib import Path

    from orchestrator.cli import explain_codes
    from orchestrator.figures.quality import Quality
    from orchestrator.run_reports import run_lookup
    from orchestrator.system import safe_read

    what = " ".join(words)
    if not what:
        say(_overview())
    elif (category := _category(what)) is not None:
        say("\n".join(_detail(category)))
    elif safe_read.is_there(Path(what)) or "/" in what or what.startswith("@") or run_lookup.is_id(what):
        say(_run(what))
    elif code := explain_codes.lines(what):
        say("\n".join(code))
    elif what in set(Quality):
        say(f"{what}: a status of results. docs/reports.md (How reliable a row is) says what it means and what to do.")
    else:
        raise Refusal(
            f"'{what}' is unknown. Expected a kind of failure, an exit code, a signal, an Xid or a run."
            f"{_guess(what)} `explain` alone lists the kinds."
        )


def _guess(what: str) -> str:
    """Return " Did you mean X?" with the kinds of failure that match `what`, else with similar kinds, else "".

    A kind matches if `what` is one of its words, or is in the initials of its words ("oom").
    """
    from orchestrator.config.yaml_schema import did_you_mean, listed
    from protocol.failure import Category

    wanted = what.lower()
    words = {str(kind): str(kind).lower().replace(",", "").split() for kind in Category}
    having = [kind for kind, own in words.items() if wanted in own or wanted in "".join(word[0] for word in own)]
    return f" Did you mean {listed(having)}?" if having else did_you_mean(what, words)


def _category(what: str) -> "Category | None":
    from protocol.failure import Category

    wanted = what.lower().replace("_", " ").replace("-", " ")
    return next(
        (kind for kind in Category if wanted in (kind.value.lower(), kind.name.lower().replace("_", " "))),
        None,
    )


def _overview() -> str:
    from orchestrator.state.failure_policy import POLICY, RUN, retries

    failures = [(str(category), retries(rule), str(rule.reaction)) for category, rule in POLICY.items()]
    return "\n\n".join(
        (
            table(("what happened to a launch", "retries", "what is done"), failures),
            table(("what happens to the run", "what is done"), list(RUN.items())),
        )
    )


def _detail(category: "Category") -> "Iterator[str]":
    from orchestrator.state.failure_policy import POLICY, retries

    rule = POLICY[category]
    yield str(category)
    yield f"  how it is seen: {rule.seen}"
    if tries := retries(rule):
        yield f"  retries:        {tries}, each in a fresh process on the same device"
    yield f"  what is done:   {rule.reaction}"
    yield f"  why:            {rule.why}"
    yield f"  what helps:     {rule.advice}"


def _run(run: str) -> str:
    from pathlib import Path

    from orchestrator.report import text
    from orchestrator.report.chapters.failures import failures
    from orchestrator.run_reports import report_reader, reporting, run_lookup
    from protocol.exit_codes import ExitCode

    if report_reader.is_file(run):
        report = report_reader.report(Path(run))
    else:
        report = reporting.make(run_lookup.find(run, "runs"))
    stopped = not (report.metadata.finished or report.metadata.running)
    lines = [*(_interruption(report) if stopped else ()), *text.lines(failures(report))]
    if not lines and report.verdict.exit_code == ExitCode.PASSED:
        lines = [f"Every launch{' so far' if report.metadata.running else ''} has a result.", ""]
    reasons = (line for reason in report.verdict.reasons for line in text.bullet(reason))
    return "\n".join([*lines, f"Verdict: {report.verdict.word}", *reasons])


def _interruption(report: "Report") -> "Iterator[str]":
    from orchestrator.figures.exit_code import CauseKind
    from orchestrator.report import text

    missing = (CauseKind.STOPPED, CauseKind.CELLS, CauseKind.LAUNCHES)
    yield "The run was interrupted:"
    for cause in report.verdict.causes:
        yield from text.bullet(cause.text) if cause.kind in missing else ()
    yield from text.wrap(f"Continue it: `gpubench-orchestrate resume {report.metadata.run_id}`")
    yield ""
