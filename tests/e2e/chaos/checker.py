"""Holds the story that a run tells against what was done to it. Reads the journal, the results and the report alone.

    journal.gpj ─ reader ─▶ Story ─┬─ results   each exactly once, whole, and none that nobody measured
    report.json ───────────────────┼─ cells     every planned one, with the status that the journal bears out
    Ledger (what was done) ────────┼─ names     every failure has its fault, every fault its failure or its result
                                   └─ endings   every process of the orchestrator ended as it should

Each function returns a sentence for each thing that is wrong.
"""

import hashlib
import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from tests.e2e.chaos import reader
from tests.e2e.chaos.kinds import INTERRUPTED, KINDS, PLANTED, RETRIES, STOPPED, Deed, Target
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.e2e.chaos.reader import Record

_HEARD_S = 3.0
"""A process of the orchestrator that lives on for so long has said what it heard."""


class Story:
    """A journal, put in order. start, ends, left, spawned: by launch. life_of: launch → PID of who began it."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.start: dict[int, Record] = {}
        self.ends: dict[int, list[Record]] = defaultdict(list)
        self.left: dict[int, Record] = {}
        self.spawned: dict[int, Record] = {}
        self.life_of: dict[int, int] = {}
        self.finished: dict[int, Record] = {}
        self.segments: set[int] = set()
        self.skipped: set[str] = set()
        self.wrong: list[str] = []
        life = 0
        for record in records:
            match record["type"]:
                case "Segment":
                    life = record["pid"]
                    self.segments.add(life)
                case "Start":
                    if record["launch"] in self.start:
                        self.wrong.append(f"launch {record['launch']} begins twice")
                    self.start[record["launch"]], self.life_of[record["launch"]] = record, life
                case "Spawned":
                    self.spawned[record["launch"]] = record
                case "End":
                    self.ends[record["launch"]].append(record)
                case "Left":
                    self.left[record["launch"]] = record
                case "Finished":
                    self.finished[life] = record
                case "Skipped":
                    self.skipped.add(record["model"])
        told = [("ends", [*self.ends]), ("leaves", [*self.left]), ("has a process", [*self.spawned])]
        for what, launches in told:
            self.wrong += [f"launch {one} {what} and never began" for one in launches if one not in self.start]
        self.wrong += [f"launch {one} has no end" for one in self.start if not self.ends[one]]

    def failures(self) -> Iterator[tuple[int, Record, dict[str, Any]]]:
        """Launch, End and failure of every end that is one."""
        for launch, ends in self.ends.items():
            yield from ((launch, end, end["failure"]) for end in ends if end["failure"] is not None)

    def promised(self, launch: int) -> str | None:
        """Hash of the result of a launch; None where there is none, or it was taken back."""
        ends = self.ends[launch]
        result: str | None = ends[-1]["result_sha256"] if ends else None
        return result

    def model(self, launch: int) -> str:
        """Whose cell it is. Names of models here hold no dash."""
        name: str = self.start[launch]["cell"].split("-")[0]
        return name


def check(ledger: Ledger) -> list[str]:
    """Everything that is wrong with a run, as sentences; empty for one that kept every promise."""
    try:
        story = Story(reader.read(ledger.folder / "journal.gpj"))
        report = json.loads((ledger.folder / "report.json").read_text())
    except (OSError, ValueError, KeyError, reader.DamagedError) as error:
        return [f"the run cannot be read: {type(error).__name__}: {error}"]
    blocks, wrong = results(story, ledger.folder)
    return [
        *story.wrong,
        *wrong,
        *cells(story, ledger, report),
        *failures_in(story, report),
        *names(story, ledger),
        *hits(story, ledger, blocks),
        *endings(story, ledger, report),
    ]


def results(story: Story, folder: Path) -> tuple[dict[int, int], list[str]]:
    """When the last block of each result ended; and results that are twice, gone, changed, or of something else."""
    blocks: dict[int, int] = {}
    wrong: list[str] = []
    measured: Counter[tuple[str, int]] = Counter()
    for launch, start in story.start.items():
        given = [end for end in story.ends[launch] if end["result_sha256"] is not None]
        if len(given) > 1:
            wrong.append(f"launch {launch} has {len(given)} results")
        promised = story.promised(launch)
        if promised is None:
            continue
        measured[start["cell"], start["round"]] += 1
        path = folder / "launches" / start["cell"] / str(start["attempt"]) / "result.msgpack"
        data = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(data).hexdigest() != promised:
            wrong.append(f"launch {launch}: its result file is not the one that the journal promised")
            continue
        result = msgpack.unpackb(data)
        blocks[launch] = max(block["end_ns"] for block in result["blocks"])
        known = (result["cell"]["model"], result["cell"]["devices"])
        if known != (story.model(launch), [start["device"]]):
            wrong.append(f"launch {launch}: its result is that of {known}")
        if not start["at_ns"] <= blocks[launch] <= given[0]["at_ns"]:
            wrong.append(f"launch {launch}: its result was not measured between its start and its end")
    wrong += [f"{cell}, round {number}, has {n} results" for (cell, number), n in measured.items() if n > 1]
    return blocks, wrong


def cells(story: Story, ledger: Ledger, report: dict[str, Any]) -> Iterator[str]:
    """Cells that are missing, twice, of nobody's plan, or said to be something else than the journal bears out."""
    told = Counter(cell["cell"] for cell in report["cells"])
    yield from (f"{cell} is not in the report" for cell in sorted(ledger.cells - told.keys()))
    yield from (f"{cell} is in the report, but not in the plan" for cell in sorted(told.keys() - ledger.cells))
    yield from (f"{cell} is {n} times in the report" for cell, n in told.items() if n > 1)
    measured = {story.start[launch]["cell"] for launch in story.start if story.promised(launch)}
    for cell in report["cells"]:
        name, status = cell["cell"], cell["status"]
        if status not in {"ok", "failed"} or (status == "ok") != (name in measured):
            yield f"{name} is '{status}' ({cell['reason']}), with{'' if name in measured else 'out'} a result"
        elif status == "failed" and cell["model_name"] not in story.skipped:
            yield from _given_up_too_early(story, name)


