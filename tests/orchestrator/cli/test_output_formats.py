"""Formats of commands that print: by --format, the suffix of -o, or what people call them."""

import pytest

from orchestrator.cli.output_formats import chosen
from orchestrator.errors import ConfigError

FORMATS = ("text", "json", "md", "html")


@pytest.mark.parametrize(
    ("kind", "output", "expected"),
    [
        (None, None, "text"),
        ("txt", None, "text"),
        ("markdown", None, "md"),
        ("txt", "x.txt", "text"),
        ("text", "x.txt", "text"),
        (None, "x.md", "md"),
    ],
)
def test_a_format_has_the_names_that_people_type(kind: str | None, output: str | None, expected: str) -> None:
    """`txt` and `text` are one format everywhere, as `md` and `markdown` are."""
    assert chosen(kind, output, FORMATS) == expected


@pytest.mark.parametrize(("kind", "output"), [("markdown", "x.txt"), ("pdf", None), ("markdown", "x.html")])
def test_a_format_that_contradicts_the_file_is_refused(kind: str, output: str | None) -> None:
    """By whichever of its names."""
    with pytest.raises(ConfigError):
        chosen(kind, output, FORMATS)
