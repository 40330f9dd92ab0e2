"""Holds the story that a run tells against what was done to it. Reads the journal, the results and the report alone.

    journal.gpj ─ reader ─▶ Story ─┬─ results   each exactly once, whole, and none that nobody measured
                                   ├─ attempts  no more at a cell than its failures allow
                                   ├─ gangs     a cell on several devices is one launch, and the right member is blamed
    report.json ───────────────────┼─ cells     every planned one, with the status that the journal bears out
                                   ├─ agreement it says what journal and plan say, and so does its copy
    Ledger (what was done) ────────┼─ names     every failure has its fault, every fault its failure or its result
                                   └─ endings   every process of the orchestrator ended as it should

Each function returns a sentence for each thing that is wrong.
"""

import hashlib
import json
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack

from tests.e2e.chaos import agreement, attempts, endings, gangs, reader
from tests.e2e.chaos.kinds import DIED, ENDED_BY_SIGNAL, INTERRUPTED, KINDS, PLANTED, RETRIES, SIGNALS, Deed, Target
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.e2e.chaos.reader import Record
from tests.e2e.chaos.story import Story

_HEARD_S = 3.0
"""A process of the orchestrator that lives on for so long has said what it heard."""


def check(ledger: Ledger) -> list[str]:
    """Everything that is wrong with a run, as sentences; empty for one that kept every promise."""
    try:
        story = Story(reader.read(ledger.folder / "journal.gpj"))
        report = json.loads((ledger.folder / "report.json").read_text())
    except (OSError, ValueError, KeyError, reader.DamagedError) as error:
        return [f"the run cannot be read: {type(error).__name__}: {error}"]
    blocks, wrong = results(story, ledger)
    return [
        *story.wrong,
        *wrong,
        *attempts.too_many(story),
        *gangs.wrong(story, ledger),
        *cells(story, ledger, report),
        *agreement.between(story, ledger, report),
        *names(story, ledger),
        *hits(story, ledger, blocks),
        *endings.wrong(story, ledger, report),
    ]


def results(story: Story, ledger: Ledger) -> tuple[dict[int, int], list[str]]:
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
        path = ledger.folder / "launches" / start["cell"] / str(start["attempt"]) / "result.msgpack"
        data = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(data).hexdigest() != promised:
            wrong.append(f"launch {launch}: its result file is not the one that the journal promised")
            continue
        result = msgpack.unpackb(data)
        blocks[launch] = max(block["end_ns"] for block in result["blocks"])
        wrong += [f"launch {launch}: {words}" for words in _of_another(result, start, ledger)]
        if not start["at_ns"] <= blocks[launch] <= given[0]["at_ns"]:
            wrong.append(f"launch {launch}: its result was not measured between its start and its end")
    wrong += [f"{cell}, round {number}, has {n} results" for (cell, number), n in measured.items() if n > 1]
    return blocks, wrong


def _of_another(result: dict[str, Any], start: Record, ledger: Ledger) -> Iterator[str]:
    """Yield differences between a result and its planned cell. Planted times are 1 ms for each item of the batch."""
    planned, size = ledger.cells.get(start["cell"], {}), start["batch_size"]
    if result["cell"] != planned or start["device"] not in planned.get("devices", ()):
        yield f"its result is that of {result['cell']}"
    if size != planned.get("batch_size") or result["items_per_iteration"] != size:
        yield f"its result is of {result['items_per_iteration']} items, begun with {size}"
    yield from gangs.of_another(result, planned)
    times = struct.unpack(f"<{len(result['series']['iteration']) // 4}f", result["series"]["iteration"])
    told = sum(block["iterations"] for block in result["blocks"])
    if told != len(times) * result.get("group", 1) or set(times) != {float(size)}:
        yield f"its result is of {told} iterations, and its times are {times[:5]} ms"


def cells(story: Story, ledger: Ledger, report: dict[str, Any]) -> Iterator[str]:
    """Cells that are missing, twice, of nobody's plan, or said to be something else than the journal bears out."""
    told = Counter(cell["cell"] for cell in report["cells"])
    yield from (f"{cell} is not in the report" for cell in sorted(ledger.cells.keys() - told.keys()))
    yield from (f"{cell} is in the report, but not in the plan" for cell in sorted(told.keys() - ledger.cells.keys()))
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


