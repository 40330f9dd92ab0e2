"""Exit codes and error messages of all commands.

UserError            error: …                          2
click's own errors   error: …, and where help is       2
StorageError         error: …                          5
a missing library    error: …                          5
interrupted          error: interrupted                4
anything else        traceback, and where to report    5
"""

import difflib
import inspect
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence
from typing import IO, Any, Final

import click

from orchestrator import HOW_TO_INSTALL
from orchestrator.cli import list_options
from orchestrator.cli.decorators import sections
from orchestrator.cli.streams import StdoutError, as_json, complain, occupy_closed, refused, with_log_format
from orchestrator.errors import ConfigError, StorageError, UserError
from orchestrator.system import plain_text, stop_signals
from protocol.exit_codes import MEANING, ExitCode

_NAME_FOLDERS: Final = ("TMPDIR", "TEMP", "TMP", "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_FEW_COMMANDS: Final = 2
_FIRST_COLUMN: Final = 25  # of --help: a longer option has a line of its own
_HABITS: Final = {
    "--device": "--gpu-ids",
    "--devices": "--gpu-ids",
    "--dtype": "--precision",
    "--output-format": "--format",
}
"""Option of other programs → gpubench's option with the same meaning."""
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Refusal(click.ClickException):
    """A request that a command cannot fulfil: exit code 2."""

    exit_code = ExitCode.USAGE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error, never to `file`."""
        complain(wrapped(f"error: {self.format_message()}"))


class Interruption(Refusal):
    """A stop request while no run handles it: exit code 4."""

    exit_code = ExitCode.INCOMPLETE


class Breakdown(Refusal):
    """A failure of gpubench or of the machine: exit code 5."""

    exit_code = ExitCode.INTERNAL


class Command(click.Command):
    """A command whose examples in --help name the program. hears_signals: whether it handles stop signals itself."""

    hears_signals = False

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a subcommand without hears_signals first restores Python's signal handlers."""
        if ctx.parent is not None and not self.hears_signals:
            stop_signals.settle()
        return super().invoke(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Parse the command line. Raises Refusal if it is wrong, Breakdown if its --help cannot be printed."""
        words = tuple(args)  # click takes them out of the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            hint = list_options.meant(self, words) if type(error) is click.UsageError else ""
            raise Refusal(_usage(error, info_name or "", hint)) from error
        except UserError as error:  # of a value that is checked while it is parsed
            raise Refusal(str(error)) from error
        except OSError as error:
            try:
                refused(error)
            except StdoutError as reason:
                raise Breakdown(str(reason)) from error
            raise click.exceptions.Exit from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. Raises click.UsageError if it is wrong.

        A program that needs arguments and gets none prints its help instead, and exits with code 2.
        """
        if not ctx.resilient_parsing:
            if self.no_args_is_help and not args:
                complain(ctx.get_help())
                ctx.exit(ExitCode.USAGE)
            _refuse_missing_value(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples with the name of the running program: two programs share the commands."""
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                text = self.epilog.format(command=ctx.command_path, program=ctx.find_root().info_name)
                formatter.write_text(inspect.cleandoc(text))


class RunCommand(Command):
    """A command whose help lists all exit codes."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections, those most used first."""
        parameters = self.get_params(ctx)
        shown = {option.name: record for option in parameters if (record := option.get_help_record(ctx))}
        for title, names in sections(filter(None, shown)):
            with formatter.section(title):
                formatter.write_dl([shown[name] for name in names], col_max=_FIRST_COLUMN)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the table of protocol/exit_codes.py."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANING.items()])


class Program(RunCommand, click.Group):
    """A group of commands whose errors become messages and exit codes. Keeps the command line for the run's record."""

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401  # handed on to click as they came
        """Run the command line, and exit with its exit code."""
        occupy_closed()
        words = args[0] if args else extra.get("args")
        with with_log_format(sys.argv[1:] if words is None else words):
            try:
                return super().main(*args, **extra)
            finally:
                if words is None:  # the command line of the process itself, which ends with it
                    stop_signals.leave()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Parse the command line, and store all of its words in context.meta["command"]."""
        words = (info_name or "", *args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta["command"] = words
        return context

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command whose name is args[0]. Raises Refusal, with the most similar names, if there is none."""
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from orchestrator.config.yaml_schema import did_you_mean, listed

        names = self.list_commands(ctx)
        near, wrong = did_you_mean(name, names), f"there is no command '{name}'."
        if any(f"--{name}" in option.opts for option in self.params):
            raise Refusal(f"{wrong} Did you mean --{name}? `{ctx.command_path} --help` explains it.")
        if not near and (hint := list_options.meant(self, ctx.meta["command"][1:])):
            raise Refusal(f"{wrong}{hint} See `{ctx.command_path} --help`.")
        raise Refusal(f"{wrong}{near} The commands are {listed(names, 'and')}.")

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Raises only click's exceptions, each with its exit code."""
        try:
            _require_text(ctx.meta["command"])
            return super().invoke(ctx)
        except UserError as error:
            raise Refusal(str(error)) from error
        except StorageError as error:
            raise Breakdown(str(error)) from error
        except (KeyboardInterrupt, click.Abort):
            raise Interruption("interrupted") from None
        except click.UsageError as error:
            raise Refusal(_usage(error, ctx.command_path)) from error
        except (click.ClickException, click.exceptions.Exit):
            raise
        except ModuleNotFoundError as error:
            raise Breakdown(f"{error.name} is not installed. {HOW_TO_INSTALL}") from error
        except Exception as error:
            complain(traceback.format_exc().rstrip())
            message = (
                f"gpubench itself failed ({type(error).__name__}). Please report the lines above, the command and the "
                "run's folder to those who gave you gpubench: CONTRIBUTING.md says how."
            )
            raise Breakdown(message) from error


def _require_text(words: Sequence[str]) -> None:
    """Raise ConfigError if a word of the command line is not UTF-8, or for a bad path in a variable of _NAME_FOLDERS.

    A bad path is not UTF-8 or has control characters.
    """
    for word in words:
        if not plain_text.is_utf_8(word):
            raise ConfigError(f"{plain_text.escaped(word)} on the command line: {plain_text.NO_TEXT}")
    for name in _NAME_FOLDERS:
        if not plain_text.is_text(os.environ.get(name, "")):
            raise ConfigError(f"{name}={plain_text.escaped(os.environ[name])}: {plain_text.NO_TEXT}")


class MeasuringCommand(RunCommand):
    """A command with launches, which handles stop signals itself.

    Until its own handlers are installed (exit_notification.announced), a stop signal ends the program with exit code 4.
    """

    hears_signals = True


def _usage(error: click.UsageError, program: str, hint: str = "") -> str:
    command = program if error.ctx is None else error.ctx.command_path
    match error:
        case click.NoSuchOption(option_name=name, possibilities=near):
            problem = f"there is no option {name}.{_meant(error.ctx, name, near or ())}"
        case click.MissingParameter(param=click.Option() as option):
            problem = f"{'/'.join(option.opts)} {option.metavar or ''}".rstrip() + " is missing."
        case click.MissingParameter(param=click.Parameter() as parameter):
            problem = f"{parameter.human_readable_name} is missing.{_offered(parameter, error.ctx)}"
        case click.BadParameter(param=click.Parameter() as parameter):
            problem = f"{'/'.join(parameter.opts)}: {error.message}"
        case _:
            problem = error.message[:1].lower() + error.message[1:]
    problem = f"{problem.rstrip('.')}.{hint}" if hint else problem
    return f"{problem.rstrip('.?')}{'?' if problem.endswith('?') else '.'} See `{command} --help`."


def _offered(argument: click.Parameter, context: click.Context | None) -> str:
    """Return a hint for a missing argument, " Valid: bash and zsh." or, for RUN, " The last run is @last.".

    Returns "" if the argument has no listed values, or more than _FEW_COMMANDS.
    """
    if argument.human_readable_name in ("RUN", "RUN..."):
        return " The last run is @last."
    words = [] if context is None else [one.value for one in argument.shell_complete(context, "") if one.value]
    return f" Valid: {' and '.join(words)}." if 0 < len(words) <= _FEW_COMMANDS else ""


def _refuse_missing_value(command: click.Command, ctx: click.Context, words: Sequence[str]) -> None:
    """Raise click.BadOptionUsage if an option stands in place of a value: `--burn-in --gpu-ids 0,1`.

    words: the unparsed command line after the name of `command`.
    """
    parameters = (option for option in command.get_params(ctx) if isinstance(option, click.Option))
    options = {spelling: option for option in parameters for spelling in option.opts}
    behind = iter(words)
    for word in behind:
        if word == "--" or (isinstance(command, click.Group) and not word.startswith("-")):
            return  # arguments from here on, or the words of another command
        option = options.get(word)
        if option is None or option.is_flag or option.count:
            continue
        value = next(behind, "")
        if value in options:
            problem = f"{word} {option.metavar or 'VALUE'} has no value: {value} follows it."
            raise click.BadOptionUsage(word, problem, ctx)


def _meant(context: click.Context | None, option: str, near: Sequence[str]) -> str:
    """Return " Did you mean X?" with the likely option or command for `option`, else "". near: similar options."""
    if context is None:
        return ""
    own = [one for parameter in context.command.params for one in parameter.opts]
    alike = [one for one in own if one.startswith("--") and (one.startswith(option) or option.startswith(one))]
    alike = [_HABITS[option]] if _HABITS.get(option) in own else alike
    if alike:
        return f" Did you mean {min(alike, key=len)}?"
    near = difflib.get_close_matches(option.lstrip("-"), [one.lstrip("-") for one in near])  # dashes are no likeness
    return _of_another(context, option) or (f" Did you mean --{' or --'.join(near)}?" if near else "")


def _of_another(context: click.Context, option: str) -> str:
    """Return " Did you mean X?" with one or two other commands that have `option`; "" for none or more."""
    program = context if isinstance(context.command, click.Group) else context.parent
    if program is None or not isinstance(program.command, click.Group):
        return ""
    having = {
        name: command
        for name, command in program.command.commands.items()
        if any(option in (*parameter.opts, *parameter.secondary_opts) for parameter in command.params)
    }
    measures = _measures(context.command)
    having = {name: one for name, one in having.items() if _measures(one) is measures} or having
    shown = [f"`{_with_arguments(program, name, command)} {option}`" for name, command in having.items()]
    return f" Did you mean {' or '.join(shown)}?" if 0 < len(shown) <= _FEW_COMMANDS else ""


def _measures(command: click.Command) -> bool:
    return any(parameter.name == "dry_run" for parameter in command.params)


def _with_arguments(program: click.Context, name: str, command: click.Command) -> str:
    arguments = (one.human_readable_name for one in command.params if isinstance(one, click.Argument))
    return " ".join((program.command_path, name, *(one.partition(" [")[0].strip("[]") for one in arguments)))


def refuse_misplaced(context: click.Context) -> None:
    """Raise ConfigError if an option precedes the name of the command, where it has no effect."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            option, command = parameter.opts[-1], context.invoked_subcommand
            raise ConfigError(f"{option} is before {command}. Put options after the command")


def wrapped(text: str) -> str:
    """Wrap a message, indented below "error: ". Unchanged if standard error is no terminal or gets JSON lines.

    The width is that of the terminal of standard output (80 without one), at most 120.
    """
    if as_json() or not sys.stderr.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, 120)
    return textwrap.fill(text, width, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int] = frozenset()) -> str:
    """Return header and rows as aligned text. numbers: indices of the columns that are aligned to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    line = "  ".join(f"{{:{'>' if column in numbers else '<'}{width}}}" for column, width in enumerate(widths))
    return "\n".join(line.format(*row).rstrip() for row in (header, *rows))
