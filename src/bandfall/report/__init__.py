"""One self-contained HTML page about a fitted model."""

from bandfall.report.class_findings import ClassFindings, study_classes
from bandfall.report.class_page import render_class_page
from bandfall.report.findings import Findings, Rows, study
from bandfall.report.page import render_page
from bandfall.report.pages import Report, report_on

__all__ = [
    "ClassFindings",
    "Findings",
    "Report",
    "Rows",
    "render_class_page",
    "render_page",
    "report_on",
    "study",
    "study_classes",
]
