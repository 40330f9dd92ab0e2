"""The YAML file of a study, and the entries that its cells measure.

operations, sizes, implementations ─▶ an entry for each combination, named "conv2d im2col b=2 c=4 o=8 h=32 k=3"

An entry has the type of a model's specification, as cells measure operators in place of models.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from orchestrator.config import operators, yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.naming import sizes_of
from orchestrator.config.operator_runs import entry
from orchestrator.config.own_code import Search, is_own
from orchestrator.config.yaml_schema import listed, require_known
from orchestrator.errors import ConfigError
from protocol.cell import JAX, ModelSpec, Precision
from protocol.own import OwnModel

EAGER: Final = "eager"
COMPILED: Final = "compiled"
_MOST_CELLS: Final = 5000
_LARGEST: Final = 2**40
_Size = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
_SIZE: Final = re.compile("[1-9][0-9]{0,11}")


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: Annotated[list[str], msgspec.Meta(min_length=1)]
    sizes: dict[str, _Size | Annotated[list[_Size], msgspec.Meta(min_length=1)]]
    implementations: Annotated[list[str], msgspec.Meta(min_length=1)]
    precisions: Annotated[list[Precision], msgspec.Meta(min_length=1)]


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a study's file. name: of the file, without suffix. base: folder of the file.

    origin: the file's name at the start of messages. operations: names of operators, such as "conv2d". sizes:
    dimension, such as "h" → its sizes. implementations: "eager", "im2col+compiled", "conv.py:mine" or "jax".
    """

    name: str
    base: Path
    origin: str
    operations: tuple[str, ...]
    sizes: dict[str, tuple[int, ...]]
    implementations: tuple[str, ...]
    precisions: tuple[Precision, ...]


def names() -> list[str]:
    """Return the names of the studies that ship with gpubench, sorted."""
    return sorted(path.stem for path in (configs_folder() / "studies").glob("*.yaml"))


def read(word: str, current: Path) -> Grid:
    """Return the study that `word` names. With a "/", ".yaml" or ".yml" it is a path relative to `current`.

    Otherwise it is a study that ships with gpubench. Raises ConfigError for an unknown name or an invalid file.
    """
    own = "/" in word or word.endswith((".yaml", ".yml"))
    name = word if own else require_known(word, "study", names(), "study")
    path = current / Path(word).expanduser() if own else configs_folder() / "studies" / f"{name}.yaml"
    document = yaml_file.read(path)
    file = document.convert(_File)
    for key in ("operations", "implementations", "precisions"):
        _require_unique(getattr(file, key), document.where((key,)))
    for number, operation in enumerate(file.operations):
        require_known(operation, document.where(("operations", number)), operators.load(), "operator")
    sizes = {name: (one,) if isinstance(one, int) else tuple(one) for name, one in file.sizes.items()}
    for name, several in sizes.items():
        _require_unique(several, document.where(("sizes", name)))
    found = Grid(
        name=path.stem,
        base=path.absolute().parent,
        origin=document.where(()),
        operations=tuple(file.operations),
        sizes=sizes,
        implementations=tuple(file.implementations),
        precisions=tuple(file.precisions),
    )
    _require_dimensions(found)
    return found


def narrowed(grid: Grid, implementations: Collection[str], sizes: Sequence[str]) -> Grid:
    """Return the grid with only these implementations (empty: all) and with new sizes, such as "h=32,64".

    Dimensions that `sizes` does not name keep theirs. Raises ConfigError for an implementation or a dimension that the
    grid does not have, or for an invalid size.
    """
    for one in implementations:
        require_known(one, "--implementations", grid.implementations, "implementation")
    chosen = dict(grid.sizes)
    for word in sizes:
        name, _, values = word.partition("=")
        require_known(name, f"--size {word}", grid.sizes, "dimension")
        numbers = values.split(",")
        if not all(_SIZE.fullmatch(one) for one in numbers):
            raise ConfigError(f"--size {word}: expected whole numbers, as in {name}=32,64")
        chosen[name] = tuple(dict.fromkeys(map(int, numbers)))
    kept = tuple(one for one in grid.implementations if not implementations or one in implementations)
    return msgspec.structs.replace(grid, implementations=kept, sizes=chosen)


def entries(grid: Grid, search: Search) -> tuple[ModelSpec, ...]:
    """Return an entry for each combination of operation, sizes and implementation. search: finds the user's code.

    Raises ConfigError for an unknown implementation, or for more than 5,000 cells (entries times precisions).
    """
    axes = (*grid.sizes.values(), grid.operations, grid.implementations, grid.precisions)
    number = math.prod(map(len, axes))
    if number > _MOST_CELLS:
        raise ConfigError(f"{grid.origin}: the grid has {number:,} cells, more than {_MOST_CELLS:,}. Remove some sizes")
    points = [dict(zip(grid.sizes, sizes, strict=True)) for sizes in itertools.product(*grid.sizes.values())]
    code = {one: _located(one, grid, search) for one in grid.implementations}
    return tuple(
        _entry(operation, point, implementation, code[implementation], grid.origin)
        for operation in grid.operations
        for point in points
        for implementation in grid.implementations
    )


def base_of(implementation: str) -> str:
    """Return the implementation without compilation. "im2col+compiled" → "im2col", "compiled" → "eager"."""
    return EAGER if implementation == COMPILED else implementation.removesuffix(f"+{COMPILED}")


def compiles(implementation: str) -> bool:
    """Whether an implementation, such as "im2col+compiled", is compiled by torch.compile."""
    return base_of(implementation) != implementation


def _entry(
    operation: str, point: Mapping[str, int], implementation: str, code: OwnModel | None, origin: str
) -> ModelSpec:
    base, label = base_of(implementation), sizes_of(point)
    operator = msgspec.structs.replace(
        operators.sized(operation, point, label, origin),
        backward=False,
        implementation=implementation,
        variant="" if code is not None or base == EAGER else base,
        profiled=True,
    )
    return entry(operator, f"{operation} {implementation} {label}", code)


def _located(implementation: str, grid: Grid, search: Search) -> OwnModel | None:
    """Return the user's function for "conv.py:mine", None if gpubench ships it. Raises ConfigError if it is unknown."""
    base = base_of(implementation)
    if is_own(base):
        return search.locate(base, grid.origin)
    known = set.intersection(*({EAGER, JAX, *operators.variants(one)} for one in grid.operations))
    require_known(base, f"{grid.origin}, implementations", known, "implementation")
    if base == JAX and compiles(implementation):
        raise ConfigError(f"{grid.origin}, implementations: JAX always compiles. Write {JAX}")
    return None


def _require_dimensions(grid: Grid) -> None:
    for operation in grid.operations:
        needed = operators.dimensions(operation)
        if set(needed) != set(grid.sizes):
            raise ConfigError(
                f"{grid.origin}, sizes: {operation} has the dimensions {listed(needed, 'and')}, got "
                f"{listed(grid.sizes, 'and')}"
            )


def _require_unique(values: Sequence[object], origin: str) -> None:
    twice: Iterator[object] = (one for place, one in enumerate(values) if one in values[:place])
    if (one := next(twice, None)) is not None:
        raise ConfigError(f"{origin}: {one} is given twice")