def _given_up_too_early(story: Story, cell: str) -> Iterator[str]:
    """A cell fails for good when its last failure has come more often than it is retried."""
    had = [failure["category"] for launch, _, failure in story.failures() if story.start[launch]["cell"] == cell]
    if not had or had.count(had[-1]) <= RETRIES.get(had[-1], 0):
        yield f"{cell} was given up after {had}"


def failures_in(story: Story, report: dict[str, Any]) -> Iterator[str]:
    """Failures that journal and report tell differently."""
    written = {(launch, failure["category"]) for launch, _, failure in story.failures()}
    told = {(one["launch"], one["category"]) for one in report["failures"] if one["category"] is not None}
    yield from (f"launch {one}, '{what}', is not in the report" for one, what in sorted(written - told))
    yield from (f"launch {one}, '{what}', is in the report alone" for one, what in sorted(told - written))


def names(story: Story, ledger: Ledger) -> Iterator[str]:
    """Failures that no fault explains, and planted faults that were given another name."""
    own = Counter[str]()
    for launch, end, failure in story.failures():
        category, model = failure["category"], story.model(launch)
        if _explained(story, ledger, launch, end["at_ns"], category):
            continue
        if PLANTED.get(ledger.planted.get(model, "")) == category and not own[model]:
            own[model] += 1
        else:
            done = [hit.kind for hit in ledger.hits if hit.launch == launch]
            planted = ledger.planted.get(model)
            yield (
                f"launch {launch} ({model}, planted: {planted}, done to it: {done}) is called '{category}': "
                f"{failure['message']} in {failure['phase']}"
            )


def _explained(story: Story, ledger: Ledger, launch: int, at_ns: int, category: str) -> bool:
    """Whether something was done to the launch, its zygote or its orchestrator that has this name."""
    life = story.life_of[launch]
    for hit in ledger.hits:
        kind = KINDS[hit.kind]
        mine = hit.launch == launch or (kind.target is not Target.WORKER and hit.life == life)
        if mine and hit.at_ns <= at_ns and (category in kind.names or (category == INTERRUPTED and kind.ends)):
            return category != INTERRUPTED or life not in story.finished or story.finished[life]["broken"]
    return False


