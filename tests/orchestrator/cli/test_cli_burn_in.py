"""What the options of a burn-in show in a dry run, and what is said of those that cannot be."""

from collections.abc import Callable

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
NIGHT = ("--burn-in", "10m", "--gpu-ids", "cpu:0,cpu:1", "--dry-run")


def test_a_dry_run_shows_rounds_and_nothing_more(invoke: Invoke) -> None:
    """The checks of a round, by default without steps of load and without a temperature of one's own."""
    shown = invoke(*NIGHT)
    assert shown.exit_code == 0
    for check in ("soak", "truth", "memory", "replay"):
        assert f" {check} " in shown.output
    assert " steps " not in shown.output
    assert "Steps of load" not in shown.output
    assert "is stopped" not in shown.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps",), "Steps of load: 1 s at work, 1 s at rest, one device after the other."),
        (("--steps", "--in-phase"), "Steps of load: 1 s at work, 1 s at rest, all devices in phase."),
        (("--max-temperature", "85"), "A GPU that is at 85 degrees C for 10 s is stopped, and fails."),
        (("--in-phase",), "Note: --in-phase changes nothing: it is about --steps."),
    ],
)
def test_a_dry_run_shows_what_was_asked_for(invoke: Invoke, options: tuple[str, ...], words: str) -> None:
    """In a sentence, and the steps as a cell of the round."""
    shown = invoke(*NIGHT, *options)
    assert shown.exit_code == 0
    assert words in shown.output
    assert (" steps " in shown.output) is ("--steps" in options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps",), "--steps: it is a part of a burn-in"),
        (("--max-temperature", "85"), "--max-temperature: it stops a GPU in a burn-in alone"),
        (("--inject", "hot:0:90"), "--inject: faults are brought about in a burn-in alone"),
        (("--burn-in", "10m", "--inject", "hot:0:90"), "cpu:0 has no temperature that is read"),
        (("--burn-in", "10m", "--max-temperature", "20"), "expected 30 to 120 degrees Celsius"),
        (("--burn-in", "10m", "--max-temperature", "hot"), "'hot' is not a valid integer"),
    ],
)
def test_what_cannot_be_is_refused(invoke: Invoke, options: tuple[str, ...], words: str) -> None:
    """Exit code 2, before anything is run."""
    shown = invoke("--gpu-ids", "cpu:0", "--dry-run", *options)
    assert shown.exit_code == 2
    assert words in " ".join(shown.output.split())
