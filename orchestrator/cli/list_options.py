"""Options with several values: `-b 1,8` or `-b 1 -b 8`. Errors suggest `-b 1,8` to a user who types `-b 1 8`."""

import itertools
from collections.abc import Sequence
from typing import Any

import click


class ListOption(click.Option):
    """A click option whose values are joined into one text: `-b 1 -b 8` equals `-b 1,8`. separator: between values."""

    def __init__(self, names: Sequence[str], *, separator: str = ",", **extra: Any) -> None:  # noqa: ANN401  # click's own
        super().__init__(names, **extra | {"multiple": True})
        self.separator = separator

    def process_value(self, ctx: click.Context, value: Any) -> str | None:  # noqa: ANN401  # as click has it
        """Return the values joined into one text; None if the option is not given."""
        given = super().process_value(ctx, value)
        return self.separator.join(given) if given else None


def meant(command: click.Command, words: Sequence[str]) -> str:
    """Return " Did you mean -b 1,8?" for the words `-b 1 8`, or " Did you mean -m resnet50?" for `resnet50`.

    words: those after the command. Returns "" if no option takes a stray word, or if the command takes arguments.
    """
    if any(isinstance(parameter, click.Argument) for parameter in command.params):
        return ""
    lists = [option for option in command.params if isinstance(option, ListOption) and option.separator == ","]
    options = {spelling: option.opts[0] for option in lists for spelling in option.opts}
    context = click.Context(command)
    values = {item.value: option.opts[0] for option in lists for item in option.shell_complete(context, "")}
    names = command.commands if isinstance(command, click.Group) else {}
    for place, word in enumerate(words):
        option, sign, first = word.partition("=")
        if option not in options:
            continue
        behind = words[place + 1 :] if sign else words[place + 2 :]
        more = list(itertools.takewhile(lambda other: not other.startswith("-") and other not in names, behind))
        if more and values.get(more[0], options[option]) == options[option]:
            given = [value for item in (first or words[place + 1], *more) for value in item.split(",") if value]
            return f" Did you mean {option}{sign or ' '}{','.join(given)}?"
    alone = [word for before, word in itertools.pairwise(("", *words)) if word in values and before not in options]
    of_one = [word for word in alone if values[word] == values[alone[0]]]
    return f" Did you mean {values[alone[0]]} {','.join(of_one)}?" if alone else ""
