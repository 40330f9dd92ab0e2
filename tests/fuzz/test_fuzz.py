"""The targets of targets.py: under hypothesis in every test run, under atheris in the slow ones."""

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
SECONDS = 3
"""Of atheris, for each target: a short look on every change. CONTRIBUTING.md says how to look longer."""
SEARCHED = ("codec", "journal", "records", "result", "telemetry")
"""Targets of atheris in each slow run: what other processes write. The start of each takes longer than its search."""
SLOW_TARGETS = {"result", "burn-in", "compared", "history", "recorded"}
"""Nearly each input of these makes a report, or a database on the disk."""

chances = st.integers(0, 2**64 - 1).map(random.Random)


def bounded(name: str) -> settings:
    """Settings for a target: as many examples as the profile says, fewer if each is slow."""
    examples = settings.default.max_examples // (4 if name in SLOW_TARGETS else 1)
    return settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_right(name: str) -> None:
    """Valid seeds pass the check of their target. Else mutations of them would fail early and reach little code."""
    target = TARGETS[name]
    assert target.seeds()
    for seed in target.seeds():
        target.check(seed)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_answered(name: str) -> None:
    """Arbitrary bytes and arbitrary text: a value or the documented error."""

    @bounded(name)
    @given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
    def check(data: bytes) -> None:
        TARGETS[name].check(data)

    check()


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", TARGETS)
def test_what_was_valid_and_was_changed_is_answered(name: str) -> None:
    """The same for an input that differs from a valid one in a few places, which gets further than a random one."""
    target, seeds = TARGETS[name], TARGETS[name].seeds()

    @bounded(name)
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
    (seed,) = TARGETS["burn-in"].seeds()
    parts = msgpack.unpackb(seed)
    (failed,) = (record for record in parts["records"] if record.get("failure"))
    failed["failure"]["message"] = mutation.ELEMENT
    page = pages.page(msgpack.packb(parts))
    assert mutation.ELEMENT in html.unescape(page.decode())
    pages.require_harmless(page)
    with pytest.raises(AssertionError, match="element"):
        pages.require_harmless(page.replace(b"</body>", mutation.ELEMENT.encode()))


@pytest.mark.hypothesis
@pytest.mark.parametrize(("kind", "decoder"), [*zip(KINDS, DECODERS, strict=True)], ids=map(str, KINDS))
def test_every_message_comes_back(kind: object, decoder: codec.Decoder[object]) -> None:
    """Whatever the schema allows, ends of ranges and odd texts included, is read as it was written."""

    @bounded("codec")
    @given(messages(kind))
    def check(message: object) -> None:
        assert decoder.decode(codec.encode(message)) == message

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_atheris_finds_nothing(tmp_path: Path, name: str) -> None:
    """A coverage-guided search ends without a finding."""
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed: it has no wheel for this Python or processor")
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(SECONDS), "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units:" in done.stderr
