"""Map parameters of a command to settings by the keys of a configuration file."""

import re
from collections.abc import Mapping
from typing import Any, Final

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config.options import Kind, Option
from orchestrator.config.settings import Auto, LayeredSettings, from_options
from orchestrator.errors import ConfigError

_BY_KEY: Final = {option.key: option for option in OPTIONS if option.key}


def settings_of(params: Mapping[str, object]) -> LayeredSettings:
    """Convert the given options of a command line to settings. Raises ConfigError for a value of a wrong type.

    params: name of the parameter → its value from click; None, () or absent if the option was not given.
    """
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for key, row in _BY_KEY.items():
        option = _BY_KEY[row.follows] if row.follows else row
        given = params.get(option.name) if option.flags else None
        if given is not None and given != ():
            values[key], origins[key] = _value(option, given), option.spelling
    if params.get("multi_gpu") and "gpu.ids" not in values:
        # The option wins over the devices of a file.
        values["gpu.ids"], origins["gpu.ids"] = "all", origins["gpu.multi_gpu"]
    return from_options(values, origins, OPTIONS)


def _value(option: Option, given: Any) -> object:  # noqa: ANN401  # what click returns
    if option.constant:
        return option.constant
    match option.kind:  # a word in place of a number is refused later
        case Kind.NUMBER:
            return _number(given)
        case Kind.NUMBERS:
            return [_number(word.strip()) for word in given.split(",")]
        case Kind.BATCH_SIZES:
            words = [word.strip() for word in given.split(",")]
            if words == [Auto.AUTO]:
                return Auto.AUTO
            if Auto.AUTO in words:
                raise ConfigError(f"{option.spelling}: {Auto.AUTO} finds the sizes itself. Remove the other sizes")
            return [_number(word) for word in words]
    return given


def _number(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?[0-9]{1,1000}", word) else word
