"""Names of models and numbers of things, as people read them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping


def sized(name: str, size: int | None, sizes: Collection[int | None]) -> str:
    """Return "bert@128", or "bert" if all its cells have the same size. sizes: input sizes of all cells of the name."""
    return f"{name}@{size}" if size is not None and len(set(sizes)) > 1 else name


def sizes_of(sizes: Mapping[str, int]) -> str:
    """Write the dimensions of an operator as "h=32 k=3"."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def shortened(name: str, columns: int, sign: str = "…") -> str:
    """Fit a name into `columns` characters: `sign` replaces the front of a longer one, as in "…models/net.py:Net"."""
    return name if len(name) <= columns else f"{sign}{name[len(name) - columns + len(sign) :]}"


def plural(number: int, noun: str, more: str = "") -> str:
    """Count things: "1 cell", "2,000 cells". more: an irregular plural."""
    return f"{number:,} {noun if number == 1 else more or f'{noun}s'}"


def kind_of_run(profile: str, preset: str | None, level: str | None) -> str:
    """Name a run by burn-in level, else preset, else profile: "burn-in quick", "triage", "standard"."""
    return f"burn-in {level}" if level is not None else preset or profile


def by_reason(excluded: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, set[str]]]:
    """Group exclusions (reason, model, device). Yield (reason, all its models as "bert, vit", all its devices)."""
    reasons: dict[str, dict[str, set[str]]] = {}
    for reason, model, device in excluded:
        reasons.setdefault(reason, {}).setdefault(model, set()).add(device)
    for reason, models in reasons.items():
        yield reason, ", ".join(models), set().union(*models.values())