def names(story: Story, ledger: Ledger) -> Iterator[str]:
    """Failures that no fault explains, and planted faults that were given another name."""
    own = Counter[str]()
    for launch, end, failure in story.failures():
        category, model = failure["category"], story.model(launch)
        if category in DIED and gangs.all_born(story, ledger, launch):
            yield f"launch {launch} had a process, and was ended with its zygote"
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
        if hit.at_ns > at_ns or not (category in kind.names or (category == INTERRUPTED and kind.ends)):
            continue
        if kind.target is Target.ZYGOTE and hit.life == life and _being_forked(story, ledger, launch, hit):
            return True
        if hit.launch == launch or (kind.target not in {Target.WORKER, Target.ZYGOTE} and hit.life == life):
            return category != INTERRUPTED or life not in story.finished or story.finished[life]["broken"]
    return False


def _being_forked(story: Story, ledger: Ledger, launch: int, hit: Hit) -> bool:
    """Whether a launch without all of its processes waited for the zygote that was hit, and not for the next one."""
    ready, number = story.zygotes[hit.life], story.zygote_of[launch]
    if gangs.all_born(story, ledger, launch) or not number:
        return False
    (since, _), (_, until) = ready[number - 1], [*ready, [0, 2**63]][number]
    return since < hit.at_ns < until


def hits(story: Story, ledger: Ledger, blocks: dict[int, int]) -> Iterator[str]:
    """Faults that left no trace: a worker that measured after it was killed or stopped, a zygote that forked.

    The SIGCONT of a pause undoes a SIGSTOP. An orchestrator that is ending does not speak of its zygote any more.
    """
    paused = {(hit.launch, hit.device) for hit in ledger.hits if KINDS[hit.kind].deed is Deed.PAUSE}
    for hit in ledger.hits:
        kind = KINDS[hit.kind]
        if kind.target is Target.WORKER and kind.names and (hit.launch, hit.device) not in paused:
            if (on_ns := blocks.get(hit.launch or 0, 0) - hit.at_ns) > 0:
                yield f"{hit.kind}: launch {hit.launch} measured on for {on_ns / 1e6:.0f} ms"
        elif hit.kind == "zygote: SIGKILL":
            yield from _forked_by_the_dead(story, hit)
        if not any(
            other.life == hit.life and other.at_ns < hit.at_ns and KINDS[other.kind].ends for other in ledger.hits
        ):
            yield from _unsaid(hit, next(life for life in ledger.lives if life.pid == hit.life))
    yield from _signals(story, ledger)
    for model in ledger.sprung:
        name = PLANTED[ledger.planted[model]]
        launches = [launch for launch in story.start if story.model(launch) == model]
        had = [failure["category"] for launch in launches for end in story.ends[launch] if (failure := end["failure"])]
        if name is not None and not had and not any(launch in launches for launch, _ in paused):
            yield f"{model} did '{ledger.planted[model]}' to itself, and no launch of it failed"


def _signals(story: Story, ledger: Ledger) -> Iterator[str]:
    """Launches on one device that are said to have ended by another signal than they were sent."""
    sent: dict[int, set[int]] = defaultdict(set)
    for hit in ledger.hits:
        if hit.launch is not None and KINDS[hit.kind].names & ENDED_BY_SIGNAL:
            sent[hit.launch].add(KINDS[hit.kind].number)
    for launch, _, failure in story.failures():
        own = SIGNALS.get(ledger.planted.get(story.model(launch), ""))
        allowed = sent[launch] | ({own} if own else set())
        if failure["category"] in ENDED_BY_SIGNAL and allowed and not gangs.several(story, ledger, launch):
            left = story.left.get(launch, {"signal": failure["signal"]})
            said = {failure["signal"], left["signal"]}
            if not said <= allowed or len(said) > 1:
                yield f"launch {launch} was sent {sorted(map(int, allowed))}, and is said to have ended by {said}"


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
    """Yield faults that cost no launch and are missing in the log of an orchestrator that lived on for long enough."""
    said = KINDS[hit.kind].said
    if said and (life.ended_ns - hit.at_ns) / 1e9 > _HEARD_S and said not in life.log.read_text(errors="replace"):
        yield f"{hit.kind}: the log does not say '{said}'"
