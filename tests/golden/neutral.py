"""Take out of a recorded run what tells of the machine and the moment: host, processor, paths, processes, times."""

import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tests.fakes.node import ROOT
from tests.golden.stored_files import Change, rewrite

CREATED: Final = 1_705_314_600.0
"""2024-01-15T10:30:00Z: when every golden run was made."""
BOOT: Final = "11111111-2222-3333-4444-555555555555"
_RUN_ID: Final = re.compile(r"\d{8}-\d{6}-[\da-f]{4,6}")
_WALL: Final = frozenset({"created", "wall", "at_s"})
"""Names of times on the calendar."""


def neutralise(source: Path, target: Path, number: int) -> None:
    """Write the run in `source` to `target`. number: of the golden run, for its id."""
    rewrite(source, target, _change(source, number))


def _change(source: Path, number: int) -> Change:
    stored = yaml.safe_load((source / "run.yaml").read_bytes())
    words = {
        str(source.parent): "/data/runs",
        str(source.parent.parent): "/data",
        str(ROOT): "/opt/gpubench",
        str(ROOT.resolve()): "/opt/gpubench",
        sys.prefix: "/opt/python",
        sys.base_prefix: "/usr",
        str(Path.home()): "/home/user",
    }
    if _RUN_ID.fullmatch(stored["run_id"]):
        words[stored["run_id"]] = f"20240115-103000-{number:06x}"
    processors = {one["name"] for one in stored["devices"] if one["kind"] == "cpu"}
    processors |= set(re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    words |= dict.fromkeys(processors - {"a processor"}, "Some Processor")
    longest_first = sorted(words.items(), key=lambda pair: -len(pair[0]))
    begun: list[float] = []

    def shifted(seconds: float) -> float:
        begun.append(seconds)
        return CREATED + seconds - begun[0]

    def changed(name: str, value: Any) -> Any:
        match value:
            case dict():
                return {neutral(key): changed(key, one) for key, one in value.items()}
            case list() | tuple():
                return [changed(name, one) for one in value]
            case str() if name == "boot_id":
                return BOOT
            case str() if name == "hostname":
                return "node-01"
            case str():
                return neutral(value)
            case int() | float() if name in _WALL:
                return shifted(value)
            case int() if name == "pid":
                return 4711
            case int() if name == "start_ticks":
                return 1
            case _:
                return value

    def neutral(text: Any) -> Any:
        for found, written in longest_first if isinstance(text, str) else ():
            text = text.replace(found, written)
        return text

    return lambda _kind, value: changed("", value)
