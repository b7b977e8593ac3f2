"""Reports: one self-contained HTML page about a fitted model, for numbers or classes."""

from bandfall.report.columns import LabelledRows
from bandfall.report.findings import Findings, study
from bandfall.report.page import Report, render_page, report_on
from bandfall.report.score import RivalScore

__all__ = ["Findings", "LabelledRows", "Report", "RivalScore", "render_page", "report_on", "study"]
