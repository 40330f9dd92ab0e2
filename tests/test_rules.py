"""The rules of CONTRIBUTING.md that a machine can hold and no linter does: who may import whom, what is never used."""

import ast
import functools
import gc
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("protocol", "worker", "orchestrator")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAY_IMPORT = {"protocol": {"protocol"}, "worker": {"worker", "protocol"}, "orchestrator": {"orchestrator", "protocol"}}
FRAMEWORKS = {"torch", "torchvision", "transformers", "safetensors", "jax"}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "multiprocessing"}
"""Modules that pickle, or hand objects over by pickling them."""
LOADING_MODULES = {"torch", "np", "numpy"}
"""Their `load` may unpickle."""
FORKS = {"fork", "forkpty"}
FORKING_MODULES = {"os", "posix", "pty"}
SEARCHES = {"match", "search", "fullmatch", "findall", "count", "index", "startswith", "endswith", "partition", "split"}
"""Methods and functions whose arguments are compared with a text."""
WORD = re.compile(r"(?<![:\w./\\-])[A-Za-z][a-z]+(?![\w/-])")
"""A word of prose: no number, name with digits, path, option or abbreviation in capitals."""
WILDCARD = re.compile(r"\.[*+]|\[\^.*?\][*+]|[|\n<>]")
MOST_WORDS = 3
"""A longer text in an assertion is a sentence."""


@dataclass(frozen=True)
class Source:
    """A file. name: its path below the root."""

    name: str
    text: str
    tree: ast.Module

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        gc.disable()  # millions of nodes stay: to look for garbage among them takes as long as to find them
        found = list(ast.walk(self.tree))
        gc.enable()
        return found

    @functools.cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Every imported module with its line."""
        by_call = "import_module" in self.text or "__import__" in self.text
        return list(imports(self.nodes if by_call else statements(self.tree)))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node below this one outside expressions, of which most nodes are parts."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


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
    return Source(str(path.relative_to(ROOT)), text, ast.parse(text, str(path)))


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
    for node in source.nodes if ".load(" in source.text else ():
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


def compared_values(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the values that the assertions of a test, and the `match` of pytest.raises, compare."""
    for node in nodes:
        match node:
            case ast.Assert(test=test):
                for part in ast.walk(test):
                    match part:
                        case ast.Compare(left=left, comparators=others):
                            yield from (left, *others)
                        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in SEARCHES:
                            yield from args
            case ast.Call(func=ast.Attribute(attr="raises"), keywords=keywords):
                yield from (word.value for word in keywords if word.arg == "match")


def parts_of(value: ast.expr) -> Iterator[ast.expr]:
    """Yield a value and its parts. Of a call only the function, and so the text in `text.format()`, but no argument."""
    yield value
    if isinstance(value, ast.Call):
        yield from parts_of(value.func)
    else:
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield from parts_of(part)


def named_values(
    nodes: Iterable[ast.AST], constants: Iterable[tuple[str, ast.expr]] = ()
) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with the values that they stand for: variables, loops over literals, and parameters of a test.

    constants: of the module, for loops and parameters whose rows are one of them.
    """
    literals = dict(constants)
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from columns(ast.unparse(target), [value])
            case (
                ast.For(target=names, iter=rows)
                | ast.comprehension(target=names, iter=rows)
                | ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, rows])
            ):
                table = literals.get(rows.id) if isinstance(rows, ast.Name) else rows
                if isinstance(table, ast.Tuple | ast.List):
                    yield from columns(ast.unparse(names), table.elts)


def columns(names: str, rows: Iterable[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    found = re.findall(r"\w+", names)
    for row in rows:
        match row:
            case ast.Tuple(elts=cells) | ast.Call(func=ast.Attribute(attr="param"), args=cells) if len(found) > 1:
                yield from zip(found, cells, strict=False)
            case _:
                yield from ((name, row) for name in found)


def inputs(source: Source) -> set[str]:
    """Return the names of arguments of calls outside assertions: these texts are the test's own, not gpubench's."""
    asserted = {id(part) for node in source.nodes if isinstance(node, ast.Assert) for part in ast.walk(node)}
    return {
        part.id
        for node in source.nodes
        if isinstance(node, ast.Call) and id(node) not in asserted and not is_comparison(node)
        for argument in (*node.args, *(word.value for word in node.keywords))
        for part in parts_of(argument)
        if isinstance(part, ast.Name)
    }


def is_comparison(call: ast.Call) -> bool:
    """Return whether a call compares its arguments with a text, or prepares a pattern or the cases of a test."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in SEARCHES | {"raises", "escape", "parametrize"}


def is_sentence(value: object) -> bool:
    return any(len(WORD.findall(part)) > MOST_WORDS for part in WILDCARD.split(str(value)))


def constants(source: Source) -> list[tuple[str, ast.expr]]:
    """Return the constants of a module with their values, without the inputs of its tests."""
    values = list(named_values(source.tree.body))
    if not any(
        isinstance(part, ast.Constant) and is_sentence(part.value) for _, value in values for part in parts_of(value)
    ):
        return values
    own = inputs(source)
    return [(name, value) for name, value in values if name not in own]


def pinned_sentences(source: Source) -> Iterator[str]:
    """Places where a test compares with prose: more than MOST_WORDS words between two wildcards of a pattern."""
    of_module = constants(source)
    for function in source.nodes:
        if isinstance(function, ast.FunctionDef):
            nodes = [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Assert | ast.Call | ast.Assign | ast.AnnAssign | ast.For | ast.comprehension)
            ]
            values = [*of_module, *named_values(nodes, of_module)]
            compared = [part for value in compared_values(nodes) for part in parts_of(value)]
            resolved: set[str] = set()
            while names := {part.id for part in compared if isinstance(part, ast.Name)} - resolved:
                resolved |= names
                compared += [part for name, value in values if name in names for part in parts_of(value)]
            for text in {part.value: part for part in compared if isinstance(part, ast.Constant)}.values():
                if is_sentence(text.value):
                    yield f"{source.name}:{text.lineno} {text.value!r}"


def forks(source: Source) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in FORKS and ast.unparse(node.value) in FORKING_MODULES)
        or (
            isinstance(node, ast.ImportFrom)
            and node.module in FORKING_MODULES
            and FORKS & {alias.name for alias in node.names}
        )
        for node in (source.nodes if "fork" in source.text else ())
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


def test_only_golden_files_hold_sentences() -> None:
    """Other tests compare values, categories and codes, so that whoever rewrites a message changes no test.

    Sentences are kept in tests/golden; the chaos checker shares no code with the product, and so has words of its own.
    """
    own_words = (ROOT / "tests/golden", ROOT / "tests/e2e/chaos")
    sources = [parse(path) for path in TESTS if not any(path.is_relative_to(folder) for folder in own_words)]
    assert [found for source in sources for found in sorted(set(pinned_sentences(source)))] == []


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
