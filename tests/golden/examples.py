"""Examples of output in the docs: `<!-- shown: CASE/FILE -->`, the stored output, `<!-- shown: end -->`.

`<!-- shown: CASE/FILE 10 -->` shows the first ten lines.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.golden.rendering import HERE, OUTPUTS

ROOT: Final = HERE.parents[1]
_EXAMPLE: Final = re.compile(r"(<!-- shown: (\S+/\S+)(?: (\d+))? -->\n).*?(<!-- shown: end -->)", re.DOTALL)


def pages() -> Iterator[Path]:
    """Yield the pages with examples."""
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))):
        if _EXAMPLE.search(page.read_text(encoding="utf-8")):
            yield page


def named(text: str) -> set[str]:
    """Return the stored outputs that a page shows."""
    return {found[2] for found in _EXAMPLE.finditer(text)}


def updated(text: str) -> str:
    """Return the page with the outputs as they are stored now, indented as code."""
    return _EXAMPLE.sub(lambda found: f"{found[1]}{_code(OUTPUTS / found[2], int(found[3] or 0))}{found[4]}", text)


def _code(path: Path, most: int) -> str:
    lines = path.read_text(encoding="utf-8").strip("\n").splitlines()[: most or None]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)
