"""Targets whose end is a page: what others wrote reaches it as text, and nothing of it becomes an element."""

import functools
import hashlib
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.analysis.timeline import timeline
from orchestrator.compare import as_html, as_junit, as_markdown, as_text, chapters, comparison
from orchestrator.compare.run_figures import Side
from orchestrator.config import margins
from orchestrator.config.report_formats import ReportFormat
from orchestrator.errors import RunFolderError, UserError
from orchestrator.kinds import registry
from orchestrator.report.files import render
from orchestrator.run_reports import report_reader
from orchestrator.state import archive
from orchestrator.stats.two_runs import ChangeVerdict
from orchestrator.store import journal
from orchestrator.store.journal import MAGIC
from protocol import codec
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.runs import gpus
from tests.fuzz.framing import framed
from tests.fuzz.mutation import MARKED
from tests.fuzz.template import folder, template

_LAUNCHES: Final = 3
"""Of each GPU: soak, memory, and the links between both."""


@dataclass(frozen=True)
class _BurnIn:
    """Its folder, and what of it is changed: records, the result of the links, the samples of the first GPU."""

    run: FakeBurnIn
    links: int
    parts: dict[str, Any]

    @property
    def samples(self) -> Path:
        return self.run.paths.samples(self.run.stored.devices[0].uuid)


@functools.cache
def _burn_in() -> _BurnIn:
    run = FakeBurnIn(folder() / "burn-in", gpus(2), "30m")
    run.work(last=_LAUNCHES)
    cells = {cell.id: cell for cell in run.stored.plan.cells}
    cell, number = run.stored.plan.order[run.stored.devices[0].uuid][_LAUNCHES]
    run.failed(cells[cell], Category.CRASHED, number=number, signal=11, evidence={"stderr": "x"})
    run.climate(0)
    run.well()
    run.finish()
    loaded = run.archive()
    links = next(one for one in loaded.attempts if cells[one.start.cell].workload is Workload.LINKS)
    records = [msgpack.unpackb(codec.encode(record)) for record in journal.read(run.paths.journal)]
    parts = {
        "records": records,
        "result": msgpack.unpackb(loaded.folder(links).result.read_bytes()),
        "samples": run.paths.samples(run.stored.devices[0].uuid).read_bytes()[:4096],
    }
    return _BurnIn(run, links.start.launch, parts)


def check_burn_in(data: bytes) -> None:
    """Whatever is in the parts, there is a report as JSON and as a page, or a RunFolderError."""
    require_harmless(page(data))


def page(data: bytes) -> bytes:
    """The page of a burn-in of which these parts are others; empty where they are refused."""
    burn_in_run = _burn_in()
    try:
        parts = burn_in_run.parts | msgpack.unpackb(data, strict_map_key=False)
        result = msgpack.packb(parts["result"])
        bodies = [msgpack.packb(_promising(record, burn_in_run.links, result)) for record in parts["records"]]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return b""
    paths = burn_in_run.run.paths
    paths.journal.write_bytes(MAGIC + b"".join(framed(body, number) for number, body in enumerate(bodies)))
    burn_in_run.samples.write_bytes(parts["samples"] if isinstance(parts["samples"], bytes) else b"")
    try:
        loaded = archive.assemble(burn_in_run.run.stored, paths, journal.read(paths.journal))
    except RunFolderError:
        return b""
    for attempt in loaded.attempts:
        if attempt.start.launch == burn_in_run.links:
            loaded.folder(attempt).folder.mkdir(parents=True, exist_ok=True)
            loaded.folder(attempt).result.write_bytes(result)
    gathered = evidence.gather(loaded)
    kind = registry.of(loaded.stored.configuration)
    made = merge(loaded, gathered, kind.report)
    course = timeline(loaded, gathered, {one.launch for one in made.failures})
    told: Any = msgspec.json.decode(render(made, ReportFormat.JSON))
    assert told["verdict"]["word"] == made.verdict.word
    return render(made, ReportFormat.HTML, timeline=course, layout=kind.layout)


def _promising(record: Any, links: int, result: bytes) -> Any:
    """The record, with the hash of the result where it is the end of the links with one."""
    ends = isinstance(record, dict) and record.get("type") == "End" and record.get("launch") == links
    if not ends or record.get("failure"):
        return record
    return record | {"result_sha256": hashlib.sha256(result).hexdigest()}


def burn_in_seeds() -> tuple[bytes, ...]:
    return (msgpack.packb(_burn_in().parts),)


def check_compared(data: bytes) -> None:
    """A comparison in every format, or an error that names the file."""
    try:
        text = msgspec.json.encode(msgpack.unpackb(data, strict_map_key=False))
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException, msgspec.MsgspecError):
        return
    path = folder() / "other.json"
    path.write_bytes(text)
    words = str(path)
    try:
        other = report_reader.read(str(path), str(folder()))
    except UserError as error:
        words = str(error)
    assert str(path) in words
    if words != str(path):
        return
    for pair in ((_own(), other), (other, _own()), (other, other)):
        compared = [comparison.compare(*pair, margins.load())]
        code = comparison.exit_code(compared, {ChangeVerdict.SLOWER})
        msgspec.json.encode(compared)
        as_text.to_text(compared, chapters.ended(code))
        as_markdown.to_markdown(compared, chapters.ended(code))
        as_junit.to_junit(compared, {ChangeVerdict.SLOWER})
        require_harmless(as_html.to_html(compared, chapters.ended(code)))


def compared_seeds() -> tuple[bytes, ...]:
    baseline = msgspec.json.decode(msgspec.json.encode(_own()))
    return msgpack.packb(msgspec.json.decode(_report())), msgpack.packb(baseline)


@functools.cache
def _report() -> bytes:
    made = template()
    terms = registry.of(made.loaded.stored.configuration).report
    return render(merge(made.loaded, evidence.gather(made.loaded), terms), ReportFormat.JSON)


@functools.cache
def _own() -> Side:
    path = folder() / "own.json"
    path.write_bytes(_report())
    return report_reader.read(str(path), str(folder()))


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.update(name for name, _ in attrs)


def require_harmless(page: bytes) -> None:
    """Make sure that no text has become an element, or left the script or the attribute that it stands in."""
    elements = _Elements()
    elements.feed(page.decode())
    assert MARKED not in elements.attributes, "a text has become an element"
