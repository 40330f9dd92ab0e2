"""state/failure_policy.py: everything that is known of a category of failure."""

import pytest

from orchestrator.state.failure_policy import (
    BEFORE_DEVICE,
    BEFORE_FIRST_FORWARD,
    HARDWARE,
    POLICY,
    Hardware,
    Reaction,
    Sign,
)
from protocol.failure import Category


def test_every_category_has_a_rule() -> None:
    """A category without one would end the state machine with a KeyError in the middle of a run."""
    assert POLICY.keys() == set(Category)


@pytest.mark.parametrize("category", Category)
def test_a_rule_is_complete_and_agrees_with_itself(category: Category) -> None:
    """Every text is there, and facts that exclude each other do not meet in one category."""
    rule = POLICY[category]
    assert all(text.strip() for text in (rule.why, rule.seen, rule.advice))
    assert rule.retries >= 0
    assert rule.reaction is not Reaction.RETRY or rule.retries, "a retry that is never made"
    if rule.hardware is Hardware.VERDICT:
        assert rule.reaction is Reaction.QUARANTINE
        assert rule.sign in (Sign.LOST, Sign.DEVICE)


def test_verdicts_of_the_hardware_are_the_gravest_signs() -> None:
    """In a gang, no other process's failure hides that a GPU is faulty."""
    assert min(Category, key=lambda one: POLICY[one].sign) in HARDWARE
    assert BEFORE_DEVICE < BEFORE_FIRST_FORWARD
