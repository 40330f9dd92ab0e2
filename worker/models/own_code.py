"""The user's own code: import it, call it, and explain its errors. Only the process of a launch imports this module.

    target ── import ──▶ class or function ── called with args and config ──▶ torch.nn.Module

Errors of the code become a ModelCodeError, whose cause has a traceback that begins in the user's file.
"""

import difflib
import hashlib
import importlib
import importlib.util
import json
import site
import sys
import sysconfig
import traceback
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final

import torch

from protocol.own import OwnModel
from worker import devices, exception_categories
from worker.errors import ModelCodeError, NotBuiltError

ANYWHERE: Final = frozenset({"torchvision", "transformers"})
"""Packages whose models can be built on a device directly. Other models are built on the CPU."""

_UNINITIALIZED: Final = "Call super().__init__() first in its __init__."
_HINTS: Final = {
    ("be imported", ModuleNotFoundError, ""): "Name its folder with --pythonpath, or install it.",
    ("be built", TypeError, ""): "Give its arguments as args and config in a file of --models-file.",
    ("be built", AttributeError, "before Module.__init__() call"): _UNINITIALIZED,
    ("be built", AttributeError, "no attribute '_modules'"): _UNINITIALIZED,
    ("make its inputs", TypeError, ""): "get_example_inputs is called with the batch size.",
    ("be run", TypeError, ""): "A tuple of inputs is passed by position, a dict by name, anything else as it is.",
}
"""(failed step, class of the error, part of its message) → what the user can do about it."""
_IN_EVERY_CELL: Final = frozenset({"be imported", "be built"})
_TYPO: Final = 0.85
"""Smallest similarity (difflib) of a mistyped name and the right one: hiden_size and hidden_size have 0.95."""
_ROOMS: Final = f"{Path(__file__).resolve().parents[1]}/"
_BETWEEN: Final = (_ROOMS, *(f"{Path(str(module.__file__)).parent}/" for module in (importlib, torch)), "<frozen ")
"""Path prefixes of frames to cut off the start of a traceback: files of worker, importlib and torch."""
_LIBRARIES: Final = (sysconfig.get_path("stdlib"), *site.getsitepackages(), site.getusersitepackages())


