"""Formulas of configs/operators.yaml: sums, differences and products of dimensions. Pure."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.errors import ConfigError

_OPERATIONS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def evaluate(text: str, names: Mapping[str, int], origin: str) -> int:
    """Return the value of a formula such as "2*m*n". names: dimension → size. origin: its place, for the error.

    Raises ConfigError for anything but +, -, *, whole numbers and dimensions in `names`.
    """
    try:
        return _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError) as error:
        known = ", ".join(sorted(names))
        raise ConfigError(f"{origin}: {text!r} is no formula of whole numbers and {known}") from error


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](_value(left, names), _value(right, names))
    raise TypeError(ast.dump(node))
