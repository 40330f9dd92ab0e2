"""The layers of docs/architecture.md: a room of the orchestrator imports only rooms in lines below its own."""

import ast
from pathlib import Path

from tests.test_rules import ROOT, statements

LAYERS = (
    ("cli",),
    ("doctor", "selftest"),
    ("run_reports",),
    ("kinds",),
    ("history",),
    ("compare",),
    ("terminal", "metrics"),
    ("engine",),
    ("report",),
    ("analysis",),
    ("figures",),
    ("state",),
    ("store",),
    ("plan",),
    ("gpu",),
    ("config",),
    ("stats", "system"),
    ("errors",),
)
"""From the top down. Rooms of one line do not import each other, and kinds of run do not either."""

DEPTH = {room: depth for depth, rooms in enumerate(LAYERS) for room in rooms}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the orchestrator that a file imports, deferred imports and those for annotations included."""
    names = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in below}
    return names & known.keys()


def room(module: str) -> str:
    """The room of a module; empty for those at the root that start the program."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in DEPTH else ""


def kind(module: str) -> str:
    """The kind of run that a module belongs to, empty for any other module, and for the registry of all kinds."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["kinds"] and len(parts) > 2 and parts[2] != "registry" else ""


def breaks(module: str, other: str) -> bool:
    own, theirs = room(module), room(other)
    if not own or not theirs:
        return False
    if own == theirs:
        return bool(kind(module) and kind(other) and kind(module) != kind(other))
    return DEPTH[theirs] <= DEPTH[own]


def test_every_room_has_a_layer() -> None:
    """A new folder below orchestrator/ needs its place in the order."""
    rooms = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert rooms - {"__pycache__"} == DEPTH.keys() - {"errors"}


def test_nothing_is_loose_at_the_root() -> None:
    """Besides what starts the program and the errors that users see, every module has a room."""
    assert {path.name for path in (ROOT / "orchestrator").glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}


def test_imports_follow_the_layers() -> None:
    """A room imports only what lies below it; the imports that do not are printed."""
    known = modules()
    broken = {(module, other) for module in known for other in imported(known[module], known) if breaks(module, other)}
    told = sorted(f"{module} imports {other}" for module, other in broken)
    assert told == [], "\n".join(["these imports break the layers:", *told])
