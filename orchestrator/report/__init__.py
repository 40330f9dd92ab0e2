"""The report of a run: chapters, formats, and how files reach the disk."""

from orchestrator.report.files import by_importance, parts, publish, render, write

__all__ = ["by_importance", "parts", "publish", "render", "write"]
