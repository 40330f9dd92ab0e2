"""Find the user's own code without importing it, and check the permission to run it.

    "net.py:Net" ──▶ /home/me/net.py:Net                        a file: --allow-code
    "pkg.module:build" ──▶ pkg, in a folder of --pythonpath     a folder of the user's: --allow-code
    "transformers.BertModel" ──▶ transformers, installed        free

A configuration may come from somebody else, so only the command line gives the permission, never a file.
"""

import ast
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
_ONLY_RUNNING_TELLS: Final = frozenset({"*", "__getattr__"})
"""Names after which a file may define any other."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class NotAllowedError(ConfigError):
    """Own code without the permission to run it."""


@dataclass(frozen=True)
class Search:
    """Where to look for code."""

    base: Path  # folder of relative paths
    pythonpath: tuple[str, ...]  # absolute folders
    allowed: bool  # --allow-code

    def locate(self, text: str, origin: str) -> OwnModel:
        """Find the code that `text` names. Raises ConfigError, with `origin`, if it is missing or not permitted."""
        where, _, name = text.rpartition(":")
        if text.endswith(_LISTS):
            raise ConfigError(f"{origin}: {text} is no model. If it describes models, use --models-file {text}")
        if _looks_like_a_file(text):
            return self._in_file(text, where, name, origin)
        dotted = text.replace(":", ".")
        if text.count(":") > 1 or not _DOTTED.fullmatch(dotted) or "." not in dotted:
            raise ConfigError(f"{origin}: {text!r} is neither package.module:Name nor path/to/file.py:Name")
        self._find_package(text, dotted.split(".")[0], origin)
        # A folder that is searched first can put anything in the place of anything.
        return OwnModel(target=text, pythonpath=self.pythonpath if self.allowed else (), allowed=self.allowed)

    def _in_file(self, text: str, where: str, name: str, origin: str) -> OwnModel:
        if not where or not _DOTTED.fullmatch(name):
            raise ConfigError(
                f"{origin}: {text}: name a class or function of the file, such as {where or text}:ClassName"
            )
        path = Path(os.path.normpath(self.base / Path(where).expanduser()))
        if path.suffix != ".py":
            raise ConfigError(f"{origin}: {where} is not a Python file: its name does not end in .py")
        defined, imported = _names_in(path, origin)
        names = defined | imported
        if name.partition(".")[0] not in names and not names & _ONLY_RUNNING_TELLS:
            near = did_you_mean(name, names) or f" It defines {', '.join(sorted(defined)) or 'nothing'}."
            raise ConfigError(f"{origin}: {path} defines no {name}.{near}")
        _refuse_our_rooms(_package_of(path), text, origin)
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
                else "Install it, or name its folder with --pythonpath."
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
    """Return the absolute folders of --pythonpath, in order. Raises ConfigError for a missing one."""
    found = [os.path.normpath(current / Path(word).expanduser()) for word in paths]
    for folder in found:
        if not safe_read.is_folder(Path(folder)):
            raise ConfigError(f"{origin}: {folder}: there is no such folder to search for packages")
    return tuple(found)


def _looks_like_a_file(text: str) -> bool:
    """Whether the text means a file: "net.py:Net", "net.py", "models/net:Net", "mine.yaml"."""
    return "/" in text or text.endswith(_LISTS) or ".py" in (text[-3:], text.rpartition(":")[0][-3:])


def is_own(word: str) -> bool:
    """Whether the name of a model means the user's own code."""
    return ":" in word or _looks_like_a_file(word)


def in_a_folder_of_the_users(package: str, pythonpath: tuple[str, ...]) -> bool:
    """Whether a child would import `package` from a folder where pip did not install it."""
    spec = _find(package, pythonpath)
    if spec is None or _installed(place := _place(spec)):
        return False
    whole = next(iter(spec.submodule_search_locations or ()), place)
    return not any(Path(whole).parent.glob(f"{package}-*.dist-info"))


def require_buildable(own: OwnModel, origin: str) -> None:
    """Raise ConfigError if code of -m certainly needs arguments or has no inputs, as its text shows."""
    where, _, name = own.target.rpartition(":")
    if not where.endswith(".py"):
        return
    tree = _tree(Path(where), origin)
    nodes = [one for one in _at_the_top(tree) if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name]
    if len(nodes) != 1 or nodes[0].decorator_list or getattr(nodes[0], "keywords", []):
        return
    own_methods = {one.name: one for one in nodes[0].body if isinstance(one, ast.FunctionDef)}
    made_by = own_methods.get("__init__") if isinstance(nodes[0], ast.ClassDef) else nodes[0]
    if made_by is not None and (needed := _needed(made_by, bound=made_by is not nodes[0])):
        raise ConfigError(
            f"{origin}: {own.target} needs {listed(needed, 'and')}. Give {name} defaults, or give the values as "
            "`args` or `config` in a file for --models-file."
        )
    code = ast.unparse(tree)
    if _is_plain_module(nodes[0]) and not any(word in code for word in (_INPUTS, "setattr", "import *")):
        raise ConfigError(
            f"{origin}: {own.target} has no {_INPUTS}(batch_size), so its inputs are unknown. Write this method, or "
            "describe the model with `input_shape` in a file for --models-file."
        )


def _needed(function: ast.FunctionDef, *, bound: bool) -> list[str]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)][1 if bound else 0 :]
    named = [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [one.arg for one in (*needed, *named)]


def _is_plain_module(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Whether the node is a class that inherits only from torch.nn.Module, so all its methods are in its text."""
    if not isinstance(node, ast.ClassDef) or len(node.bases) != 1:
        return False
    return ast.unparse(node.bases[0]) in {"torch.nn.Module", "nn.Module", "Module"}


def _refuse_our_rooms(package: str, text: str, origin: str) -> None:
    if package in ROOMS:
        raise ConfigError(f"{origin}: {text}: gpubench has a package {package} too. Rename yours")


def _package_of(path: Path) -> str:
    package, folder = "", path.parent
    while (folder / "__init__.py").is_file():
        package, folder = folder.name, folder.parent
    return package


def _names_in(path: Path, origin: str) -> tuple[set[str], set[str]]:
    return _names_of(_tree(path, origin))


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


def _names_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    defined: set[str] = set()
    imported: set[str] = set()
    for node in _at_the_top(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                imported |= {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
    return defined, imported


def _at_the_top(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _at_the_top(child)


def _find(package: str, pythonpath: tuple[str, ...]) -> ModuleSpec | None:
    """Find a package without importing it. Children run with -P: the first entry of sys.path is not theirs."""
    found = PathFinder.find_spec(package, [*pythonpath, *sys.path[1:]])
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
