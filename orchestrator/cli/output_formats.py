"""The output format and file of a command, from --format and -o."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from orchestrator.cli.decorators import Command, require_report_file
from orchestrator.cli.streams import say
from orchestrator.errors import ConfigError

OLDER_KEPT: Final = "an older one is kept beside it"  # of -o, for --help


def output_option(text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds -o to a command. text: help of the option."""
    path = click.Path()
    return click.option(
        "-o", "--output", metavar="FILE", type=path, callback=require_report_file, required=required, help=text
    )


OUTPUT: Final = output_option(f"Write into this file; {OLDER_KEPT}. [default: standard output]")
_TEXT: Final = {".txt": "text"}  # other formats are their own suffix
_ALSO_CALLED: Final = {"txt": "text", "markdown": "md"}


def chosen(kind: str | None, output: str | None, formats: Sequence[str]) -> str:
    """Return the format: `kind` (--format), else that of the suffix of `output` (-o), else the first one.

    Raises ConfigError for an unknown format, an unknown suffix without `kind`, and if the two contradict each other.
    """
    from orchestrator.config.yaml_schema import require_known

    suffix = "" if output is None else Path(output).suffix
    of_name = _TEXT.get(suffix, suffix[1:])
    if of_name not in formats:
        of_name = ""
    if kind is None and suffix and not of_name:
        raise ConfigError(f"-o/--output: {output}: no format has the suffix '{suffix}'. Choose one with --format")
    kind = _ALSO_CALLED.get(kind or "", kind) or of_name or formats[0]
    require_known(kind, "--format", formats, "format")
    if of_name and kind != of_name:
        raise ConfigError(f"-o/--output: {output} has the suffix of {of_name}, but --format is {kind}. Change one")
    return kind


def deliver(rendered: str | bytes, output: str | None) -> None:
    """Print `rendered`, or write it to the file `output` and print its name. Raises StorageError if that fails."""
    if output is None:
        say(rendered)
        return
    write(rendered, output)
    say(output)


def write(rendered: str | bytes, output: str) -> None:
    """Write `rendered` and a newline to the file `output`. Raises StorageError if that fails.

    An existing file is kept under the first free name, such as output.1.json (files.keep_old).
    """
    from orchestrator.report.files import beside_the_old
    from orchestrator.store.journal import write_durably

    data = rendered if isinstance(rendered, bytes) else rendered.encode()
    write_durably(Path(output), data + b"\n", move=beside_the_old)
