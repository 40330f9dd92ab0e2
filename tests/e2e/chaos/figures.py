"""What a campaign of chaos found, as figures: faults and times to the verdict by kind, sizes of the logs.

Time to the verdict ends, for a worker, with the end of its launch in the journal; for zygote and telemetry, with the
line of the log; for the orchestrator, with its end or the first words of the next one.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tests.e2e.chaos import gangs, reader
from tests.e2e.chaos.kinds import KINDS, PLANTED, Deed, Target
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.e2e.chaos.story import Story


@dataclass
class Figures:
    """seconds: to the verdict, by kind. counts: faults, by kind. on_several: launches that were on several devices."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    storms: int = 0
    lives: int = 0
    launches: int = 0
    on_several: int = 0
    results: int = 0
    journal_bytes: list[int] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        for kind, number in other.counts.items():
            self.counts[kind] += number
        for kind, times in other.seconds.items():
            self.seconds[kind] += times
        for name in ("storms", "lives", "launches", "on_several", "results", "journal_bytes", "log_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def of(ledger: Ledger) -> Figures:
    """The figures of one storm. Its journal must be readable."""
    story = Story(reader.read(ledger.folder / "journal.gpj"))
    found = Figures(storms=1, lives=len(ledger.lives), launches=len(story.start))
    found.on_several = sum(gangs.several(story, ledger, launch) for launch in story.start)
    found.results = sum(story.promised(launch) is not None for launch in story.start)
    for kind, seconds in (*_struck(ledger, story), *_planted(ledger, story)):
        found.counts[kind] += 1
        found.seconds[kind] += [] if seconds is None else [seconds]
    found.journal_bytes.append((ledger.folder / "journal.gpj").stat().st_size)
    logs = [*ledger.folder.rglob("*.log"), *(life.log for life in ledger.lives)]
    found.log_bytes.append(sum(log.stat().st_size for log in logs))
    return found


def table(figures: Figures) -> str:
    """Markdown, ready for docs/reliability.md."""
    lines = [
        "| fault | times | verdict, median | longest |",
        "|---|---|---|---|",
        *(_row(kind, figures.counts[kind], figures.seconds) for kind in sorted(figures.counts)),
    ]
    total = sum(figures.counts.values())
    sizes = f"{_kib(figures.journal_bytes)} KiB of journal and {_kib(figures.log_bytes)} KiB of logs at most"
    lines += [
        "",
        f"{total} faults in {figures.storms} runs, {figures.lives} processes of the orchestrator, {figures.launches} "
        f"launches ({figures.on_several} on several devices), {figures.results} results; {sizes} in one run.",
    ]
    return "\n".join(lines)


def _row(kind: str, times: int, seconds: Mapping[str, list[float]]) -> str:
    if not seconds.get(kind):
        return f"| {kind} | {times} | - | - |"
    return f"| {kind} | {times} | {statistics.median(seconds[kind]):.2f} s | {max(seconds[kind]):.2f} s |"


def _kib(sizes: Iterable[int]) -> int:
    return round(max(sizes, default=0) / 1024)


def _struck(ledger: Ledger, story: Story) -> Iterator[tuple[str, float | None]]:
    for hit in ledger.hits:
        kind = KINDS[hit.kind]
        life = next(one for one in ledger.lives if one.pid == hit.life)
        if kind.said:
            yield hit.kind, _said(hit, life, kind.said)
        elif kind.target is Target.ORCHESTRATOR and kind.deed is not Deed.PAUSE:
            yield hit.kind, (life.ended_ns - hit.at_ns) / 1e9 if life.code != -9 else _resumed(hit, story)
        elif hit.launch is not None and kind.names:
            yield _named(hit, ledger, story), _ended(story, hit.launch, hit.at_ns, kind.names)
        else:
            yield _named(hit, ledger, story), None


def _named(hit: Hit, ledger: Ledger, story: Story) -> str:
    """The kind of a fault, with workers of a gang apart."""
    one_of_several = hit.launch is not None and gangs.several(story, ledger, hit.launch)
    return hit.kind.replace(Target.WORKER, "member of a gang") if one_of_several else hit.kind


def _planted(ledger: Ledger, story: Story) -> Iterator[tuple[str, float | None]]:
    for model, at_ns in ledger.sprung.items():
        do = ledger.planted[model]
        launches = [launch for launch in story.start if story.model(launch) == model]
        names = frozenset(filter(None, [PLANTED[do]]))
        times = [] if at_ns is None else [_ended(story, launch, at_ns, names) for launch in launches]
        whose = "member of a gang" if model in ledger.planted_on else "cell"
        yield f"{whose}: {do}", next((one for one in times if one is not None), None)


def _ended(story: Story, launch: int, at_ns: int, names: frozenset[str]) -> float | None:
    for end in story.ends[launch]:
        if end["failure"] is not None and end["failure"]["category"] in names:
            return float(end["at_ns"] - at_ns) / 1e9
    return None


def _resumed(hit: Hit, story: Story) -> float | None:
    """Until the next process of the orchestrator has begun to work."""
    later = [one["monotonic_ns"] for one in story.records if one["type"] == "Segment"]
    return min(((at - hit.at_ns) / 1e9 for at in later if at > hit.at_ns), default=None)


def _said(hit: Hit, life: Life, words: str) -> float | None:
    for line in life.log.read_text(errors="replace").splitlines():
        if words in line and line.startswith("{"):
            at = datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()
            if at >= hit.wall:
                return at - hit.wall
    return None
