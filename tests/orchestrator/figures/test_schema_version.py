"""The schema of the report and its version: a report that was written by this version of the schema stays readable.

schema_v<N>.json holds the fields of version N, as they were when it was current first.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.figures.report import SCHEMA_VERSION
from orchestrator.report.as_json import schema

FIELDS: dict[str, Any] = json.loads((Path(__file__).parent / f"schema_v{SCHEMA_VERSION}.json").read_bytes())
NOW: dict[str, Any] = json.loads(schema())["$defs"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_added_has_a_default(name: str) -> None:
    """Else older reports of the same version are refused: give it a default, or raise SCHEMA_VERSION."""
    assert set(NOW[name].get("required", [])) <= set(FIELDS[name]["required"])


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_is_removed(name: str) -> None:
    """Else older reports of the same version are refused, for a field that is unknown: raise SCHEMA_VERSION."""
    assert {*FIELDS[name]["required"], *FIELDS[name]["optional"]} <= set(NOW[name]["properties"])
