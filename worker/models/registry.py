"""Families of models (worker/models/base.py) by name."""

import importlib
from typing import Final, cast

from protocol.cell import ModelSpec
from worker.errors import UnknownFamilyError
from worker.models.base import Family

MODULES: Final = {
    "autoencoder": "worker.models.autoencoder",
    "bert": "worker.models.bert",
    "causal": "worker.models.causal",
    "lstm": "worker.models.lstm",
    "stylegan2": "worker.models.stylegan2",
    "stylegan2-discriminator": "worker.models.stylegan2_discriminator",
    "torchvision": "worker.models.torchvision",
    "unet": "worker.models.unet",
    "vae": "worker.models.vae",
}


def family(spec: ModelSpec) -> Family:
    """Return the family of a model. The code of a user's own model is not imported yet.

    Raises UnknownFamilyError if there is no such family, ImportError if a library is missing.
    """
    if spec.own is not None:
        from worker.models.own import Own

        return Own(spec.own)
    if spec.family not in MODULES:
        raise UnknownFamilyError(
            f"model {spec.name!r} has the unknown family {spec.family!r}. Valid: {', '.join(MODULES)}"
        )
    return cast(Family, importlib.import_module(MODULES[spec.family]))
