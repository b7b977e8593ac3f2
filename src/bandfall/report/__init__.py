"""One self-contained HTML page about a fitted model."""

from bandfall.report.findings import Findings, Rows, study
from bandfall.report.page import render_page

__all__ = ["Findings", "Rows", "render_page", "study"]
