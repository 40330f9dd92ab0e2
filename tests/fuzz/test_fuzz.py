"""The targets of targets.py: under hypothesis in every test run, under atheris in the slow ones, for 15 s each."""

import html
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol import codec
from tests.fuzz import mutation, pages
from tests.fuzz.structures import messages
from tests.fuzz.targets import DECODERS, KINDS, TARGETS

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 15
EXAMPLES = {"result": 40, "night": 25, "compared": 25, "history": 25, "recorded": 100}
"""Nearly each of these makes a report, or a database on the disk."""

chances = st.integers(0, 2**64 - 1).map(random.Random)
bounded = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_right(name: str) -> None:
    """What is valid to begin with passes its own check; else nothing that is derived from it would reach far."""
    target = TARGETS[name]
    assert target.seeds()
    for seed in target.seeds():
        target.check(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_answered(name: str) -> None:
    """Arbitrary bytes and arbitrary text: a value or the documented error."""

    @settings(bounded, max_examples=EXAMPLES.get(name, 100))
    @given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
    def check(data: bytes) -> None:
        TARGETS[name].check(data)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_valid_and_was_changed_is_answered(name: str) -> None:
    """The same for what differs from a valid input in a few places, which gets further than anything made up."""
    target, seeds = TARGETS[name], TARGETS[name].seeds()

    @settings(bounded, max_examples=EXAMPLES.get(name, 200))
    @given(st.integers(0, len(seeds) - 1), chances, st.integers(1, 3))
    def check(number: int, chance: random.Random, times: int) -> None:
        data = seeds[number]
        for _ in range(times):
            data = target.mutated(data, chance)
        target.check(data)

    check()


def test_values_are_changed_within_a_message() -> None:
    """The mutation that the targets of MessagePack rely on changes values, and leaves most messages whole."""
    (seed,) = TARGETS["records"].seeds()
    changed = [mutation.of_values(seed, random.Random(number)) for number in range(50)]
    assert len({*changed, seed}) > 40
    for data in changed:
        msgpack.unpackb(data, strict_map_key=False)


def test_texts_of_others_reach_the_page_and_stay_texts() -> None:
    """The message of a failure stands in it; had it become an element, the check would say so."""
    (seed,) = TARGETS["night"].seeds()
    parts = msgpack.unpackb(seed)
    (failed,) = (record for record in parts["records"] if record.get("failure"))
    failed["failure"]["message"] = mutation.ELEMENT
    page = pages.page(msgpack.packb(parts))
    assert mutation.ELEMENT in html.unescape(page.decode())
    pages.require_harmless(page)
    with pytest.raises(AssertionError, match="has become an element"):
        pages.require_harmless(page.replace(b"</body>", mutation.ELEMENT.encode()))


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_every_message_comes_back(number: int) -> None:
    """Whatever the schema allows, ends of ranges and odd texts included, is read as it was written."""

    @bounded
    @given(messages(KINDS[number]))
    def check(message: object) -> None:
        assert DECODERS[number].decode(codec.encode(message)) == message

    check()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 6)
@pytest.mark.parametrize("name", TARGETS)
def test_atheris_finds_nothing(tmp_path: Path, name: str) -> None:
    """A coverage-guided search of fifteen seconds ends without a finding."""
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed: it has no wheel for this Python or processor")
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(SECONDS), "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units:" in done.stderr
