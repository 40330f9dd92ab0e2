"""Find the user's own code without importing it, and check the permission to run it.

    "net.py:Net" ──▶ /home/me/net.py:Net                        a file: --allow-code
    "pkg.module:build" ──▶ pkg, in a folder of --pythonpath     a folder of the user's: --allow-code
    "transformers.BertModel" ──▶ transformers, installed        no permission needed

A configuration may come from somebody else, so only the command line gives the permission, never a file.
"""

import ast
import builtins
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

from orchestrator.config.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from orchestrator.system import safe_read
from protocol.own import OwnModel

ROOMS: Final = frozenset({"protocol", "worker", "orchestrator"})
_LISTS: Final = (".yaml", ".yml")
_INPUTS: Final = "get_example_inputs"
_INSTALL: Final = "Install it, or name its folder with --pythonpath."
_NO_MODULES: Final = (ast.Constant, ast.Dict, ast.JoinedStr, ast.Lambda, ast.List, ast.Tuple)
_ONLY_RUNNING_TELLS: Final = frozenset({"*", "__getattr__"})
"""Names that let a file provide any other name. Only an import can show the names of such a file."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class NotAllowedError(ConfigError):
    """The user's own code, without the permission (--allow-code) to run it."""


@dataclass(frozen=True)
class Search:
    """Places to look for code. base: folder that relative paths start from. allowed: whether --allow-code is given.

    pythonpath: absolute folders of --pythonpath, searched for packages before the installed ones.
    """

    base: Path
    pythonpath: tuple[str, ...]  # absolute folders
    allowed: bool

    def locate(self, text: str, origin: str) -> OwnModel:
        """Find the code `text`, "net.py:Net" or "pkg.module:Net", without importing it. origin: its place, for errors.

        Raises ConfigError if the file, its name Net, a package that it imports, or the package pkg is missing. What pkg
        contains is not checked. Raises NotAllowedError without --allow-code, unless pkg is an installed package.
        """
        where, _, name = text.rpartition(":")
        if text.endswith(_LISTS):
            raise ConfigError(f"{origin}: {text} is no model. If it describes models, use --models-file {text}")
        if _looks_like_a_file(text):
            return self._in_file(text, where, name, origin)
        dotted = text.replace(":", ".")
        if text.count(":") > 1 or not _DOTTED.fullmatch(dotted) or "." not in dotted:
            raise ConfigError(f"{origin}: {text!r} is neither package.module:Name nor path/to/file.py:Name")
        self._find_package(text, dotted.split(".")[0], origin)
        # A folder that is searched first can replace any package.
        return OwnModel(target=text, pythonpath=self.pythonpath if self.allowed else (), allowed=self.allowed)

    def _in_file(self, text: str, where: str, name: str, origin: str) -> OwnModel:
        if not where or not _DOTTED.fullmatch(name):
            raise ConfigError(
                f"{origin}: {text}: name a class or function of the file, such as {where or text}:ClassName"
            )
        path = Path(os.path.normpath(self.base / Path(where).expanduser()))
        if path.suffix != ".py":
            raise ConfigError(f"{origin}: {where} is not a Python file: its name does not end in .py")
        tree = _tree(path, origin)
        defined, imported = _names_of(tree)
        names = {*defined, *imported}
        if name.partition(".")[0] not in names and not names & _ONLY_RUNNING_TELLS:
            near = did_you_mean(name, names) or f" It defines {', '.join(sorted({*defined})) or 'nothing'}."
            raise ConfigError(f"{origin}: {path} defines no {name}.{near}")
        package, root = _package_of(path)
        _refuse_our_rooms(package, text, origin)
        _require_imports(tree, (str(root), *self.pythonpath), f"{origin}: {path}")
        self._require_permission(text, str(path), origin)
        return OwnModel(target=f"{path}:{name}", pythonpath=self.pythonpath, allowed=True)

    def _find_package(self, text: str, package: str, origin: str) -> None:
        _refuse_our_rooms(package, text, origin)
        spec = _find(package, self.pythonpath)
        if spec is None:
            here = self.base / package
            hint = (
                f"It is in {self.base}: add --pythonpath {self.base}."
                if safe_read.is_folder(here) or safe_read.is_there(here.with_suffix(".py"))
                else _INSTALL
            )
            raise ConfigError(f"{origin}: {text}: there is no package '{package}'. {hint}")
        place = _place(spec)
        if not _installed(place):
            self._require_permission(text, str(Path(place).parent), origin)

    def _require_permission(self, text: str, place: str, origin: str) -> None:
        if not self.allowed:
            raise NotAllowedError(
                f"{origin}: to measure {text}, gpubench must run code in {place}. Nothing was started. If you trust "
                "the code, add --allow-code to the command line."
            )


