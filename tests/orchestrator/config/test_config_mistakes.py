"""Configuration files that no transcript can hold. All other mistakes: tests/golden/transcripts/config_file.txt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue
from orchestrator.config import resolution as config
from orchestrator.errors import ConfigError
from tests.fakes.configurations import options, resolved

Write = Callable[[str | bytes], Path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\x00\x01\x02", "night.yaml: not valid YAML: "),
        (b"batch_sizes: 1\nmodels: \xff", "night.yaml, line 2: not UTF-8"),
        ("[" * 5_000, "nested too deeply"),
        ("#" * (1024 * 1024 + 1), "night.yaml: too large"),
        (f"benchmark: {{seed: {'9' * 5000}}}", "a whole number"),
    ],
    ids=["binary", "not UTF-8", "nested", "large", "a large number"],
)
def test_a_mistake_in_a_file_is_named(burn_in_run: Write, text: str | bytes, message: str) -> None:
    """Also what no editor would show."""
    with pytest.raises(ConfigError) as refused:
        resolved(burn_in_run(text))
    assert message in str(refused.value)


def test_a_default_that_was_removed_is_missed_by_name(tmp_path: Path) -> None:
    """An installation that somebody edited says what it lacks."""
    (tmp_path / "default.yaml").write_text("benchmark: {profile: quick}\n")
    said = config.gather(OPTIONS, tmp_path / "default.yaml", None, options())
    with pytest.raises(ConfigError, match=r"configs/default\.yaml: .* \w+\.\w+ is missing"):
        config.resolve(said, catalogue.load(), config.Places(Path("/current"), Path("/cache")))
