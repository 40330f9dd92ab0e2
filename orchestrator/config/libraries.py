"""Find torch and missing libraries of models as files, without an import (docs/adr/0004)."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config.workloads import WORKLOADS
from orchestrator.config.yaml_schema import listed
from orchestrator.errors import ConfigError
from protocol.cell import Cell, ModelSpec

HOW_TO_INSTALL_MODELS: Final = "docs/installing.md describes how to install libraries beside your own torch"
_LIBRARIES: Final = ("torchvision", "transformers")
_BEHIND: Final = {"worker.models.huggingface": "transformers"}  # our module → the library that it wraps
_CUDA: Final = re.compile(r"^cuda\b[^=\n]*=\s*(?:'([0-9.]+)'|None)", re.MULTILINE)
_VERSION: Final = re.compile(r"^__version__\s*=\s*'([^']+)'", re.MULTILINE)


class Torch(msgspec.Struct, frozen=True, kw_only=True):
    """The installed torch. version: may be "of unknown version". cuda: of its build, "13.0"; None for a CPU build."""

    version: str
    cuda: str | None


def torch_cuda(search: list[str] | None = None) -> Torch | None:
    """Read torch/version.py of the installed torch; None if there is none. search: folders instead of sys.path."""
    spec = PathFinder.find_spec("torch", search)
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    version, cuda = _VERSION.search(text), _CUDA.search(text)
    return Torch(version=version[1] if version else "of unknown version", cuda=cuda[1] if cuda else None)


def measured_models(cells: Iterable[Cell], models: Iterable[ModelSpec]) -> list[ModelSpec]:
    """Return those of `models` that `cells` run, in the order of `models`. Probes and operators are no models here."""
    measured = {cell.model for cell in cells if WORKLOADS[cell.workload].has_model}
    return [model for model in models if model.name in measured]


def missing(models: Iterable[ModelSpec], search: list[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return missing library (torchvision, transformers) → models that need it. search: folders instead of sys.path."""
    needed: dict[str, tuple[str, ...]] = {}
    for model in models:
        for library in dict.fromkeys(_BEHIND.get(module, module.partition(".")[0]) for module in model.preload):
            if library in _LIBRARIES:
                needed[library] = (*needed.get(library, ()), model.name)
    # find_spec also finds editable installs, which have finders of their own.
    find = find_spec if search is None else functools.partial(PathFinder.find_spec, path=search)
    return {library: names for library, names in needed.items() if find(library) is None}


def describe_missing(lacking: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield a sentence for each missing library. lacking: library → names of models that need it."""
    for library, names in lacking.items():
        yield f"{library} is not installed, so {listed(names, 'and')} will fail. {HOW_TO_INSTALL_MODELS}"


def require(cells: Sequence[Cell], models: Iterable[ModelSpec]) -> None:
    """Raise ConfigError if any of a burn-in's `cells` needs a missing library. models: at least those of `cells`."""
    lacking = missing(measured_models(cells, models))
    if lacking:
        names = listed([name for names in lacking.values() for name in names], "and")
        raise ConfigError(
            f"the burn-in would end UNKNOWN: it trains {names}, and {listed(list(lacking), 'and')} "
            f"{'is' if len(lacking) == 1 else 'are'} not installed. {HOW_TO_INSTALL_MODELS}."
        )
