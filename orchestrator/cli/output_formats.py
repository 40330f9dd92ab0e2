"""Which format a command writes, and where to: what --format and -o say together, for every command that has both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from orchestrator.cli.click_options import require_report_file
from orchestrator.cli.streams import say
from orchestrator.errors import ConfigError

OLDER_KEPT: Final = "an older one is kept beside it"
"""What -o does with a file that is there already, for --help."""
OUTPUT: Final = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    callback=require_report_file,
    help=f"Write into this file; {OLDER_KEPT}. [default: standard output]",
)
_TEXT: Final = {".txt": "text"}
"""Suffixes that are no names of formats; any other format is a suffix itself."""


def chosen(kind: str | None, output: str | None, formats: Sequence[str]) -> str:
    """What --format says, else the suffix of -o, else the first of `formats`.

    Raises ConfigError where they name two formats, or none.
    """
    from orchestrator.config.yaml_schema import require_known

    suffix = "" if output is None else Path(output).suffix
    of_name = _TEXT.get(suffix, suffix[1:])
    if of_name not in formats:
        of_name = ""
    if kind is None and suffix and not of_name:
        raise ConfigError(f"-o/--output: {output}: no format has the suffix '{suffix}'; say which with --format")
    kind = kind or of_name or formats[0]
    require_known(kind, "--format", formats, "format")
    if of_name and kind != of_name:
        raise ConfigError(f"-o/--output: {output} has the suffix of {of_name}, and --format asks for {kind}")
    return kind


def tell(rendered: str | bytes, output: str | None) -> None:
    """To standard output, or into a file, whose name is said then. Raises StorageError when the disk refuses."""
    from orchestrator.report.files import beside_the_old
    from orchestrator.store.journal import write_durably

    if output is None:
        say(rendered)
        return
    data = rendered if isinstance(rendered, bytes) else rendered.encode()
    write_durably(Path(output), data + b"\n", move=beside_the_old)
    say(output)
