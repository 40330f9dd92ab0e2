"""A journal as a story: what was begun, by whom, and how it ended."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.e2e.chaos.reader import Record

_NEVER = 2**63


class Story:
    """A journal, put in order. start, ends, left: by launch. members: launch → its processes, one for each device.

    life_of: launch → PID of its orchestrator. zygotes: by that PID, the time before and after each was ready.
    zygote_of: launch → how many of them there had been when it began.
    """

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.start: dict[int, Record] = {}
        self.ends: dict[int, list[Record]] = defaultdict(list)
        self.left: dict[int, Record] = {}
        self.members: dict[int, list[Record]] = defaultdict(list)
        self.life_of: dict[int, int] = {}
        self.finished: dict[int, Record] = {}
        self.segments: set[int] = set()
        self.zygote_of: dict[int, int] = {}
        self.zygotes: dict[int, list[list[int]]] = defaultdict(list)
        self.skipped: set[str] = set()
        self.wrong: list[str] = []
        life = latest = 0
        unsure: list[list[int]] = []
        for record in records:
            latest = record.get("at_ns", latest)
            while "at_ns" in record and unsure:
                unsure.pop()[1] = latest
            match record["type"]:
                case "Segment":
                    life = record["pid"]
                    latest = record["monotonic_ns"]
                    self.segments.add(life)
                case "ZygoteStarted":
                    self.zygotes[life].append([latest, _NEVER])
                    unsure.append(self.zygotes[life][-1])
                case "Start":
                    if record["launch"] in self.start:
                        self.wrong.append(f"launch {record['launch']} begins twice")
                    self.start[record["launch"]], self.life_of[record["launch"]] = record, life
                    self.zygote_of[record["launch"]] = len(self.zygotes[life])
                case "Spawned":
                    self.members[record["launch"]].append(record)
                case "End":
                    self.ends[record["launch"]].append(record)
                case "Left":
                    self.left[record["launch"]] = record
                case "Finished":
                    self.finished[life] = record
                case "Skipped":
                    self.skipped.add(record["model"])
        told = [("ends", [*self.ends]), ("leaves", [*self.left]), ("has a process", [*self.members])]
        for what, launches in told:
            self.wrong += [f"launch {one} {what} and never began" for one in launches if one not in self.start]
        self.wrong += [f"launch {one} has no end" for one in self.start if not self.ends[one]]

    def failures(self) -> Iterator[tuple[int, Record, dict[str, Any]]]:
        for launch, ends in self.ends.items():
            yield from ((launch, end, end["failure"]) for end in ends if end["failure"] is not None)

    def promised(self, launch: int) -> str | None:
        """Hash of the result of a launch; None where there is none, or it was taken back."""
        ends = self.ends[launch]
        result: str | None = ends[-1]["result_sha256"] if ends else None
        return result

    def model(self, launch: int) -> str:
        """Return the model of a launch's cell. Names of models here have no dash."""
        name: str = self.start[launch]["cell"].split("-")[0]
        return name
