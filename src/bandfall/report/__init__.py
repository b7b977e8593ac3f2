"""Reports: one self-contained HTML page about a fitted model, for numbers or classes."""

from bandfall.report._columns import LabelledRows
from bandfall.report._findings import Findings, study
from bandfall.report._page import Report, render_page, report_on
from bandfall.report._score import RivalScore

__all__ = ["Findings", "LabelledRows", "Report", "RivalScore", "render_page", "report_on", "study"]
