"""One self-contained HTML page about a fitted model, of numbers or classes."""

from bandfall.report.columns import Rows
from bandfall.report.findings import Findings, study
from bandfall.report.page import Report, render_page, report_on

__all__ = ["Findings", "Report", "Rows", "render_page", "report_on", "study"]
