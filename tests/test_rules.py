"""The rules of CONTRIBUTING.md that a machine can hold: who may import whom, what is never used, and clean linters."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("protocol", "worker", "orchestrator")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAY_IMPORT = {"protocol": {"protocol"}, "worker": {"worker", "protocol"}, "orchestrator": {"orchestrator", "protocol"}}
FRAMEWORKS = {"torch", "torchvision", "transformers", "safetensors"}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "multiprocessing"}
"""Modules that pickle, or hand objects over by pickling them."""


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this Python at the root."""
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def names(path: Path) -> list[str]:
    """Paths as pytest shows them."""
    return str(path.relative_to(ROOT))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported module and its line, wherever in the file, `import_module("…")` included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, node.lineno) for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                yield module, node.lineno
            case ast.ImportFrom(level=level) if level:
                yield "." * level, node.lineno
            case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"), args=[first, *_]):
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value, node.lineno


def parsed(path: Path) -> ast.Module:
    """The file's syntax."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_rooms_import_only_what_they_may(path: Path) -> None:
    """Protocol imports nothing of ours, worker and orchestrator protocol alone, and the parent no framework."""
    room = path.relative_to(ROOT).parts[0]
    forbidden = {*ROOMS, "tests"} - MAY_IMPORT[room] | (FRAMEWORKS if room != "worker" else set())
    wrong = [f"{path}:{line} imports {name}" for name, line in imports(parsed(path)) if name.split(".")[0] in forbidden]
    assert wrong == []


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=names)
def test_nothing_is_pickled(path: Path) -> None:
    """No module that pickles, no relative import that would hide one, and no torch.load without weights_only."""
    tree = parsed(path)
    wrong = [f"{path}:{line} {name}" for name, line in imports(tree) if name.split(".")[0] in PICKLES or name[0] == "."]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"torch.load", "np.load", "numpy.load"}:
            safe = any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords)
            wrong += [] if safe else [f"{path}:{node.lineno} {ast.unparse(node)}"]
    assert wrong == []


def test_only_the_zygote_forks() -> None:
    """Nothing but worker/zygote.py calls os.fork: a fork of a process with threads or CUDA is broken."""
    forks = {"fork", "forkpty"}
    callers = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if (
            isinstance(node, ast.Attribute) and node.attr in forks and ast.unparse(node.value) in {"os", "posix", "pty"}
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module in {"os", "posix", "pty"}
            and forks & {a.name for a in node.names}
        )
    }
    assert callers == {"worker/zygote.py"}


def test_orchestrator_never_loads_a_framework() -> None:
    """With every module of the parent imported, no framework is in the process."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if path.is_relative_to(ROOT / "orchestrator") and path.name != "__main__.py"
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(sorted({FRAMEWORKS!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_help_loads_nothing_slow() -> None:
    """--help answers before any heavy library is imported."""
    code = (
        "import sys\n"
        "import orchestrator.cli.commands\n"
        "slow = {'torch', 'pandas', 'numpy', 'scipy', 'rich', 'structlog', 'zmq', 'pynvml', 'jinja2', 'yaml'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=names)
def test_silenced_checks_have_a_reason(path: Path) -> None:
    """A noqa or type: ignore names what it silences, and says on the same line why."""
    wrong = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for mark in ("# " + "noqa", "# type: " + "ignore"):
            _, found, rest = line.partition(mark)
            # What follows the codes: a second comment or a dash, and words.
            code, _, reason = rest.replace(" - ", " # ").partition(" # ")
            if found and (code.strip() in {"", ":"} or len(reason.split()) < 2):
                wrong.append(f"{path}:{number}")
    assert wrong == []


def test_ruff_finds_nothing() -> None:
    """The linter is content."""
    done = tool("ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_would_format_nothing() -> None:
    """Every file is formatted."""
    done = tool("ruff", "format", "--check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_mypy_finds_nothing() -> None:
    """Types are strict in all three rooms."""
    done = tool("mypy", "--cache-dir", os.environ.get("MYPY_CACHE_DIR", ".mypy_cache"))
    assert done.returncode == 0, done.stdout + done.stderr
