"""Turn the arguments of the `ops` command into the configuration of a run of operators."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.config import operators as catalogue
from orchestrator.config.operator_runs import configured, entry
from orchestrator.config.own_code import Search
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.yaml_schema import require_known
from orchestrator.errors import ConfigError
from protocol.cell import ModelSpec, OperatorSpec

NAME: Final = "ops"
EAGER: Final = "eager"
COMPILED: Final = "compiled"
IMPLEMENTATIONS: Final = (EAGER, COMPILED)


def chosen(categories: Sequence[str], names: Sequence[str]) -> tuple[OperatorSpec, ...]:
    """Return the shipped operators that are in one of the categories and have one of the names.

    An empty sequence stands for all. Raises ConfigError for an unknown word, or if no operator matches.
    """
    known = catalogue.load()
    for category in categories:
        require_known(category, "--category", {one.category for one in known.values()}, "category")
    for name in names:
        require_known(name, "--op", known, "operator")
    found = tuple(
        one
        for one in known.values()
        if (not categories or one.category in categories) and (not names or one.name in names)
    )
    if not found:
        raise ConfigError("--op: none of these operators is in the categories of --category. Remove one of the options")
    return found


def own(words: Sequence[str], search: Search) -> tuple[ModelSpec, ...]:
    """Return the user's implementations. words: such as "kernels.py:my_softmax=softmax" (--against).

    search: finds the file and its function. Raises ConfigError for an invalid or repeated word or an unknown operator.
    """
    known, found = catalogue.load(), []
    for word in words:
        target, sign, name = word.rpartition("=")
        if not sign or not target:
            raise ConfigError(f"--against {word}: expected FILE:FUNCTION=OPERATOR, as in kernels.py:my_softmax=softmax")
        operator = known[require_known(name, f"--against {word}", known, "operator")]
        found.append(entry(operator, word, search.locate(target, "--against")))
    if len(set(words)) < len(words):
        raise ConfigError("--against: an implementation is given twice")
    return tuple(found)


def with_operators(
    configuration: Configuration,
    operators: Sequence[OperatorSpec],
    mine: Sequence[ModelSpec],
    implementations: Sequence[str],
    *,
    fast: bool,
) -> Configuration:
    """Return the configuration of a run of these operators. mine: the user's implementations, from `own`.

    implementations: how to measure each of `operators`: "eager", "compiled" or both. fast: measure for a shorter time.
    Raises ConfigError for an unknown implementation.
    """
    for one in implementations:
        require_known(one, "--implementations", IMPLEMENTATIONS, "implementation")
    entries = (*(entry(one, one.name) for one in operators), *mine)
    return replace(configured(configuration, entries, fast=fast), implementations=tuple(implementations))
