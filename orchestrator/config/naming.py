"""How people see the name of a model: with its input size where a run has several, its front cut off where it is long.

Of an own model the end tells most, "…models/net.py:Net": its file and its class. And how many of something there are.
Pure.
"""

from collections.abc import Collection, Iterable, Iterator


def sized(name: str, size: int | None, sizes: Collection[int | None]) -> str:
    """The name, with the input size where the run has it at others too. sizes: all those of what is alike else."""
    return f"{name}@{size}" if size is not None and len(set(sizes)) > 1 else name


def shortened(name: str, columns: int, sign: str = "…") -> str:
    """The name in at most `columns`, cut at its front; `sign` stands for what was cut."""
    return name if len(name) <= columns else f"{sign}{name[len(name) - columns + len(sign) :]}"


def plural(number: int, one: str, more: str = "") -> str:
    """So many of something: "1 cell", "2,000 cells"; `more` where the plural has another ending."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def kind_of_run(profile: str, preset: str | None, level: str | None) -> str:
    """What was asked for in a word: the level of a burn-in, else the preset, else the profile."""
    return f"burn-in {level}" if level is not None else preset or profile


def by_reason(left_out: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, set[str]]]:
    """Each reason once, with the names of all models that it holds for, and the devices that it concerns.

    left_out: reason, model and device of everything that was asked for and not planned, in the order it is told.
    """
    reasons: dict[str, dict[str, set[str]]] = {}
    for reason, model, device in left_out:
        reasons.setdefault(reason, {}).setdefault(model, set()).add(device)
    for reason, models in reasons.items():
        yield reason, ", ".join(models), set().union(*models.values())
