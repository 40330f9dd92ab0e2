"""Add the user's own models to the shipped models, so that -m can name either.

    -m net.py:Net, -m pkg.module:build          a model of that name
    --models-file my_models.yaml                its models by their names, before those that ship

Only the process of a launch imports the user's code.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config import models_file, own_code
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.own_code import Search
from orchestrator.config.settings import LayeredSettings
from orchestrator.errors import ConfigError
from protocol.cell import ModelSpec

_LIBRARIES: Final = {
    "worker.models.huggingface": ("transformers", "torchvision"),
    "torchvision": ("torchvision",),
}
"""Module that the zygote preloads, or its package → the libraries that it imports."""


def extended(
    catalogue: Catalogue, settings: LayeredSettings, current: Path, *, allowed: bool
) -> tuple[Catalogue, LayeredSettings]:
    """Return the catalogue with the user's models before the shipped ones, and the settings.

    If --models-file is given without -m, the returned settings select the models of that file. current: folder that
    relative paths start from. allowed: whether --allow-code is given. Raises ConfigError if a selected model is
    unusable or needs --allow-code. Other unusable models become `wrong` of the catalogue.
    """
    given = settings.items("pythonpath", os.pathsep) if "pythonpath" in settings.values else ()
    pythonpath = own_code.folders(
        (folder for folder, _ in given), current, settings.origin("pythonpath", "--pythonpath")
    )
    mine: tuple[ModelSpec, ...] = ()
    wrong: Mapping[str, ConfigError] = {}
    words = {word: origin for word, origin in settings.items("models") if word}
    if (path := settings.find("models_file", str)) is not None:
        origin = settings.origin("models_file")
        if not path.strip():
            raise ConfigError(f"{origin}: expected a file, got an empty string")
        chosen = None if not settings.chosen("models") or "all" in words else words
        mine, wrong = models_file.read(current / Path(path).expanduser(), pythonpath, allowed=allowed, chosen=chosen)
        _require_no_probe(mine, catalogue, origin)
        if not settings.chosen("models"):
            words = dict.fromkeys((model.name for model in mine), origin)
            settings = LayeredSettings({"models": tuple(words)}, {"models": origin}).on_top_of(settings)
    named = {model.name for model in mine}
    search = Search(current, pythonpath, allowed)
    for word, origin in words.items():
        if word not in named and own_code.is_own(word):
            own_code.require_buildable(own := search.locate(word, origin), origin)
            model = models_file.spec(word, own)
            models_file.require_inputs(model, origin)
            mine += (model,)
    names = {model.name for model in mine} | wrong.keys()
    models = (*mine, *(one for one in catalogue.models if one.name not in names))
    models = _without_the_users_libraries(models, pythonpath if allowed else ())
    return replace(catalogue, models=models, wrong=wrong), settings


def _without_the_users_libraries(models: tuple[ModelSpec, ...], pythonpath: tuple[str, ...]) -> tuple[ModelSpec, ...]:
    libraries = {library for needed in _LIBRARIES.values() for library in needed}
    theirs = {library for library in libraries if own_code.in_a_folder_of_the_users(library, pythonpath)}
    if not theirs:
        return models
    return tuple(
        msgspec.structs.replace(
            model, preload=tuple(module for module in model.preload if theirs.isdisjoint(_along_with(module)))
        )
        for model in models
    )


def _along_with(module: str) -> tuple[str, ...]:
    return _LIBRARIES.get(module) or _LIBRARIES.get(module.partition(".")[0], ())


def _require_no_probe(mine: tuple[ModelSpec, ...], catalogue: Catalogue, origin: str) -> None:
    probes = {probe.name for probe in catalogue.probes}
    for model in mine:
        if model.name in probes:
            raise ConfigError(f"{origin}: {model.name} is the name of a probe. Rename the model")