def folders(paths: Iterable[str], current: Path, origin: str) -> tuple[str, ...]:
    """Make the folders of --pythonpath absolute, from the folder `current`. Raises ConfigError for a missing one.

    origin: where the user gave `paths`, begins the error message.
    """
    found = [os.path.normpath(current / Path(word).expanduser()) for word in paths]
    for folder in found:
        if not safe_read.is_folder(Path(folder)):
            raise ConfigError(f"{origin}: {folder}: there is no such folder to search for packages")
    return tuple(found)


def _looks_like_a_file(text: str) -> bool:
    return "/" in text or text.endswith(_LISTS) or ".py" in (text[-3:], text.rpartition(":")[0][-3:])


def is_own(word: str) -> bool:
    """Whether `word`, a value of -m, names the user's own code, not a model that ships."""
    return ":" in word or _looks_like_a_file(word)


def in_a_folder_of_the_users(package: str, pythonpath: tuple[str, ...]) -> bool:
    """Whether a launch would import `package` from a user's folder, not from installed packages.

    False if there is no such package. pythonpath: absolute folders, as from `folders`.
    """
    spec = _find(package, pythonpath)
    if spec is None or _installed(place := _place(spec)):
        return False
    whole = next(iter(spec.submodule_search_locations or ()), place)
    return not any(Path(whole).parent.glob(f"{package}-*.dist-info"))


def require_buildable(own: OwnModel, origin: str) -> None:
    """Raise ConfigError if `own`, code in a .py file, makes no torch module, needs arguments or defines no inputs.

    Mistakes that only an import would show are not found. Code of a package is not checked. origin: where the user
    named the code, begins the error message.
    """
    where, _, name = own.target.rpartition(":")
    if not where.endswith(".py"):
        return
    tree = _tree(Path(where), origin)
    code, node = ast.unparse(tree), _only_binding(tree, name)
    if node is None or any(_runs_code(one) for one in tree.body if isinstance(one, ast.Expr)):
        return
    if isinstance(node, ast.Assign):
        if isinstance(node.value, _NO_MODULES):
            raise _no_module(own, origin)
        return
    if node.decorator_list or getattr(node, "keywords", []):
        return
    own_methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    made_by = own_methods.get("__init__") if isinstance(node, ast.ClassDef) else node
    if made_by is not None and (needed := _needed(made_by, bound=made_by is not node)):
        words = f"argument{'s' if len(needed) > 1 else ''} {listed(needed, 'and')}"
        raise ConfigError(
            f"{origin}: {own.target} needs the {words}, but gpubench calls it without any. Give them default values, "
            "or values as `args` or `config` in a file for --models-file."
        )
    if _makes_no_module(node):
        raise _no_module(own, origin)
    if not _is_plain_module(node, tree) or any(word in code for word in ("setattr", "import *")):
        return
    if _INPUTS not in code:
        raise ConfigError(
            f"{origin}: {own.target} has no {_INPUTS}(batch_size), so its inputs are unknown. Write this method, or "
            "describe the model with `input_shape` in a file for --models-file."
        )


def _no_module(own: OwnModel, origin: str) -> ConfigError:
    return ConfigError(
        f"{origin}: {own.target} makes no torch.nn.Module. Name a class that inherits from torch.nn.Module, or a "
        "function that returns one."
    )


