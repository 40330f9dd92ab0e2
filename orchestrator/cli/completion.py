"""`completion`: the shell script that completes the commands."""

from typing import Final

import click

from orchestrator.cli.program import Command
from orchestrator.cli.streams import say

EXAMPLES: Final = """\b
Examples:
  source <({command} bash)  ~/.bashrc
  source <({command} zsh)   ~/.zshrc
  {command} fish | source   ~/.config/fish/config.fish
"""


@click.command("completion", cls=Command, epilog=EXAMPLES, short_help="Print a script for the shell's completion.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands and options of gpubench."""
    from click.shell_completion import get_completion_class

    root = context.find_root()
    name = root.info_name or ""
    make = get_completion_class(shell)
    assert make is not None
    say(make(root.command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source())
