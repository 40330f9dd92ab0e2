"""contrib/github: a workflow that GitHub takes, with a command that gpubench understands, as docs/gate.md shows it."""

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from orchestrator.cli.commands import orchestrate

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / "contrib" / "github" / "gpubench-gate.yml"
SCHEMA = json.loads((ROOT / "tests" / "schemas" / "github-workflow.json").read_bytes())


def read() -> dict[str, Any]:
    """The workflow as GitHub reads it: in YAML 1.2 `on` is a word, and no truth."""
    found = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def test_the_workflow_keeps_to_the_schema_of_github() -> None:
    """And the schema finds a mistake."""
    workflow = read()
    jsonschema.validate(workflow, SCHEMA)
    workflow["jobs"]["gate"]["steps"][0] = {"use": "actions/checkout@v4"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(workflow, SCHEMA)


def test_the_command_of_the_workflow_is_understood() -> None:
    """Its options exist, and its files are those that later steps read."""
    steps = read()["jobs"]["gate"]["steps"]
    [command] = [shlex.split(step["run"]) for step in steps if "gate --ab" in step.get("run", "")]
    gate = orchestrate.commands["gate"]
    params = gate.make_context("gate", command[2:]).params
    assert params["ab"] == ("old/$MODEL", "new/$MODEL")
    assert (params["compared"], params["junit"], params["allow_code"]) == ("gate.md", "gate.xml", True)
    assert {"gate.md", "gate.xml"} <= set(steps[-1]["with"]["path"].split())


def test_the_docs_show_the_same_workflow() -> None:
    """docs/gate.md has it to copy; after a change, paste it there."""
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert f"```yaml\n{WORKFLOW.read_text(encoding='utf-8')}```" in text