def _only_binding(tree: ast.Module, name: str) -> ast.ClassDef | ast.FunctionDef | ast.Assign | None:
    """Return the class, function or assignment that binds `name`; None if bound otherwise, twice or not at all.

    Those inside `if`, `try` and the like count. An async function does not: it is ignored.
    """
    defined, imported = _names_of(tree)
    if (defined + imported).count(name) != 1:
        return None
    for node in _at_the_top(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() if node.name == name:
                return node
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                return node
    return None


def _runs_code(node: ast.stmt) -> bool:
    return any(isinstance(one, ast.Call) for one in ast.walk(node))


def _needed(function: ast.FunctionDef, *, bound: bool) -> list[str]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)][1 if bound else 0 :]
    named = [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [one.arg for one in (*needed, *named)]


def _makes_no_module(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Whether `node` certainly makes no torch module.

    True for a class without `__new__` whose bases are all builtins, and for a function that returns only literals,
    lambdas or nothing.
    """
    if isinstance(node, ast.ClassDef):
        creates = any(isinstance(one, ast.FunctionDef) and one.name == "__new__" for one in node.body)
        return not creates and all(ast.unparse(base) in vars(builtins) for base in node.bases)
    returned = [one.value for one in _at_the_top(node) if isinstance(one, ast.Return)]
    return all(value is None or isinstance(value, _NO_MODULES) for value in returned)


def _is_plain_module(node: ast.ClassDef | ast.FunctionDef, tree: ast.Module) -> bool:
    """Whether `node` is a class whose only base is torch.nn.Module, so that it inherits no other code.

    tree: the whole file of the class. Its imports show what the name of the base means.
    """
    if not isinstance(node, ast.ClassDef) or len(node.bases) != 1:
        return False
    head, dot, rest = ast.unparse(node.bases[0]).partition(".")
    return f"{_origins(tree).get(head, '')}{dot}{rest}" == "torch.nn.Module"


def _origins(tree: ast.Module) -> dict[str, str]:
    """Return name that a file imports → its full name: "nn" → "torch.nn"."""
    found: dict[str, str | None] = {}
    for node in _at_the_top(tree):
        match node:
            case ast.Import(names=aliases):
                found |= {one.asname or one.name.partition(".")[0]: one.asname and one.name for one in aliases}
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                found |= {one.asname or one.name: f"{module}.{one.name}" for one in aliases}
    return {name: origin or name for name, origin in found.items()}


def _refuse_our_rooms(package: str, text: str, origin: str) -> None:
    if package in ROOMS:
        raise ConfigError(f"{origin}: {text}: gpubench has a package {package} too. Rename yours")


def _package_of(path: Path) -> tuple[str, Path]:
    """Return the outermost package of a file ("" if none), and the folder from which to import it."""
    package, folder = "", path.parent
    while (folder / "__init__.py").is_file():
        package, folder = folder.name, folder.parent
    return package, folder


def _require_imports(tree: ast.Module, searched: tuple[str, ...], origin: str) -> None:
    """Raise ConfigError for an import of a missing package. searched: folders to search before those of sys.path.

    origin: option and file that name the code; the error begins with it.

    Ends without error at the first code that may change sys.path, as the imports after it cannot be judged.
    """
    for node in tree.body:
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name()]) if not _runs_code(node):
                continue
            case _:
                return
        for package in (module.partition(".")[0] for module in modules):
            if package in sys.stdlib_module_names or package in sys.modules:
                continue
            spec = _find(package, searched)
            if spec is None:
                raise ConfigError(f"{origin}, line {node.lineno}: there is no package '{package}'. {_INSTALL}")
            if not _installed(_place(spec)):
                return


def _tree(path: Path, origin: str) -> ast.Module:
    try:
        with safe_read.opened(path) as file:
            return ast.parse(file.read(), str(path))
    except OSError as error:
        raise ConfigError(f"{origin}: {path}: cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConfigError(f"{origin}: {path}{line}: not valid Python: {words}") from error


def _names_of(tree: ast.Module) -> tuple[list[str], list[str]]:
    """Return (names that a file defines, names that it imports), each name as often as the file binds it."""
    defined: list[str] = []
    imported: list[str] = []
    for node in _at_the_top(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                defined.append(name)
            case ast.Name(id="globals"):
                imported.append("*")
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                imported += [(alias.asname or alias.name).partition(".")[0] for alias in aliases]
    return defined, imported


def _at_the_top(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _at_the_top(child)


def _find(package: str, pythonpath: tuple[str, ...]) -> ModuleSpec | None:
    """Find a package without importing it; None if missing. Ignores the folder of the program, as launches do (-P)."""
    found = PathFinder.find_spec(package, [*pythonpath, *sys.path[not sys.flags.safe_path :]])
    if found is not None or package in sys.modules:
        return found
    for finder in sys.meta_path:  # those of editable installs
        spec = None if finder is PathFinder else finder.find_spec(package, None)
        if spec is not None:
            return spec
    return None


def _place(spec: ModuleSpec) -> str:
    return spec.origin or next(iter(spec.submodule_search_locations or ()), "")


def _installed(place: str) -> bool:
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    roots = (*python, *site.getsitepackages(), site.getusersitepackages())
    return place in {"built-in", "frozen"} or any(Path(place).is_relative_to(root) for root in roots)
