"""One self-contained HTML page about a fitted model."""

from bandfall.report.findings import Findings, Rows, study
from bandfall.report.page import render_page
from bandfall.report.pages import Report, report_on

__all__ = ["Findings", "Report", "Rows", "render_page", "report_on", "study"]