class Code:
    """Imported code of a user's own model. label: its name in messages. made_by: class or function for making it."""

    def __init__(self, own: OwnModel) -> None:
        """Import `own.target`, with the folders of `own.pythonpath` first in sys.path.

        Raises NotBuiltError if that fails, if the target is not callable or is itself a model, or, without
        --allow-code, if it is neither a torch.nn.Module class nor a function annotated to return one.
        """
        self._own = own
        self._made = False
        where, _, name = own.target.rpartition(":")
        self.label = f"{Path(where).name}:{name}" if where else own.target
        for folder in reversed(own.pythonpath):
            _search_first(folder)
        try:
            with _precision_kept():
                self.module, self.made_by = _resolve(own.target)
        except (Exception, SystemExit) as error:
            raise self.blame("be imported", error) from error
        if not callable(self.made_by) or isinstance(self.made_by, torch.nn.Module):
            raise NotBuiltError(f"{self.label} is {kind(self.made_by)}. Name a class or a function that makes a model")
        if not own.allowed and not _says_it_is_a_model(self.made_by):
            raise NotBuiltError(
                f"{self.label} is neither a torch.nn.Module nor a function annotated to return one, so a call could do "
                "anything. If you trust it, add --allow-code."
            )

    def make(self, device: torch.device) -> torch.nn.Module:
        """Make a new model on `device`. Raises NotBuiltError if that fails, ModelCodeError after an earlier success."""
        arguments, config = json.loads(self._own.arguments), json.loads(self._own.config)
        anywhere = self.module.__name__.partition(".")[0] in ANYWHERE
        try:
            with _precision_kept(), torch.device(device) if anywhere else nullcontext():
                made = self._called(arguments, config)
        except (Exception, SystemExit) as error:
            raise self.blame("be built a second time in one process" if self._made else "be built", error) from error
        if not isinstance(made, torch.nn.Module):
            raise NotBuiltError(f"{self.label} made {kind(made)}. It must make a torch.nn.Module")
        if not hasattr(made, "_modules"):
            raise NotBuiltError(f"{self.label} made a torch.nn.Module that was never initialized. {_UNINITIALIZED}")
        self._made = True
        return made.to(device)

    def hook(self, module: torch.nn.Module | None, name: str) -> Callable[..., object] | None:
        """Return the method `name` of the model `module`, else the user's function `name`, else None.

        The function of the user's Python module counts only with --allow-code. module: None if no model is made yet.
        """
        method = getattr(module, name, None)
        if callable(method) and not isinstance(method, torch.nn.Module):
            return typing.cast(Callable[..., object], method)
        function = vars(self.module).get(name)
        return function if callable(function) and self._own.allowed else None

    def blame(self, what: str, error: BaseException) -> ModelCodeError:
        """Return the error to raise from `error`, and cut gpubench's frames off the traceback of `error`.

        what: completes "cannot …", such as "be run". For "be imported" and "be built" the error is a NotBuiltError.
        """
        frames = _without_ours(error.__traceback__)
        error.__traceback__ = frames
        lines = exception_categories.message_of(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        hint = _hint(what, error)
        place = _place(frames)
        message = " ".join(filter(None, (f"{self.label} cannot {what}: {reason}", place)))
        kind = NotBuiltError if what in _IN_EVERY_CELL else ModelCodeError
        return kind(f"{message.rstrip('.')}. {hint}" if hint else message)

    def _called(self, arguments: list[object], config: dict[str, object]) -> object:
        """Make the model. arguments: positional. config: keyword arguments.

        A model of transformers instead gets a configuration object made from `config`, before `arguments`.
        """
        configured = getattr(self.made_by, "config_class", None) if isinstance(self.made_by, type) else None
        if configured is None:
            return self.made_by(*arguments, **config)
        _refuse_typing_mistakes(configured(), config)
        return self.made_by(configured(**config), *arguments)


def _hint(what: str, error: BaseException) -> str:
    fitting = (
        hint
        for (when, kind, words), hint in _HINTS.items()
        if when == what and isinstance(error, kind) and words in exception_categories.message_of(error)
    )
    return next(fitting, "")


def _refuse_typing_mistakes(default: typing.Any, config: dict[str, object]) -> None:  # noqa: ANN401 - transformers' own
    """Raise TypeError for a seemingly mistyped key, which transformers would ignore.

    default: configuration object of transformers with all valid keys. config: keys and values from the user.
    """
    for key in config:
        if not hasattr(default, key):
            for similar in difflib.get_close_matches(key, list(default.to_dict()), n=1, cutoff=_TYPO):
                raise TypeError(f"{type(default).__name__} has no key {key!r}. Did you mean {similar}?")


@contextmanager
def _precision_kept() -> Iterator[None]:
    """Undo changes of the TF32 setting by the user's code in the `with` body."""
    wanted = all(devices.tf32_switches().values())
    try:
        yield
    finally:
        devices.set_tf32(wanted=wanted)


def structure(module: torch.nn.Module) -> str:
    """Return a SHA-256 hash of the names, shapes and types in the model's state_dict, in hexadecimal."""
    parts = [
        (name, tuple(value.shape), str(value.dtype)) if isinstance(value, torch.Tensor) else name
        for name, value in module.state_dict().items()
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


# ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _search_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _resolve(target: str) -> tuple[ModuleType, Callable[..., object]]:
    where, colon, name = target.rpartition(":")
    if where.endswith(".py"):
        module = _from_file(Path(where))
    elif colon:
        module = importlib.import_module(where)
    else:
        module, name = _longest_module(target)
    named: object = module
    for part in name.split("."):
        named = getattr(named, part)
    return module, typing.cast(Callable[..., object], named)


def _longest_module(target: str) -> tuple[ModuleType, str]:
    parts = target.split(".")  # package.module.Class.method
    module = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:-1], start=1):
        if hasattr(module, part) and not isinstance(getattr(module, part), ModuleType):
            return module, ".".join(parts[number:])
        module = importlib.import_module(".".join(parts[: number + 1]))
    return module, parts[-1]


def _from_file(path: Path) -> ModuleType:
    """Import a Python file, in its package if any. Puts the folder that holds the file or package first in sys.path."""
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    _search_first(str(root))
    if len(names) > 1:
        module = importlib.import_module(".".join(names))
        if module.__file__ is None or not Path(module.__file__).samefile(path):
            raise ImportError(
                f"{'.'.join(names)} is also the name of {module.__file__}, which was found first. Rename yours"
            )
        return module
    # A unique name, because the file may have the name of a module of gpubench or Python.
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def _says_it_is_a_model(thing: Callable[..., object]) -> bool:
    if isinstance(thing, type):
        return issubclass(thing, torch.nn.Module)
    try:
        returned = typing.get_type_hints(thing).get("return")
    except (NameError, TypeError, AttributeError):  # annotations may use names that are undefined at run time
        return False
    return isinstance(returned, type) and issubclass(returned, torch.nn.Module)


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def kind(thing: object) -> str:
    """Return the name of an object's type with an article: "a list", "an int", "nothing (None)"."""
    if thing is None:
        return "nothing (None)"
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_BETWEEN):
        frames = frames.tb_next
    return frames


def _place(frames: TracebackType | None) -> str:
    """Return "(file, line 7)" of the innermost frame of the user's code, else of a library. Empty without frames."""
    stack = traceback.extract_tb(frames)
    own = [frame for frame in stack if not frame.filename.startswith((*_LIBRARIES, _ROOMS, "<"))]
    if not stack:
        return ""
    last = (own or stack)[-1]
    return f"({last.filename}, line {last.lineno})"
