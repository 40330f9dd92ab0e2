"""Suggestions where the history has no match: the names and words that it does have."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

    from orchestrator.history.records import Filter

SHOWN: Final = 12  # names listed


def near(name: str, names: Sequence[str]) -> str:
    """Return a sentence with the nearest name, else with all names, after a blank."""
    from orchestrator.config.yaml_schema import did_you_mean

    return did_you_mean(name, names) or (f" There is {_some(names)}." if names else "")


def of_runs(connection: "sqlite3.Connection", wanted: "Filter") -> Iterator[str]:
    """Yield the words of the filter that no recorded run has."""
    from orchestrator.history import queries

    models, verdicts, devices = queries.models(connection), queries.verdicts(connection), queries.devices(connection)
    if wanted.model is not None and wanted.model not in models:
        yield f"no recorded run measured {wanted.model}.{near(wanted.model, models)}"
    if wanted.gpu is not None and not any(_means(wanted.gpu, one) for one in devices):
        names = _once([name for _, name in devices])
        yield f"no recorded device has {wanted.gpu} in its name, or a UUID that begins so.{near(wanted.gpu, names)}"
    if wanted.verdict is not None and wanted.verdict.lower() not in map(str.lower, verdicts):
        yield f"no recorded run, health or burn-in is {wanted.verdict}.{near(wanted.verdict, verdicts)}"


def of_cells(connection: "sqlite3.Connection", model: str) -> str:
    """Describe what is recorded of a model, else name the recorded models, after a blank; empty if none is."""
    from orchestrator.history import queries

    found = queries.kinds(connection, model)
    if not found:
        return near(model, queries.models(connection))
    precisions, batches, devices, newest = zip(*found, strict=True)
    sizes = [f"batch {size}" for size in sorted(set(batches)) if size]
    what = _some([*_once(precisions), *sizes])
    return f" Of {model} there is {what}, on {_some(_once(devices))}; the last run of it began {max(newest)}."


def _means(gpu: str, device: tuple[str, str]) -> bool:
    uuid, name = (one.lower() for one in device)
    return uuid.startswith(gpu.lower()) or gpu.lower() in name


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _some(names: Sequence[str]) -> str:
    from orchestrator.config.yaml_schema import listed

    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return listed([*names[:SHOWN], *more], "and")
