"""What was meant by words that stand apart and belong to one option: `-b 1 8` for `-b 1,8`."""

import itertools
from collections.abc import Sequence
from typing import Final

import click

LISTS: Final = frozenset(
    {"models", "batch_sizes", "precision", "seq_len", "input_size", "format", "gpu_ids", "phases", "require"}
)
"""Parameters of commands that take several values, separated by commas."""


def meant(command: click.Command, words: Sequence[str]) -> str:
    """A sentence with a blank before it; empty where no list was torn apart, or a word may be an argument of its own.

    words: of the command line, behind the command's name.
    """
    if any(isinstance(parameter, click.Argument) for parameter in command.params):
        return ""
    options = {spelling for parameter in command.params if parameter.name in LISTS for spelling in parameter.opts}
    names = command.commands if isinstance(command, click.Group) else {}
    for place, word in enumerate(words):
        option, sign, first = word.partition("=")
        if option not in options:
            continue
        behind = words[place + 1 :] if sign else words[place + 2 :]
        more = list(itertools.takewhile(lambda other: not other.startswith("-") and other not in names, behind))
        if more:
            values = [value for item in (first or words[place + 1], *more) for value in item.split(",") if value]
            return f" Did you mean {option}{sign or ' '}{','.join(values)}?"
    return ""
