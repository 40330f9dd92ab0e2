"""What a configuration file says where something stronger holds instead: it must be right all the same.

Each key is resolved as if it alone stood in the file, so a mistake gets the same words as where nothing overrides it.
What only this machine or another file can tell (whether there is a GPU 5, code of the user's own) is asked of what
holds alone.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from orchestrator.config import own_code, resolution
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.resolution import Places
from orchestrator.config.settings import LayeredSettings, Settings, from_defaults, from_file


def refuse_mistakes(file: Path, defaults: Path, catalogue: Catalogue, places: Places) -> LayeredSettings:
    """Make sure that every value of `file` is one that could hold; returns what it says.

    catalogue: with the models of the user's own that may be named. Raises ConfigError naming file, line and key.
    """
    said, below = from_file(file), from_defaults(defaults)
    for settings in _alone(said.settings):
        resolution.resolve(LayeredSettings(settings, said.origins).over(below), catalogue, places)
    return said


def _alone(settings: Settings) -> Iterator[Settings]:
    """Each key that is given, in settings of its own."""
    for name, value in _given(settings):
        if isinstance(value, msgspec.Struct):
            for key, one in _given(value):
                yield replace(Settings(), **{name: replace(type(value)(), **{key: one})})
        elif name != "models" or not _own(value):
            yield replace(Settings(), **{name: value})


def _own(models: object) -> bool:
    """Whether there is code of the user's own among the models: whether that may be run is not said here."""
    words = models if isinstance(models, tuple) else str(models).split(",")
    return any(":" in word or own_code.looks_like_a_file(word) for word in words)


def _given(section: msgspec.Struct) -> Iterator[tuple[str, object]]:
    return ((name, value) for name in section.__struct_fields__ if (value := getattr(section, name)) is not None)
