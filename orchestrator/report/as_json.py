"""The report as JSON, and the JSON Schema that it obeys."""

import inspect

import msgspec

from orchestrator.figures.report import Report


def to_json(report: Report) -> bytes:
    """JSON for programs and people: two blanks a level, keys in the order of the types, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def schema() -> bytes:
    """The JSON Schema of the report: the bytes of configs/report.schema.json, as a test checks."""
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}
    for definition in described["$defs"].values():
        definition["description"] = inspect.cleandoc(definition["description"])
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"
