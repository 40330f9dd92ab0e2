"""Options that take several values: `-b 1,8` and `-b 1 -b 8`, with a suggestion for `-b 1 8`."""

import itertools
from collections.abc import Sequence
from typing import Any

import click


class ListOption(click.Option):
    """A click option with several values: `-b 1 -b 8` equals `-b 1,8`. separator: text between values."""

    def __init__(self, names: Sequence[str], *, separator: str = ",", **extra: Any) -> None:  # noqa: ANN401  # click's own
        super().__init__(names, **extra | {"multiple": True})
        self.separator = separator

    def process_value(self, ctx: click.Context, value: Any) -> str | None:  # noqa: ANN401  # as click has it
        """Return the values joined into one text; None if the option is not given."""
        given = super().process_value(ctx, value)
        return self.separator.join(given) if given else None


def meant(command: click.Command, words: Sequence[str]) -> str:
    """Return a space and "Did you mean -b 1,8?" if the user typed `-b 1 8`, else "". words: those after the command."""
    if any(isinstance(parameter, click.Argument) for parameter in command.params):
        return ""
    lists = [option for option in command.params if isinstance(option, ListOption) and option.separator == ","]
    options = {spelling for option in lists for spelling in option.opts}
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
