"""Which module builds a model."""

import importlib
from typing import Final, cast

from protocol.cell import ModelSpec
from worker.errors import UnknownFamilyError
from worker.models.base import Family

MODULES: Final = {
    "bert": "worker.models.bert",
    "lstm": "worker.models.lstm",
    "torchvision": "worker.models.torchvision",
}


def family(spec: ModelSpec) -> Family:
    """The family of a model, imported now. Raises UnknownFamilyError, or ImportError where its library is missing."""
    if spec.family not in MODULES:
        raise UnknownFamilyError(
            f"model {spec.name!r} is of family {spec.family!r}, which does not exist; there are {', '.join(MODULES)}"
        )
    return cast(Family, importlib.import_module(MODULES[spec.family]))
