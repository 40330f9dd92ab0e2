"""click options made from the tables in config/options.py, for gpubench-orchestrate and torch-gpu-benchmark."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NotRequired, TypedDict, TypeVar

import click

from orchestrator.cli.list_options import ListOption
from orchestrator.config.options import (
    COMPARISON,
    HISTORY,
    MEASUREMENT,
    PLACES,
    REHEARSAL,
    SESSION,
    SHOWN,
    Kind,
    Option,
)
from orchestrator.errors import ConfigError, UserError
from orchestrator.kinds.burn_in import options as burn_in

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_USED: Final = (
    *("gpu_ids", "models", "batch_sizes", "precision", "phases"),
    *("profile", "output", "format", "config", "dry_run"),
)
SECTIONS: Final = {
    "What is measured, and how": MEASUREMENT,
    "Burn-in": burn_in.OPTIONS,
    "Comparison": COMPARISON,
    "Files": (*PLACES, *HISTORY),
    "While it runs, and at its end": (*REHEARSAL, *SHOWN, *SESSION),
}

OPTIONS: Final = tuple(option for options in SECTIONS.values() for option in options)
"""Every option of a run, and every key of a configuration file."""

RUNS_FOLDER: Final = click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="Folder in which ids and @last find runs. [default: ./runs]",
)  # of commands that read runs


class SessionParams(TypedDict):
    """Values of the options in the table SESSION of config/options.py, and of --full.

    Without the option: quiet (how often -q is given) is 0, log_format "text", strict and full False, and others None.
    full: whether to print the whole report; `gate` has no such option.
    """

    full: NotRequired[bool]
    verbose: bool | None
    quiet: int
    log_format: str
    strict: bool
    on_finish: str | None
    on_failure: str | None
    metrics_file: str | None
    metrics_port: int | None


class HistoryParams(TypedDict):
    """Values of the options in the table HISTORY of config/options.py, None if not given."""

    history: bool | None
    history_db: str | None


class RunParams(SessionParams):
    """Options of a run that the code reads by their own name. multi_gpu, gpu_ids, config: None if not given.

    option_mapping.py reads the options with a key in the configuration file, also those not listed here.
    """

    multi_gpu: bool | None
    gpu_ids: str | None
    allow_code: bool
    config: str | None
    dry_run: bool


def sections(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (title, names of parameters) of each section of --help that is not empty. names: those of the command.

    A name is in "Most used" if _MOST_USED has it, else in its section of SECTIONS, or in "Options" if it has none.
    """
    left = list(names)
    tables = {title: [option.name for option in options] for title, options in SECTIONS.items()}
    own = [name for name in left if all(name not in table for table in tables.values())]
    for title, table in {"Options": own, "Most used": _MOST_USED, **tables}.items():
        if here := [name for name in table if name in left]:
            yield title, here
        left = [name for name in left if name not in here]


def require_report_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return `value`, the value of -o. Raises BadParameter for "-", because a report needs a file."""
    if value == "-":
        raise click.BadParameter(
            "reports are written to files, not to standard output ('-'). Remove -o, then `cat` the report in the "
            "folder of the run"
        )
    return value


def _absolute_history(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from orchestrator.config import resolution
    from orchestrator.store import folders

    return resolution.absolute(value, "--history-db", folders.current())


_CALLBACKS: Final = {"output": require_report_file, "history_db": _absolute_history}  # by parameter


def _decorate(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    for option in reversed(list(options)):
        command = option(command)
    return command


def offering(
    choices: Callable[[], Iterable[str]], *, several: bool
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a callback for click's shell_complete that offers those `choices` that begin with the typed word.

    several: the value is a list, whose last item is completed. If `choices` raises UserError, nothing is offered.
    """

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        *before, word = incomplete.split(",") if several else [incomplete]
        start = "".join(f"{name}," for name in before)
        try:
            return [f"{start}{name}" for name in choices() if name.startswith(word) and name not in before]
        except UserError:
            return []

    return complete


def _click_option(option: Option, default: str = "") -> Callable[[Command], Command]:
    """Return a decorator that adds `option` to a command.

    default: the default that --help shows, in place of the one of `option`. It sets no value.
    """
    default = default or option.default
    text = f"{option.help} [default: {default}]" if default else option.help
    extra: dict[str, Any] = {"help": text, "callback": _CALLBACKS.get(option.name), "metavar": option.metavar or None}
    if option.choices is not None:
        extra["shell_complete"] = offering(option.choices, several=option.kind.is_list)
    if option.constant or option.kind is Kind.SWITCH:
        # Without a key there is no file to decide where the option is not given.
        extra |= {"is_flag": True, "default": None if option.key else False}
    elif option.kind is Kind.REPEATED:
        extra["count"] = True
    elif option.kind.is_list and option.separator:
        extra |= {"cls": ListOption, "separator": option.separator}
    elif option.kind.is_list:
        extra["multiple"] = True
    elif option.kind is Kind.FILE:
        extra["type"] = click.Path()
    elif option.kind in {Kind.AMOUNT, Kind.SECONDS}:
        extra["type"] = float
    elif option.kind is Kind.NUMBER and not option.key:
        extra["type"] = click.IntRange(option.least, option.most)
    elif option.choices is not None and not option.key:
        extra |= {"type": click.Choice(list(option.choices())), "default": option.default, "metavar": None}
    flags = (*option.flags[:-1], f"{option.flags[-1]}/{option.off}" if option.off else option.flags[-1])
    return click.option(*flags, **extra)


def add_options(
    options: Iterable[Option], defaults: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Command], Command]:
    """Return a decorator that adds those `options` that have flags. defaults: parameter → default, for --help only."""
    made = [_click_option(option, defaults.get(option.name, "")) for option in options if option.flags]
    return functools.partial(_decorate, options=made)


def run_options() -> Callable[[Command], Command]:
    """Return a decorator that adds every option of a run."""
    return add_options(OPTIONS)


def preset_options(defaults: Mapping[str, str]) -> Callable[[Command], Command]:
    """Return a decorator that adds all options of a run but those of a burn-in.

    defaults: parameter → default that --help shows.
    """
    return add_options((option for option in OPTIONS if option not in burn_in.OPTIONS), defaults)


def run_option(name: str, default: str = "") -> Callable[[Command], Command]:
    """Return a decorator that adds one option of a run. name: its parameter in Python.

    default: the default that --help shows; "": that of the option. It sets no value.
    """
    return _click_option(next(option for option in OPTIONS if option.name == name), default)


def which_run(command: Command) -> Command:
    """Return `command` with the argument RUN (run_reports/run_lookup.py; None if not given) and --runs-folder."""
    return _decorate(command, [click.argument("run", required=False, type=click.Path()), RUNS_FOLDER])


def require_one_volume(params: SessionParams) -> None:
    """Raise ConfigError if both --verbose and --quiet are given."""
    if params["verbose"] and params["quiet"]:
        raise ConfigError("-v/--verbose and --quiet contradict each other. Remove one of them")
