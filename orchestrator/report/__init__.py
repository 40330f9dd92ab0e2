"""The report of a run: its types (model, cells), its formats (as_json, as_csv, as_text), and its way to the disk."""

from orchestrator.report.files import by_importance, parts, publish, render, write

__all__ = ["by_importance", "parts", "publish", "render", "write"]
