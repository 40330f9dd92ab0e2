"""Whether the report, and its copy, say what journal and plan say, cell by cell and failure by failure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.e2e.chaos.ledger import Ledger
from tests.e2e.chaos.story import Story

_FORMATS = ("json", "csv", "txt")


def between(story: Story, ledger: Ledger, report: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each thing that the report tells otherwise."""
    yield from _failures(story, report)
    yield from _cells(story, ledger, report)
    yield from _counts(ledger, report)
    yield from _copies(ledger)


def _failures(story: Story, report: Mapping[str, Any]) -> Iterator[str]:
    written = {(launch, failure["category"]): (end, failure) for launch, end, failure in story.failures()}
    told = {(one["launch"], one["category"]): one for one in report["failures"] if one["category"] is not None}
    yield from (f"launch {one}, '{what}', is not in the report" for one, what in sorted(written.keys() - told.keys()))
    yield from (f"launch {one}, '{what}', is in the report alone" for one, what in sorted(told.keys() - written.keys()))
    statuses = {cell["cell"]: cell["status"] for cell in report["cells"]}
    for key in written.keys() & told.keys():
        start, failure = story.start[key[0]], written[key][1]
        should = {
            **{name: start[name] for name in ("cell", "attempt", "batch_size")},
            **{name: failure[name] for name in ("message", "phase", "signal", "code")},
            "gpu_uuid": failure.get("device") or start["device"],
            "model_name": story.model(key[0]),
            "status": statuses.get(start["cell"]),
        }
        yield from _differences(f"the failure of launch {key[0]}", should, told[key])


def _cells(story: Story, ledger: Ledger, report: Mapping[str, Any]) -> Iterator[str]:
    tries: dict[str, list[int]] = defaultdict(list)
    for launch, start in story.start.items():
        tries[start["cell"]].append(launch)
    for cell in report["cells"]:
        planned = ledger.cells.get(cell["cell"])
        if planned is None:
            continue
        launches = tries[cell["cell"]]
        measured = [launch for launch in launches if story.promised(launch)]
        should = {
            "gpu_uuid": planned["devices"][0],
            "model_name": planned["model"],
            "batch_size_requested": planned["batch_size"],
            "batch_size": story.start[measured[0]]["batch_size"] if measured else None,
            "status": "ok" if measured else "failed",
            "attempts": len(launches),
            "launches": len(measured),
        }
        yield from _differences(cell["cell"], should, cell)


def _counts(ledger: Ledger, report: Mapping[str, Any]) -> Iterator[str]:
    statuses = Counter(cell["status"] for cell in report["cells"])
    should = {"planned": len(ledger.cells), **{name: statuses[name] for name in ("ok", "failed", "missing")}}
    yield from _differences("the summary", should, report["summary"]["cells"])


def _copies(ledger: Ledger) -> Iterator[str]:
    """What the user asked for by -o is the same to the byte."""
    for kind in _FORMATS:
        path, own = ledger.published.with_suffix(f".{kind}"), ledger.folder / f"report.{kind}"
        if not path.exists():
            yield f"there is no {path.name} where the report was asked for"
        elif not own.exists() or path.read_bytes() != own.read_bytes():
            yield f"{path.name} where the report was asked for is not that of the run's folder"


def _differences(whose: str, should: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    for name, value in should.items():
        if told[name] != value:
            yield f"{whose}: the report says {name} = {told[name]!r}, and it was {value!r}"
