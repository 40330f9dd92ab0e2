"""The rules of CONTRIBUTING.md that a machine can hold and no linter does: who may import whom, what is never used."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("protocol", "worker", "orchestrator")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAY_IMPORT = {"protocol": {"protocol"}, "worker": {"worker", "protocol"}, "orchestrator": {"orchestrator", "protocol"}}
FRAMEWORKS = {"torch", "torchvision", "transformers", "safetensors"}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "multiprocessing"}
"""Modules that pickle, or hand objects over by pickling them."""
LOADING_MODULES = {"torch", "np", "numpy"}
"""Their `load` may unpickle."""
FORKS = {"fork", "forkpty"}
FORKING_MODULES = {"os", "posix", "pty"}


class Source(NamedTuple):
    name: str
    """Path below the root."""
    text: str
    nodes: list[ast.AST]
    imports: list[tuple[str, int]]
    """Every imported module with its line."""


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield every imported module and its line, wherever in the file, `import_module("…")` included."""
    for node in nodes:
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


@functools.cache
def parse(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text, str(path))))
    return Source(str(path.relative_to(ROOT)), text, nodes, list(imports(nodes)))


def forbidden_imports(source: Source) -> Iterator[str]:
    """Imports across the rooms, and of a framework outside worker/."""
    room = source.name.split("/")[0]
    forbidden = {*ROOMS, "tests"} - MAY_IMPORT[room] | (FRAMEWORKS if room != "worker" else set())
    yield from (
        f"{source.name}:{line} imports {name}" for name, line in source.imports if name.split(".")[0] in forbidden
    )


def pickling(source: Source) -> Iterator[str]:
    """Modules that pickle, relative imports that would hide one, and loads of arrays that may unpickle."""
    for name, line in source.imports:
        if name.split(".")[0] in PICKLES or name[0] == ".":
            yield f"{source.name}:{line} imports {name}"
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr="load"), keywords=keywords):
                safe = any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in keywords)
                if module in LOADING_MODULES and not safe:
                    yield f"{source.name}:{node.lineno} {ast.unparse(node)}"


def unexplained_silences(source: Source) -> Iterator[str]:
    """Silenced checks that do not name what they silence, or do not say on the same line why."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for mark in ("# " + "noqa", "# type: " + "ignore"):
            _, found, rest = line.partition(mark)
            # What follows the codes: a second comment or a dash, and words.
            code, _, reason = rest.replace(" - ", " # ").partition(" # ")
            if found and (code.strip() in {"", ":"} or len(reason.split()) < 2):
                yield f"{source.name}:{number} {line.strip()}"


def forks(source: Source) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in FORKS and ast.unparse(node.value) in FORKING_MODULES)
        or (
            isinstance(node, ast.ImportFrom)
            and node.module in FORKING_MODULES
            and FORKS & {alias.name for alias in node.names}
        )
        for node in source.nodes
    )


def test_rooms_import_only_what_they_may() -> None:
    """Protocol imports nothing of ours, worker and orchestrator protocol alone, and the parent no framework."""
    violations = [violation for path in SOURCES for violation in forbidden_imports(parse(path))]
    assert not violations, "\n".join(violations)


def test_nothing_is_pickled() -> None:
    """No module that pickles, no relative import that would hide one, and no torch.load without weights_only."""
    violations = [violation for path in [*SOURCES, *TESTS] for violation in pickling(parse(path))]
    assert not violations, "\n".join(violations)


def test_silenced_checks_have_a_reason() -> None:
    """A noqa or type: ignore names what it silences, and says on the same line why."""
    violations = [violation for path in [*SOURCES, *TESTS] for violation in unexplained_silences(parse(path))]
    assert not violations, "\n".join(violations)


def test_tests_state_the_behaviour() -> None:
    """Each has a docstring; helpers of tests need none."""
    tests = [
        (path, node)
        for path in TESTS
        for node in parse(path).nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert [f"{path}:{node.name}" for path, node in tests if not ast.get_docstring(node)] == []


def test_only_the_zygote_forks() -> None:
    """Nothing but worker/zygote.py calls os.fork: a fork of a process with threads or CUDA is broken."""
    assert [source.name for source in map(parse, SOURCES) if forks(source)] == ["worker/zygote.py"]


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
