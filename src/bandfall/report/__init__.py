"""Reports: one self-contained HTML page about a fitted model, for numbers or classes."""

from bandfall.report._page import Report, report_on

__all__ = ["Report", "report_on"]
