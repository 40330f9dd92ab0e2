"""Every kind of value that a row of the option table may have works on the command line."""

from typing import Final

import click
import pytest
from click.testing import CliRunner

from orchestrator.cli import option_mapping
from orchestrator.cli.decorators import add_options
from orchestrator.config.options import Kind, Option
from orchestrator.config.settings import Auto

SAMPLES: Final[dict[Kind, tuple[str, object]]] = {
    Kind.SWITCH: ("", True),
    Kind.TEXT: ("word", "word"),
    Kind.FILE: ("file.yaml", "file.yaml"),
    Kind.WORDS: ("a,b", "a,b"),
    Kind.NUMBER: ("3", 3),
    Kind.NUMBERS: ("3,4", (3, 4)),
    Kind.BATCH_SIZES: ("auto", Auto.AUTO),
    Kind.DEVICES: ("cpu:0", "cpu:0"),
    Kind.AMOUNT: ("2.5", 2.5),
    Kind.SECONDS: ("0.5", 0.5),
}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.REPEATED])  # of no key
def test_value_of_each_kind_arrives_as_in_a_file(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the table is enough: the option is parsed, and passes the checks of a configuration file."""
    text, expected = SAMPLES[kind]
    option = Option("--thing" if kind is Kind.SWITCH else "--thing VALUE", "part.thing", kind, "Help.")
    monkeypatch.setattr(option_mapping, "_BY_KEY", {option.key: option})
    monkeypatch.setattr(option_mapping, "OPTIONS", (option,))

    @click.command()
    @add_options([option])
    def command(**params: object) -> None:
        assert option_mapping.settings_of(params).values == {"part.thing": expected}

    outcome = CliRunner().invoke(command, ["--thing", *filter(None, [text])], catch_exceptions=False)
    assert outcome.exit_code == 0
