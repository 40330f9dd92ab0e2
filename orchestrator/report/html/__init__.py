"""The report as one HTML file that needs no network."""

from orchestrator.report.html.page import to_html

__all__ = ["to_html"]
