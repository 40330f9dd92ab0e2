"""Options that several commands share: how a run is shown, what it is held against, its history, and which run."""

from collections.abc import Callable
from typing import Any, Final, TypedDict, TypeVar

import click

from orchestrator.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])


class DisplayParams(TypedDict):
    """What click passes for DISPLAY_OPTIONS."""

    verbose: bool | None
    quiet: bool
    log_format: str
    strict: bool
    on_finish: str | None
    on_failure: str | None
    metrics_file: str | None
    metrics_port: int | None


class HistoryParams(TypedDict):
    """What click passes for HISTORY_OPTIONS. None: the option was not given."""

    history: bool | None
    history_db: str | None


def a_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """What -o says. Raises BadParameter for the sign of standard output."""
    if value == "-":
        raise click.BadParameter(
            "reports are files, and '-' is none. Leave -o out, then `cat` the report in the folder of the run"
        )
    return value


def a_history(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """The file that --history-db names, absolute: for every command as in a configuration file. Raises ConfigError."""
    if value is None:
        return None
    from orchestrator.config import resolution
    from orchestrator.store import folders

    return resolution.absolute(value, "--history-db", folders.current())


DISPLAY_OPTIONS: Final = (
    click.option("-v", "--verbose", is_flag=True, default=None, help="Tell every step."),
    click.option("--quiet", is_flag=True, help="Tell failures and warnings alone, and the end in one line."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What is told, as text or as a JSON object a line.",
    ),
    click.option(
        "--strict", is_flag=True, help="End with 1 for a result that is degraded or does not fit, WARN, or a straggler."
    ),
    click.option(
        "--on-finish",
        metavar="COMMAND",
        help="Call this when the run is over, without a shell; GPUBENCH_REPORT, …_EXIT_CODE and others tell it how.",
    ),
    click.option("--on-failure", metavar="COMMAND", help="The same, only where the exit code is not 0."),
    click.option(
        "--metrics-file",
        metavar="FILE.prom",
        type=click.Path(),
        help="Keep metrics for Prometheus in this file, for node_exporter's textfile collector.",
    ),
    click.option(
        "--metrics-port",
        metavar="PORT",
        type=click.IntRange(1, 65_535),
        help="Answer Prometheus at this port of 127.0.0.1 while the command works.",
    ),
)

HELD_OPTIONS: Final = (
    click.option(
        "--compare-baseline",
        metavar="FILE",
        type=click.Path(),
        help="A baseline, a report, a run's folder or id to be compared with, or the name of a baseline that ships.",
    ),
    click.option(
        "--thresholds",
        metavar="FILE",
        type=click.Path(),
        help="Limits in YAML, as configs/thresholds/example.yaml; one that is missed ends with 1.",
    ),
    click.option(
        "--price",
        metavar="PRICE",
        type=float,
        help="Of an hour of each device: what a million samples or tokens cost, and the energy they take.",
    ),
)

RUNS_FOLDER: Final = click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="Where runs are looked for: the newest, and ids. [default: ./runs]",
)
HISTORY_DB: Final = click.option(
    "--history-db",
    metavar="FILE",
    type=click.Path(),
    callback=a_history,
    help="The history of runs. [default: gpubench/history.db in $XDG_DATA_HOME or ~/.local/share]",
)

HISTORY_OPTIONS: Final = (
    HISTORY_DB,
    click.option("--history/--no-history", default=None, help="Record the run in the history. [default: yes]"),
)


def display_options(command: Command) -> Command:
    """How a run is shown and how it ends."""
    return decorate(command, DISPLAY_OPTIONS)


def held_options(command: Command) -> Command:
    """What a run is held against."""
    return decorate(command, HELD_OPTIONS)


def history_options(command: Command) -> Command:
    """Whether a run is recorded, and where, in place of what was said when it was begun."""
    return decorate(command, HISTORY_OPTIONS)


def which_run(command: Command) -> Command:
    """A run in the words of history/run_lookup.py, or the newest one."""
    return decorate(
        command,
        (
            click.argument("run", required=False, type=click.Path()),
            RUNS_FOLDER,
        ),
    )


def require_one_voice(params: DisplayParams) -> None:
    """Refuse to tell every step and next to nothing at once. Raises ConfigError."""
    if params["verbose"] and params["quiet"]:
        raise ConfigError("-v/--verbose and --quiet contradict each other; leave one of them out")


def decorate(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    """The command with all of these, in this order in --help."""
    for option in reversed(options):
        command = option(command)
    return command