def hits(story: Story, ledger: Ledger, blocks: dict[int, int]) -> Iterator[str]:
    """Faults that left no trace: a worker that measured after it was killed or stopped, a zygote that forked.

    A worker that was also paused went on with the SIGCONT that ended the pause. An orchestrator that is ending already
    does not speak of its zygote any more.
    """
    paused = {hit.launch for hit in ledger.hits if KINDS[hit.kind].deed is Deed.PAUSE}
    for hit in ledger.hits:
        kind = KINDS[hit.kind]
        if kind.target is Target.WORKER and kind.names and hit.launch not in {None, *paused}:
            if (on_ns := blocks.get(hit.launch or 0, 0) - hit.at_ns) > 0:
                yield f"{hit.kind}: launch {hit.launch} measured on for {on_ns / 1e6:.0f} ms"
        elif hit.kind == "zygote: SIGKILL":
            yield from _forked_by_the_dead(story, hit)
        if not any(
            other.life == hit.life and other.at_ns < hit.at_ns and KINDS[other.kind].ends for other in ledger.hits
        ):
            yield from _unsaid(hit, next(life for life in ledger.lives if life.pid == hit.life))
    for model in ledger.sprung:
        name = PLANTED[ledger.planted[model]]
        launches = [launch for launch in story.start if story.model(launch) == model]
        had = [failure["category"] for launch in launches for end in story.ends[launch] if (failure := end["failure"])]
        if name is not None and not had and paused.isdisjoint(launches):
            yield f"{model} did '{ledger.planted[model]}' to itself, and no launch of it failed"


def _forked_by_the_dead(story: Story, hit: Hit) -> Iterator[str]:
    """Behind the death of a zygote the journal must tell of a new one before a launch that begins later is born."""
    life, renewed = 0, False
    late: set[int] = set()
    for record in story.records:
        match record["type"]:
            case "Segment":
                life = record["pid"]
            case "Start" | "End" if life == hit.life and record["at_ns"] <= hit.at_ns:
                renewed = False
            case "Start" if life == hit.life:
                late.add(record["launch"])
            case "ZygoteStarted" if life == hit.life:
                renewed = True
            case "Spawned" if record["launch"] in late and not renewed:
                yield f"launch {record['launch']} was forked by a zygote that had been killed"


def _unsaid(hit: Hit, life: Life) -> Iterator[str]:
    """What costs no launch stands in the log, if the orchestrator lived on for long enough."""
    said = KINDS[hit.kind].said
    if said and (life.ended_ns - hit.at_ns) / 1e9 > _HEARD_S and said not in life.log.read_text(errors="replace"):
        yield f"{hit.kind}: the log does not say '{said}'"


def endings(story: Story, ledger: Ledger, report: dict[str, Any]) -> Iterator[str]:
    """Processes of the orchestrator that ended as nobody made them, left a launch behind, or said what is not so."""
    for number, life in enumerate(ledger.lives):
        done = [KINDS[hit.kind] for hit in ledger.hits if hit.life == life.pid]
        allowed = {0, 4}
        if life.pid not in story.segments or life.pid in story.finished:  # not yet, or no more, is a signal held back
            allowed |= {-one.number for one in done if one.names == STOPPED}
        if life.pid not in story.segments and any(one.number == signal.SIGINT for one in done):
            allowed |= {1}  # Python itself, before its first line of ours
        allowed |= (
            {-signal.SIGKILL}
            if any(one.number == signal.SIGKILL and one.target is Target.ORCHESTRATOR for one in done)
            else set()
        )
        allowed |= {5} if any(one.deed is Deed.FULL_DISK and one.ends for one in done) else set()
        if life.code not in allowed:
            yield f"life {number} ended with {life.code} after {[one.name for one in done]}: {_last_words(life)}"
        if life.code in {0, 4} and life.pid in story.finished:
            mine = [launch for launch, pid in story.life_of.items() if pid == life.pid and launch in story.spawned]
            yield from (f"launch {one} was never seen to leave" for one in mine if one not in story.left)
    yield from _verdict(story, ledger.lives[-1], report)


def _verdict(story: Story, last: Life, report: dict[str, Any]) -> Iterator[str]:
    failed = any(cell["status"] != "ok" for cell in report["cells"])
    said = report["verdict"]["exit_code"]
    if said != (4 if failed else 0) or last.code != said:
        yield f"the run ended with {last.code}, its report says {said}, and {'not ' if failed else ''}every cell is ok"
    if last.pid not in story.finished and not story.finished:
        yield "nobody wrote that the run is over"


def _last_words(life: Life) -> str:
    return " | ".join(life.log.read_text(errors="replace").splitlines()[-3:])[-1500:]
