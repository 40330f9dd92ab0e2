"""Exit codes and error messages of all commands.

UserError            error: …                          2
click's own errors   error: …, and where help is       2
StorageError         error: …                          5
a missing library    error: …                          5
interrupted                                            4
anything else        traceback, and where to report    5
"""

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
from orchestrator.cli.streams import StdoutError, as_json, complain, occupy_closed, refused, speaking
from orchestrator.errors import ConfigError, StorageError, UserError
from orchestrator.system import plain_text, stop_signals
from protocol.exit_codes import MEANING, ExitCode

_NAME_FOLDERS: Final = ("TMPDIR", "TEMP", "TMP", "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_FEW_COMMANDS: Final = 2
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Refusal(click.ClickException):
    """A command that cannot do what was requested: exit code 2."""

    exit_code = ExitCode.USAGE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error."""
        complain(wrapped(f"error: {self.format_message()}"))


class Interruption(Refusal):
    """A request to stop outside the loop that ends a run gently: exit code 4."""

    exit_code = ExitCode.INCOMPLETE


class Breakdown(Refusal):
    """A failure of gpubench or of the machine: exit code 5."""

    exit_code = ExitCode.INTERNAL


class Command(click.Command):
    """A command whose help names the called program. hears_signals: the command handles them itself."""

    hears_signals = False

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. The program, a command too, leaves signals to its subcommand."""
        if ctx.parent is not None and not self.hears_signals:
            stop_signals.settle()
        return super().invoke(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Parse the command line. Raises Refusal if it is wrong."""
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
        """Parse the words. Raises click.UsageError. A program without words shows its help, not an error."""
        if not ctx.resilient_parsing:
            if self.no_args_is_help and not args:
                complain(ctx.get_help())
                ctx.exit(ExitCode.USAGE)
            _refuse_missing_value(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples with the program's own name: both programs share their commands."""
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                text = self.epilog.format(command=ctx.command_path, program=ctx.find_root().info_name)
                formatter.write_text(inspect.cleandoc(text))


class RunCommand(Command):
    """A command that ends with any of the exit codes."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections, those most used first."""
        parameters = self.get_params(ctx)
        shown = {option.name: record for option in parameters if (record := option.get_help_record(ctx))}
        for title, names in sections(filter(None, shown)):
            with formatter.section(title):
                formatter.write_dl([shown[name] for name in names])
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the table of protocol/exit_codes.py."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANING.items()])


class Program(RunCommand, click.Group):
    """A group of commands whose errors end as in the table above. Keeps the command line for the run's record."""

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401  # handed on to click as they came
        """Parse, run, and end the process."""
        occupy_closed()
        words = args[0] if args else extra.get("args")
        with speaking(sys.argv[1:] if words is None else words):
            try:
                return super().main(*args, **extra)
            finally:
                if words is None:  # the command line of the process itself, which ends with it
                    stop_signals.leave()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Keep the words as given: click consumes them."""
        words = (info_name or "", *args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta["command"] = words
        return context

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises Refusal with the nearest names."""
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from orchestrator.config.yaml_schema import did_you_mean, listed

        names = self.list_commands(ctx)
        near, wrong = did_you_mean(name, names), f"there is no command '{name}'."
        if any(f"--{name}" in option.opts for option in self.params):
            raise Refusal(f"{wrong} Did you mean --{name}? `{ctx.command_path} --help` explains it.")
        if not near and (hint := list_options.meant(self, ctx.meta["command"][1:])):
            raise Refusal(f"{wrong}{hint} `{ctx.command_path} --help` shows what there is.")
        raise Refusal(f"{wrong}{near} There is {listed(names, 'and')}.")

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
    """Check that words of the command line and variables that may name files are UTF-8. Raises ConfigError."""
    for word in words:
        if not plain_text.is_utf_8(word):
            raise ConfigError(f"{plain_text.escaped(word)} on the command line: {plain_text.NO_TEXT}")
    for name in _NAME_FOLDERS:
        if not plain_text.is_text(os.environ.get(name, "")):
            raise ConfigError(f"{name}={plain_text.escaped(os.environ[name])}: {plain_text.NO_TEXT}")


class MeasuringCommand(RunCommand):
    """A command with launches: requests to stop end those first, and it outlives its terminal."""

    hears_signals = True


def _usage(error: click.UsageError, program: str, hint: str = "") -> str:
    command = program if error.ctx is None else error.ctx.command_path
    match error:
        case click.NoSuchOption(option_name=name, possibilities=near):
            guess = f" Did you mean {' or '.join(near)}?" if near else ""
            problem = f"there is no option {name}.{_of_another(error.ctx, name) or guess}"
        case click.MissingParameter(param=click.Option() as option):
            problem = f"{'/'.join(option.opts)} {option.metavar or ''}".rstrip() + " is missing."
        case click.MissingParameter(param=click.Parameter() as parameter):
            problem = f"{parameter.human_readable_name} is missing."
        case click.BadParameter(param=click.Parameter() as parameter):
            problem = f"{'/'.join(parameter.opts)}: {error.message}"
        case _:
            problem = error.message[:1].lower() + error.message[1:]
    problem = f"{problem.rstrip('.')}.{hint}" if hint else problem
    return f"{problem.rstrip('.?')}{'?' if problem.endswith('?') else '.'} `{command} --help` shows what there is."


def _refuse_missing_value(command: click.Command, ctx: click.Context, words: Sequence[str]) -> None:
    """Raise click.BadOptionUsage if an option follows where a value must: `--burn-in --gpu-ids 0,1`."""
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


def _of_another(context: click.Context | None, option: str) -> str:
    """Return a blank, and the other commands that have the option; empty if there are none or many."""
    program = context if context is None or isinstance(context.command, click.Group) else context.parent
    if program is None or not isinstance(program.command, click.Group):
        return ""
    having = [
        f"`{program.command_path} {name} {option}`"
        for name, command in program.command.commands.items()
        if any(option in (*parameter.opts, *parameter.secondary_opts) for parameter in command.params)
    ]
    return f" Did you mean {' or '.join(having)}?" if 0 < len(having) <= _FEW_COMMANDS else ""


def refuse_misplaced(context: click.Context) -> None:
    """Refuse options of a program before a command, where they have no effect. Raises ConfigError."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            option, command = parameter.opts[-1], context.invoked_subcommand
            raise ConfigError(f"{option} is before {command}. Put options after the command")


def wrapped(text: str) -> str:
    """Fold to the terminal's width below "error: ". Unchanged in files and JSON, for grep."""
    if as_json() or not sys.stderr.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, 120)
    return textwrap.fill(text, width, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int] = frozenset()) -> str:
    """Align columns two blanks apart, those in `numbers` to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    line = "  ".join(f"{{:{'>' if column in numbers else '<'}{width}}}" for column, width in enumerate(widths))
    return "\n".join(line.format(*row).rstrip() for row in (header, *rows))
