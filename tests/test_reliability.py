"""docs/reliability.md names tests; this makes sure that each of them is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
MATRIX = PAGE.partition("<!-- matrix: begin -->\n")[2].partition("<!-- matrix: end -->")[0].splitlines()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_that_proves_something_exists() -> None:
    """Each `file::name` is a test function of that file."""
    missing = []
    for file, name in NAMED.findall(PAGE):
        path = ROOT / file
        defined = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
        if not name.startswith("test_") or name not in {
            one.name for one in defined if isinstance(one, ast.FunctionDef)
        }:
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_row_of_the_matrix_is_proved() -> None:
    """Each fault has its seven columns, a test among them."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in MATRIX[2:]]
    assert len(rows) > 25
    assert [row[0] for row in rows if len(row) != 7 or not NAMED.search(row[3]) or not row[4]] == []
