"""`completion`: the script that teaches a shell to complete the commands."""

import click

from orchestrator.cli.program import say


@click.command("completion", short_help="Print a script for the shell's completion.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    r"""Print the script with which SHELL completes this command.

    \b
    bash:  source <(gpubench-orchestrate completion bash)       in ~/.bashrc
    zsh:   source <(gpubench-orchestrate completion zsh)        in ~/.zshrc
    fish:  gpubench-orchestrate completion fish | source        in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    root = context.find_root()
    name = root.info_name or ""
    make = get_completion_class(shell)
    assert make is not None
    say(make(root.command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source())
