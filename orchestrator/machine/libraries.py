"""Whether a library is missing that models are built with, and that is no dependency of gpubench (docs/adr/0004).

Where one is, the models that need it fail by name, each of their launches. Looked up as files, nothing is imported.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Final

from orchestrator.configuration.yaml_schema import listed
from orchestrator.errors import ConfigError
from protocol.cell import OF_NO_MODEL, Cell, ModelSpec

HOW_TO_INSTALL_MODELS: Final = "README.md says how to install what models need beside a torch of your own"
_LIBRARIES: Final = ("torchvision", "transformers")
_BEHIND: Final = {"worker.models.huggingface": "transformers"}
"""Modules of ours that stand for a library."""


def asked_for(cells: Iterable[Cell], models: Iterable[ModelSpec]) -> list[ModelSpec]:
    """The models that cells of a plan measure."""
    measured = {cell.model for cell in cells if cell.workload not in OF_NO_MODEL}
    return [model for model in models if model.name in measured]


def missing(models: Iterable[ModelSpec], search: list[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Library → the models that need it, of those that are not installed. search: instead of sys.path."""
    needed: dict[str, tuple[str, ...]] = {}
    for model in models:
        for library in dict.fromkeys(_BEHIND.get(module, module.partition(".")[0]) for module in model.preload):
            if library in _LIBRARIES:
                needed[library] = (*needed.get(library, ()), model.name)
    return {library: names for library, names in needed.items() if not _is_there(library, search)}


def _is_there(library: str, search: list[str] | None) -> bool:
    """Also one that is worked on where it lies, which only a finder of its own finds."""
    return (find_spec(library) if search is None else PathFinder.find_spec(library, search)) is not None


def sentences(lacking: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """One for each library, with its models."""
    for library, names in lacking.items():
        yield f"{library} is not installed, so {listed(names, 'and')} will fail; {HOW_TO_INSTALL_MODELS}"


def require(cells: Sequence[Cell], models: Iterable[ModelSpec]) -> None:
    """Refuse a burn-in of cells that would fail in each round, which ends without a verdict. Raises ConfigError."""
    lacking = missing(asked_for(cells, models))
    if lacking:
        names = listed([name for names in lacking.values() for name in names], "and")
        raise ConfigError(
            f"a burn-in would be UNKNOWN in the end: it trains {names}, and {listed(list(lacking), 'and')} "
            f"{'is' if len(lacking) == 1 else 'are'} not installed. {HOW_TO_INSTALL_MODELS}."
        )
