"""The report as JSON, and its JSON Schema."""

import inspect

import msgspec

from orchestrator.figures.report import Report


def to_json(report: Report) -> bytes:
    """Return the report as JSON: indented by two spaces, keys in the order of the fields, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def schema() -> bytes:
    """Return the JSON Schema of the report: the contents of configs/report.schema.json."""
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}
    for definition in described["$defs"].values():
        definition["description"] = inspect.cleandoc(definition["description"])
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"
