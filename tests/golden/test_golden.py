"""Stored runs give the same reports as before, in every format: see README.md beside this file."""

import difflib
import functools

import pytest

from tests.golden import rendering

FILES = [
    pytest.param(case, path.name, id=f"{case}-{path.name}")
    for case in rendering.cases()
    for path in sorted((rendering.OUTPUTS / case).glob("*"))
]
rendered = functools.cache(rendering.render)


@pytest.mark.parametrize(("case", "name"), FILES)
def test_output_is_the_stored_one(case: str, name: str) -> None:
    """A difference is shown as a diff; `python -m tests.golden` accepts it."""
    stored = (rendering.OUTPUTS / case / name).read_text(encoding="utf-8")
    made = rendered(case).get(name, "")
    if made != stored:
        lines = difflib.unified_diff(stored.splitlines(), made.splitlines(), "stored", "made now", n=1, lineterm="")
        pytest.fail("\n".join([f"{case}/{name} differs:", *list(lines)[:200]]), pytrace=False)


@pytest.mark.parametrize("case", rendering.cases())
def test_every_output_is_stored(case: str) -> None:
    """A file that is rendered and has no stored value would be compared with nothing."""
    assert set(rendered(case)) == {path.name for path in (rendering.OUTPUTS / case).glob("*")}
